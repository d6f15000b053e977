//! The workloads themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mainspring_core::RunId;
use mainspring_core::state::RunState;
use mainspring_engine::{Client, NodeConfig, Spec, Submission};
use mainspring_store::{Created, RunFilter};
use mainspring_worker::PoolConfig;
use tokio::sync::broadcast::error::RecvError;

use super::report::{Report, median};
use crate::local::{LocalNode, watchdog_command};

const ROUNDS: usize = 5;
const RUNS_PER_SUBMIT: usize = 1_000;

pub(crate) struct Bench {
    pub(crate) database: String,
    pub(crate) client: Client,
    pub(crate) lanes: usize,
}

impl Bench {
    pub(crate) async fn node(&self) -> anyhow::Result<LocalNode> {
        self.node_with(BTreeMap::new()).await
    }

    /// A node that deletes ended runs by these rules when it leads.
    pub(crate) async fn node_with(&self, retention_rules: BTreeMap<String, Duration>) -> anyhow::Result<LocalNode> {
        let config = NodeConfig { name: "bench".into(), lanes: self.lanes, retention_rules, ..NodeConfig::default() };
        let pool = PoolConfig { watchdog: watchdog_command(), ..PoolConfig::default() };
        LocalNode::start(self.client.clone(), config, pool, mainspring_worker::Registry::default()).await
    }

    pub(crate) async fn workflow(&self, source: &str) -> anyhow::Result<Arc<Spec>> {
        let workflow = match mainspring_core::parse(source) {
            Ok(workflow) => workflow,
            Err(errors) => bail!("the benchmark's own workflow is invalid: {}", errors.display("bench")),
        };
        Ok(self.client.put_workflow(workflow, source).await?)
    }

    pub(crate) async fn drain(&self, n: usize, per_run: usize, held_snapshot: bool) -> anyhow::Result<()> {
        let name = if per_run == 1 { "jobs" } else { "drain" };
        let spec = self.workflow(&independent(per_run)).await?;
        let runs = self.submit_runs_of(&spec, n.div_ceil(per_run)).await?.len();
        let snapshot = if held_snapshot { Some(self.client.store().hold_snapshot().await?) } else { None };
        let started = Instant::now();
        let node = self.node().await?;
        let finished = self.wait_for(&node, &spec, runs).await?;
        let name = if held_snapshot { format!("{name}_held") } else { name.to_owned() };
        Report::new(name, runs * per_run, finished.duration_since(started)).print();
        drop(snapshot);
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    /// Submits this many runs in batches of about the same number of tasks.
    pub(crate) async fn submit_runs_of(&self, spec: &Spec, runs: usize) -> anyhow::Result<Vec<RunId>> {
        let per_run = spec.workflow.tasks.len().max(1);
        let mut submitted = Vec::with_capacity(runs);
        while submitted.len() < runs {
            let count = (RUNS_PER_SUBMIT * 2 / per_run).clamp(1, runs - submitted.len());
            let created = self.client.submit_many(spec, vec![Submission::default(); count]).await?;
            submitted.extend(created.into_iter().filter_map(Created::run));
        }
        Ok(submitted)
    }

    /// Waits until this many runs of a workflow have ended successfully, which no others do meanwhile; returns the
    /// instant at which the last did.
    pub(crate) async fn wait_for(&self, node: &LocalNode, spec: &Spec, runs: usize) -> anyhow::Result<Instant> {
        let mut ended = node.handle().ended_runs();
        let mut counted = 0;
        loop {
            match tokio::time::timeout(Duration::from_millis(500), ended.recv()).await {
                Ok(Ok((_, RunState::Success))) => counted += 1,
                Ok(Ok((id, state))) => bail!("run {id} of the benchmark is {state}"),
                Ok(Err(RecvError::Lagged(missed))) => counted += missed as usize,
                Ok(Err(RecvError::Closed)) => bail!("the node has stopped"),
                Err(_) => counted = self.succeeded(spec).await?,
            }
            if counted >= runs {
                return Ok(Instant::now());
            }
        }
    }

    /// How many runs of a workflow have ended successfully and are still there.
    pub(crate) async fn succeeded(&self, spec: &Spec) -> anyhow::Result<usize> {
        let filter = RunFilter {
            state: Some(RunState::Success),
            workflow: Some(spec.workflow.name.clone()),
            ..RunFilter::default()
        };
        Ok(usize::try_from(self.client.store().count_runs(&filter, i64::MAX).await?)?)
    }

    pub(crate) async fn chain(&self, n: usize) -> anyhow::Result<()> {
        let spec = self.workflow(&chain(n, "function: {handler: noop}")).await?;
        let node = self.node().await?;
        let mut rounds = self.rounds(&node, &spec).await?;
        let took = median(&mut rounds);
        Report::new("chain", n, took).with_percentiles(&mut rounds).print();
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    pub(crate) async fn fanout(&self, n: usize) -> anyhow::Result<()> {
        let spec = self.workflow(&fanout(n, "function: {handler: noop}")).await?;
        let node = self.node().await?;
        let mut rounds = self.rounds(&node, &spec).await?;
        let took = median(&mut rounds);
        Report::new("fanout", n, took).with_percentiles(&mut rounds).print();
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    pub(crate) async fn shell(&self, n: usize) -> anyhow::Result<()> {
        let node = self.node().await?;
        for (name, count, source) in [
            ("shell_chain", 40, chain(40, "run: \"true\"\n    shell: sh")),
            ("shell_fanout", n, fanout(n, "run: \"true\"\n    shell: sh")),
        ] {
            let spec = self.workflow(&source).await?;
            let mut rounds = self.rounds(&node, &spec).await?;
            let took = median(&mut rounds);
            Report::new(name, count, took).with_percentiles(&mut rounds).print();
        }
        node.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    /// Submits a run and waits for its end, several times over.
    async fn rounds(&self, node: &LocalNode, spec: &Spec) -> anyhow::Result<Vec<Duration>> {
        let mut took = Vec::with_capacity(ROUNDS);
        for _ in 0..=ROUNDS {
            let mut ended = node.handle().ended_runs();
            let started = Instant::now();
            let created = self.client.submit(spec, Submission::default()).await?;
            let id: RunId = created.run().context("the run was refused")?;
            loop {
                match tokio::time::timeout(Duration::from_secs(300), ended.recv())
                    .await
                    .context("the run does not end")?
                {
                    Ok((run, RunState::Success)) if run == id => break,
                    Ok((run, state)) if run == id => bail!("the run is {state}"),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => bail!("the node has stopped"),
                }
            }
            took.push(started.elapsed());
        }
        // The first round warms caches and plans up.
        took.remove(0);
        Ok(took)
    }

    pub(crate) async fn enqueue(&self, n: usize) -> anyhow::Result<()> {
        Report::new("enqueue", n, self.enqueue_batched(n).await?).print();
        let spec = self.workflow(&independent(1)).await?;
        let singles = (n / 50).clamp(1, 2_000);
        let mut samples = Vec::with_capacity(singles);
        let started = Instant::now();
        for _ in 0..singles {
            let begun = Instant::now();
            self.client.submit(&spec, Submission::default()).await?;
            samples.push(begun.elapsed());
        }
        Report::new("enqueue_single", singles, started.elapsed()).with_percentiles(&mut samples).print();
        Ok(())
    }

    /// Submits one-task runs in batches; how long that took.
    pub(crate) async fn enqueue_batched(&self, n: usize) -> anyhow::Result<Duration> {
        // As a server does.
        self.client.announce_in_background();
        let spec = self.workflow(&independent(1)).await?;
        let started = Instant::now();
        let mut sent = 0;
        while sent < n {
            let count = RUNS_PER_SUBMIT.min(n - sent);
            self.client.submit_many(&spec, vec![Submission::default(); count]).await?;
            sent += count;
        }
        Ok(started.elapsed())
    }
}

/// Tasks that do not depend on each other.
pub(crate) fn independent(tasks: usize) -> String {
    let mut source = format!("name: bench-{tasks}\ntasks:\n");
    for index in 0..tasks {
        let _ = writeln!(source, "  t{index}: {{function: {{handler: noop}}}}");
    }
    source
}

fn chain(links: usize, action: &str) -> String {
    let kind = if action.starts_with("run") { "shell" } else { "function" };
    let mut source = format!("name: bench-chain-{kind}-{links}\ntasks:\n");
    for index in 0..links {
        let _ = writeln!(source, "  t{index}:\n    {action}");
        if index > 0 {
            let _ = writeln!(source, "    needs: [t{}]", index - 1);
        }
    }
    source
}

fn fanout(width: usize, action: &str) -> String {
    let kind = if action.starts_with("run") { "shell" } else { "function" };
    let mut source = format!("name: bench-fanout-{kind}-{width}\ntasks:\n  first:\n    {action}\n");
    for index in 0..width {
        let _ = writeln!(source, "  t{index}:\n    {action}\n    needs: [first]");
    }
    let _ = write!(
        source,
        "  last:\n    {action}\n    needs: [{}]\n",
        (0..width).map(|index| format!("t{index}")).collect::<Vec<_>>().join(", ")
    );
    source
}
