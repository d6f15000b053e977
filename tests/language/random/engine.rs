//! Runs plans on the real engine, many at once, and compares every row with the reference.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::RunId;
use mainspring_core::work::Failure;
use mainspring_engine::{Client, Submission};
use mainspring_store::{Flavor, TaskRunRow};
use mainspring_testkit::node::TestNode;
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, invariants};
use mainspring_worker::{FunctionCall, FunctionResult, Registry};
use serde_json::json;
use tokio::sync::watch;

use super::generate;
use super::plan::{Outcome, Plan, outcome};
use super::reference::{Expected, TaskEnd, interpret};

const PATIENCE: Duration = Duration::from_secs(120);
/// A database is left behind after this many runs.
const RUNS_PER_DATABASE: usize = 5_000;

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) runs: usize,
    /// Runs of the same workflow with different outcomes.
    pub(super) per_plan: usize,
    pub(super) at_once: usize,
}

#[expect(clippy::print_stderr, reason = "a failure can be repeated only by its seed")]
pub(super) async fn check(flavor: Flavor, seed: u64, size: Size) {
    eprintln!("{flavor:?}: seed {seed}, {size:?}");
    let started = Instant::now();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut left, mut task_runs) = (size.runs, 0);
    while left > 0 {
        let here = left.min(RUNS_PER_DATABASE);
        task_runs += check_on_one_database(flavor, &mut random, here, size, seed).await;
        left -= here;
        eprintln!("{} runs, {task_runs} task runs in {:?}", size.runs - left, started.elapsed());
    }
}

async fn check_on_one_database(
    flavor: Flavor,
    random: &mut fastrand::Rng,
    runs: usize,
    size: Size,
    seed: u64,
) -> usize {
    let database = TestDatabase::new(flavor).await;
    let seeds = Seeds::default();
    let node = TestNode::start(database.store(), seeds.registry()).await.expect("a node starts");
    let (mut made, mut task_runs) = (0, 0);
    while made < runs {
        let mut batch = Vec::new();
        while batch.len() < size.at_once.min(runs - made) {
            let plan = Arc::new(generate::plan(random));
            let count = size.per_plan.min(size.at_once.min(runs - made) - batch.len());
            let drawn: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
            let name = format!("w{}", made + batch.len());
            batch.extend(seeds.submit(node.client(), &name, &plan, &drawn).await);
        }
        made += batch.len();
        wait_for_all(node.client()).await;
        for (run, plan, drawn) in &batch {
            task_runs += compare(node.client(), *run, plan, *drawn, seed).await;
        }
    }
    let wrong = invariants::check_at_rest(database.url()).await.expect("the invariants can be checked");
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    node.stop().await;
    task_runs
}

async fn wait_for_all(client: &Client) {
    until("every run ends", PATIENCE, async || {
        let counts = client.store().run_counts().await?;
        Ok(counts.iter().all(|count| count.state.is_terminal()).then_some(()))
    })
    .await
    .expect("every run ends");
}

/// Fails with everything there is to know if a run did not end as the reference says. Returns how many rows it had.
async fn compare(client: &Client, run: RunId, plan: &Plan, drawn: u64, seed: u64) -> usize {
    let store = client.store();
    let rows = store.task_runs(run).await.expect("the rows can be read");
    let expected = interpret(plan, drawn);
    let got = Expected {
        state: store.run_summary(run).await.expect("the run can be read").state.word(),
        tasks: (0..plan.tasks.len()).map(|task| end_of(&rows, task)).collect(),
        dead_letters: store.pending_dead_letters(run).await.expect("the letters can be counted"),
    };
    if got == expected {
        return rows.len();
    }
    let text = plan.text("w");
    let differing: Vec<String> = expected
        .tasks
        .iter()
        .zip(&got.tasks)
        .enumerate()
        .filter(|(_, (expected, got))| expected != got)
        .map(|(task, (expected, got))| format!("t{task}\n  expected {expected:?}\n  got      {got:?}"))
        .collect();
    panic!(
        "seed {seed}, outcomes {drawn}\n{text}expected {} with {} letters, got {} with {}\n{}",
        expected.state,
        expected.dead_letters,
        got.state,
        got.dead_letters,
        differing.join("\n")
    );
}

fn end_of(rows: &[TaskRunRow], task: usize) -> TaskEnd {
    let own: Vec<&TaskRunRow> = rows.iter().filter(|row| row.key.index as usize == task).collect();
    let end = |row: &TaskRunRow| TaskEnd {
        state: row.state.word(),
        attempts: row.attempt,
        output: row.output.clone(),
        items: Vec::new(),
    };
    let Some(parent) = own.iter().find(|row| row.key.item < 0) else {
        return TaskEnd { state: "missing", attempts: 0, output: None, items: Vec::new() };
    };
    let items = own.iter().filter(|row| row.key.item >= 0).map(|row| end(row)).collect();
    TaskEnd { items, ..end(parent) }
}

/// Which outcomes a run has. A task may be executed before its run is known here, and then waits.
#[derive(Debug, Clone)]
struct Seeds {
    known: Arc<Mutex<HashMap<RunId, u64>>>,
    changed: watch::Sender<()>,
}

impl Default for Seeds {
    fn default() -> Self {
        Self { known: Arc::default(), changed: watch::channel(()).0 }
    }
}

impl Seeds {
    fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let seeds = self.clone();
        registry.register("outcome", move |call: FunctionCall| seeds.clone().execute(call));
        registry
    }

    async fn execute(self, call: FunctionCall) -> FunctionResult {
        let mut changed = self.changed.subscribe();
        let seed = loop {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&call.key.run).copied();
            match known {
                Some(seed) => break seed,
                // The sender lives as long as this handler.
                None => _ = changed.changed().await,
            }
        };
        match outcome(seed, call.key.index as usize, call.key.item, call.attempt) {
            Outcome::Well(count) => Ok(Some(json!(vec![0; count]))),
            Outcome::Exit(code) => Err(Failure {
                kind: "exit".into(),
                message: "as it was settled".into(),
                exit_code: Some(code),
                ..Failure::default()
            }),
            Outcome::Badly { kind, permanent } => {
                Err(Failure { kind: kind.into(), message: "as it was settled".into(), permanent, ..Failure::default() })
            }
        }
    }

    async fn submit(
        &self,
        client: &Client,
        name: &str,
        plan: &Arc<Plan>,
        drawn: &[u64],
    ) -> Vec<(RunId, Arc<Plan>, u64)> {
        let text = plan.text(name);
        let workflow = mainspring_core::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        let spec = client.put_workflow(workflow, &text).await.expect("the workflow is stored");
        let submissions = vec![Submission::default(); drawn.len()];
        let created = client.submit_many(&spec, submissions).await.expect("the runs are made");
        let runs: Vec<RunId> = created.iter().map(|created| created.run().expect("nothing is refused")).collect();
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(runs.iter().copied().zip(drawn.iter().copied()));
        self.changed.send_replace(());
        runs.into_iter().zip(drawn).map(|(run, drawn)| (run, Arc::clone(plan), *drawn)).collect()
    }
}
