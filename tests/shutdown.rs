//! SIGTERM under load, again and again: nothing is lost, nothing is executed twice, and work goes on elsewhere soon.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_store::Flavor;
use mainspring_testkit::TestDatabase;
use mainspring_testkit::invariants::check_at_rest;
use mainspring_testkit::server::ServerPlan;
use mainspring_testkit::wait::until;

const PATIENCE: Duration = Duration::from_secs(120);
const RUNS_PER_ROUND: usize = 12;
/// How many tasks are executed between two stops of a server.
const BUSY: usize = 4;

/// Every execution leaves a line.
const SOURCE: &str = r#"
name: handover
env: {EFFECTS: "@EFFECTS@"}
tasks:
  first: {run: 'echo "$MAINSPRING_TASK_ID" >> "$EFFECTS"; sleep 0.05'}
  second: {needs: first, run: 'echo "$MAINSPRING_TASK_ID" >> "$EFFECTS"; sleep 0.05'}
  third: {needs: second, run: 'echo "$MAINSPRING_TASK_ID" >> "$EFFECTS"'}
"#;

fn executed(effects: &Path) -> Vec<String> {
    std::fs::read_to_string(effects).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
}

async fn until_more(effects: &Path, than: usize) {
    until("tasks are executed", PATIENCE, async || Ok((executed(effects).len() > than).then_some(()))).await.unwrap();
}

/// On SQLite the next server follows the one that stops; on PostgreSQL another is there meanwhile.
#[expect(clippy::print_stderr, reason = "how long a hand-over takes is part of the result")]
async fn check(flavor: Flavor, rounds: usize) {
    let database = TestDatabase::new(flavor).await;
    let folder = tempfile::tempdir().unwrap();
    let effects = folder.path().join("effects");
    let source = SOURCE.replace("@EFFECTS@", &effects.display().to_string());
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let spec = client.put_workflow(mainspring_core::parse(&source).unwrap(), &source).await.unwrap();
    let plan = ServerPlan::new(database.url(), folder.path()).set("MAINSPRING_WORKER_SLOTS", "4");
    let mut servers = vec![plan.start().unwrap()];
    if flavor == Flavor::Postgres {
        servers.push(plan.start().unwrap());
    }
    let (mut runs, mut stops, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        for _ in 0..RUNS_PER_ROUND {
            runs.push(client.submit(&spec, Submission::default()).await.unwrap().run().unwrap());
        }
        until_more(&effects, executed(&effects).len() + BUSY).await;
        let mut server = servers.remove(0);
        server.address(PATIENCE).await.unwrap();
        let began = Instant::now();
        server.stop(PATIENCE).await.unwrap();
        stops.push(began.elapsed());
        let so_far = executed(&effects).len();
        servers.push(plan.start().unwrap());
        if so_far < runs.len() * 3 {
            until_more(&effects, so_far).await;
            pauses.push(began.elapsed());
        }
    }
    for run in &runs {
        let ended = until("every run ends", PATIENCE, async || {
            let state = client.store().run_summary(*run).await?.state;
            Ok(state.is_terminal().then_some(state))
        });
        assert_eq!(ended.await.unwrap().word(), "success");
    }
    for mut server in servers {
        server.stop(PATIENCE).await.unwrap();
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    executed(&effects).into_iter().for_each(|task| *counts.entry(task).or_default() += 1);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "executed more than once: {twice:?}");
    assert_eq!(counts.len(), runs.len() * 3, "every task of every run was executed");
    let violations = check_at_rest(database.url()).await.unwrap();
    assert!(violations.is_empty(), "{violations:?}");
    eprintln!(
        "{flavor:?}: {rounds} times SIGTERM; until it has stopped {}; until work goes on {}",
        told(stops),
        told(pauses)
    );
}

fn told(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).or(times.last()).copied().unwrap_or_default();
    format!("p50 {:?}, p95 {:?}, at most {:?}", at(50), at(95), times.last().copied().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_load_loses_nothing_on_sqlite() {
    check(Flavor::Sqlite, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_load_loses_nothing_on_postgres() {
    check(Flavor::Postgres, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_sigterm_under_load_fifty_times_on_sqlite() {
    check(Flavor::Sqlite, 50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_sigterm_under_load_fifty_times_on_postgres() {
    check(Flavor::Postgres, 50).await;
}
