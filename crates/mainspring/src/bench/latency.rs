//! From the beginning of a submit call to the start of its handler, on an idle system.

use std::time::{Duration, Instant};

use anyhow::Context;
use mainspring_core::state::RunState;
use mainspring_engine::Submission;

use super::report::Report;
use super::workloads::Bench;

pub(crate) const EVERY: Duration = Duration::from_millis(20);

impl Bench {
    pub(crate) async fn latency(&self, n: usize) -> anyhow::Result<()> {
        let spec = self.workflow("name: bench-latency\ntasks:\n  t: {function: {handler: noop}}\n").await?;
        let node = self.node().await?;
        let mut ended = node.handle().ended_runs();
        let mut samples = Vec::with_capacity(n);
        let mut ticks = tokio::time::interval(EVERY);
        let started = Instant::now();
        // The first jobs warm caches and plans up.
        for round in 0..n + 10 {
            ticks.tick().await;
            let begun_at = self.client.now();
            let created = self.client.submit(&spec, Submission::default()).await?;
            let id = created.run().context("the run was refused")?;
            while !matches!(ended.recv().await?, (run, RunState::Success) if run == id) {}
            if round >= 10 {
                let rows = self.client.store().ended_tasks(id, &[]).await?;
                let handler_started = rows.first().and_then(|row| row.started_at).context("the task has no start")?;
                samples.push(Duration::from_micros(u64::try_from(handler_started - begun_at).unwrap_or(0)));
            }
        }
        Report::new("latency", n, started.elapsed()).with_percentiles(&mut samples).print();
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }
}
