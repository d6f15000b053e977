//! Old runs that are deleted beside a drain: what that costs the drain, and whether what was due is gone at the end and
//! nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use mainspring_core::work::{LogLine, LogStream};
use mainspring_core::{RunId, TaskKey};
use mainspring_engine::Spec;
use mainspring_store::{LogCursor, StoredChunk};

use super::report::Report;
use super::workloads::{Bench, independent};

const OLD: &str = "name: bench-old\ntasks:\n  t: {function: {handler: noop}}\n";
/// All old runs ended longer ago.
const KEPT_FOR: Duration = Duration::from_millis(1);
const CHUNKS_PER_APPEND: usize = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(900);
/// Of how many runs the rows in other tables are looked at.
const LOOKED_AT: usize = 200;

impl Bench {
    /// N tasks are drained while the leader deletes this many one-task runs, each with its history and its output.
    pub(crate) async fn drain_beside_retention(&self, n: usize, per_run: usize, old: usize) -> anyhow::Result<()> {
        let name = if per_run == 1 { "jobs_retention" } else { "drain_retention" };
        let (old_spec, old_runs) = self.make_old_runs(old).await?;
        let spec = self.workflow(&independent(per_run)).await?;
        let runs = self.submit_runs_of(&spec, n.div_ceil(per_run)).await?;
        let rule = format!("{}/{}", old_spec.workflow.namespace, old_spec.workflow.name);
        let started = Instant::now();
        let node = self.node_with(BTreeMap::from([(rule, KEPT_FOR)])).await?;
        let finished = self.wait_for(&node, &spec, runs.len()).await?;
        let deleted = old - self.succeeded(&old_spec).await?;
        while self.succeeded(&old_spec).await? > 0 {
            if started.elapsed() > PATIENCE {
                bail!("old runs are still there after {} minutes", PATIENCE.as_secs() / 60);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let all_deleted = started.elapsed();
        node.shutdown(Duration::from_secs(5)).await;
        self.check_left(&old_runs, &spec, &runs).await?;
        Report::new(name, runs.len() * per_run, finished.duration_since(started))
            .with("old", old.into())
            .with("deleted_meanwhile", deleted.into())
            .with("all_deleted_seconds", all_deleted.as_secs_f64().into())
            .with("deleted_rate", (old as f64 / all_deleted.as_secs_f64().max(1e-9)).into())
            .print();
        Ok(())
    }

    /// Runs that were executed and have printed something.
    async fn make_old_runs(&self, count: usize) -> anyhow::Result<(Arc<Spec>, Vec<RunId>)> {
        let spec = self.workflow(OLD).await?;
        let runs = self.submit_runs_of(&spec, count).await?;
        let node = self.node().await?;
        self.wait_for(&node, &spec, count).await?;
        node.shutdown(Duration::from_secs(5)).await;
        let at = self.client.now();
        for some in runs.chunks(CHUNKS_PER_APPEND) {
            let chunks: Vec<_> = some.iter().map(|run| output_of(*run, at)).collect();
            self.client.store().append_logs(&chunks).await?;
        }
        Ok((spec, runs))
    }

    /// Fails if an old run has left something, or if a run that was drained is not whole.
    async fn check_left(&self, old: &[RunId], spec: &Spec, drained: &[RunId]) -> anyhow::Result<()> {
        let store = self.client.store();
        for run in old.iter().step_by(old.len().div_ceil(LOOKED_AT).max(1)) {
            let rows = store.ended_tasks(*run, &[]).await?.len();
            let lines = store.read_logs(first_task(*run), None, LogCursor::default(), 1).await?.len();
            ensure!(rows + lines == 0, "the deleted run {run} has left something");
        }
        let kept = self.succeeded(spec).await?;
        ensure!(kept == drained.len(), "{kept} of {} runs are there that are to be kept", drained.len());
        for run in drained.iter().step_by(drained.len().div_ceil(LOOKED_AT).max(1)) {
            let rows = store.ended_tasks(*run, &[]).await?.len();
            ensure!(rows == spec.workflow.tasks.len(), "{rows} task runs of the run {run} are there");
        }
        Ok(())
    }
}

fn first_task(run: RunId) -> TaskKey {
    TaskKey { run, index: 0, item: -1 }
}

fn output_of(run: RunId, at: i64) -> StoredChunk {
    let text = "what a task prints in one line of an ordinary length".to_owned();
    StoredChunk {
        key: first_task(run),
        attempt: 1,
        chunk: 1,
        lines: vec![LogLine { at, stream: LogStream::Stdout, text }],
    }
}
