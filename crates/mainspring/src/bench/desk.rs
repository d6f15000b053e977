//! The operator's desk: one batch that heals many failed runs, and the detector of stale runs beside many healthy ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mainspring_core::state::RunState;
use mainspring_core::work::Failure;
use mainspring_engine::{BatchRequest, LetterAction, NodeConfig, Spec, Submission};
use mainspring_store::{LetterFilter, Operator};
use mainspring_worker::{FunctionCall, PoolConfig, Registry};

use super::report::Report;
use super::workloads::Bench;
use crate::local::{LocalNode, watchdog_command};

const RUNS_PER_SUBMIT: usize = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const CALLS_AT_ONCE: usize = 4;

const FAILING: &str = "name: bench-dead-letters\ntasks:\n  load: {function: {handler: repaired}}\n";
const STALE: &str =
    "name: bench-stale\nlifecycle: {waiting_for_dependencies: 1ms}\ntasks:\n  t: {function: {handler: noop}}\n";
const HEALTHY: &str = "name: bench-healthy\ntasks:\n  t: {function: {handler: noop}}\n";

impl Bench {
    /// N failing runs become N entries of one group; once the cause is gone, one batch retries them all.
    pub(crate) async fn dead_letters(&self, n: usize) -> anyhow::Result<()> {
        let is_repaired = Arc::new(AtomicBool::new(false));
        let spec = self.workflow(FAILING).await?;
        self.submit_runs(&spec, n).await?;
        let started = Instant::now();
        let node = self.failing_node(&is_repaired).await?;
        self.until("the runs fail", async || Ok(self.runs_in(RunState::Failed).await? >= n)).await?;
        Report::new("dead_letters_written", n, started.elapsed()).print();
        let everything = LetterFilter { limit: 10, ..LetterFilter::default() };
        self.until("the entries are complete", async || Ok(self.client.capture_letters(1_000).await? == 0)).await?;
        Report::new("dead_letters_complete", n, started.elapsed()).print();
        let groups = self.client.store().letter_groups(self.client.now(), &everything).await?;
        ensure!(groups.len() == 1 && groups[0].count == n as i64, "{n} failures of one cause are not one group");

        is_repaired.store(true, Ordering::Release);
        let filter = LetterFilter { fingerprint: Some(groups[0].fingerprint.clone()), ..LetterFilter::default() };
        let operator = Operator::new("bench", Some("the cause is gone".into()));
        let began = Instant::now();
        let request = BatchRequest { filter, action: LetterAction::Retry, operator };
        let batch = self.client.start_batch(request).await?.context("the batch found nothing")?;
        self.until("the batch is done", async || Ok(self.client.store().batch(batch).await?.is_done)).await?;
        let acted = began.elapsed();
        self.until("the runs are healed", async || Ok(self.runs_in(RunState::Success).await? >= n)).await?;
        let took = began.elapsed();
        let done = self.client.store().batch(batch).await?;
        ensure!(done.done == n as i64 && done.failed == 0, "{} of {n} were retried: {:?}", done.done, done.error);
        Report::new("dead_letters_batch_retry", n, took).with("acted_seconds", acted.as_secs_f64().into()).print();
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    /// N open runs, a tenth of them stale: how long a dry run takes, and giving them up by four calls at once. Then the
    /// same again by one call alone.
    pub(crate) async fn staleness(&self, n: usize) -> anyhow::Result<()> {
        let stale = n / 10;
        let (healthy, still) = (self.workflow(HEALTHY).await?, self.workflow(STALE).await?);
        self.submit_runs(&healthy, n - stale).await?;
        self.submit_runs(&still, stale).await?;
        let batch = NodeConfig::default().desk.batch_size;
        let started = Instant::now();
        let would = self.client.detect_stale(None, None, batch, true).await?;
        Report::new("staleness_dry_run", n, started.elapsed()).with("stale", would.len().into()).print();
        ensure!(would.len() == stale, "{} of {stale} stale runs were found", would.len());
        let open = self.runs_in(RunState::Running).await?;
        ensure!(open == n, "a dry run left {open} of {n} runs open");

        let started = Instant::now();
        let calls = (0..CALLS_AT_ONCE).map(|_| {
            let client = self.client.clone();
            tokio::spawn(async move { client.detect_stale(None, None, batch, false).await })
        });
        let mut moved = 0;
        for call in calls.collect::<Vec<_>>() {
            moved += call.await??.iter().filter(|one| one.moved_to_dlq).count();
        }
        Report::new("staleness_four_calls", n, started.elapsed()).with("moved_to_dlq", moved.into()).print();
        ensure!(moved == stale, "{moved} entries were made for {stale} stale runs");
        ensure!(self.runs_in(RunState::Failed).await? == stale, "every stale run is failed");

        self.submit_runs(&still, stale).await?;
        let started = Instant::now();
        let found = self.client.detect_stale(None, None, batch, false).await?;
        let moved = found.iter().filter(|one| one.moved_to_dlq && one.transition_success).count();
        Report::new("staleness_detect", n, started.elapsed()).with("moved_to_dlq", moved.into()).print();
        ensure!(moved == stale, "{moved} of {stale} stale runs were given up");
        Ok(())
    }

    async fn submit_runs(&self, spec: &Spec, n: usize) -> anyhow::Result<()> {
        let mut sent = 0;
        while sent < n {
            let count = RUNS_PER_SUBMIT.min(n - sent);
            sent += self.client.submit_many(spec, vec![Submission::default(); count]).await?.len();
        }
        Ok(())
    }

    /// A node whose one handler fails until the cause is gone.
    async fn failing_node(&self, is_repaired: &Arc<AtomicBool>) -> anyhow::Result<LocalNode> {
        let is_repaired = Arc::clone(is_repaired);
        let handler = move |_: FunctionCall| {
            let is_repaired = Arc::clone(&is_repaired);
            async move {
                match is_repaired.load(Ordering::Acquire) {
                    true => Ok(None),
                    false => Err(Failure {
                        kind: "away".into(),
                        message: "the warehouse is away".into(),
                        ..Failure::default()
                    }),
                }
            }
        };
        let config = NodeConfig { name: "bench".into(), lanes: self.lanes, ..NodeConfig::default() };
        let pool = PoolConfig { watchdog: watchdog_command(), ..PoolConfig::default() };
        LocalNode::start(self.client.clone(), config, pool, Registry::builder().handler("repaired", handler).build())
            .await
    }

    async fn runs_in(&self, state: RunState) -> anyhow::Result<usize> {
        let counts = self.client.store().run_counts().await?;
        Ok(counts.iter().find(|count| count.state == state).map_or(0, |count| count.runs as usize))
    }

    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let started = Instant::now();
        while !is_so().await? {
            if started.elapsed() > Duration::from_secs(600) {
                bail!("{what}: not within 10 minutes");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}
