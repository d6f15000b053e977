//! What a task finds open: its three streams, and nothing of the server's or of the program that started the server.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::state::RunState;
use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_store::Flavor;
use mainspring_testkit::TestDatabase;
use mainspring_testkit::server::ServerPlan;
use mainspring_testkit::wait::until;

const PATIENCE: Duration = Duration::from_secs(60);

/// A shell with a limit, a shell without, and another interpreter: each way a process is started.
const SOURCE: &str = r#"
name: descriptors
tasks:
  shell: {run: 'ls -l /proc/self/fd > listed; echo "open=$(grep -c -- "->" listed) $(grep -- "->" listed | tr "\n" ";")" >> "$MAINSPRING_OUTPUT"'}
  limited:
    run: 'ls -l /proc/self/fd > listed; echo "open=$(grep -c -- "->" listed) $(grep -- "->" listed | tr "\n" ";")" >> "$MAINSPRING_OUTPUT"'
    limits: {files: 100}
  python:
    shell: python3
    run: |
      import os
      seen = []
      for name in os.listdir("/proc/self/fd"):
          try:
              seen.append(name + " -> " + os.readlink("/proc/self/fd/" + name))
          except FileNotFoundError:
              pass
      with open(os.environ["MAINSPRING_OUTPUT"], "a") as file:
          file.write("open=" + str(len(seen) + 1) + " " + ";".join(seen) + "\n")
"#;

async fn check(flavor: Flavor) {
    let database = TestDatabase::new(flavor).await;
    let folder = tempfile::tempdir().unwrap();
    let plan = ServerPlan::new(database.url(), folder.path()).with_descriptors_left_open();
    let mut server = plan.start().unwrap();
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let spec = client.put_workflow(mainspring_core::parse(SOURCE).unwrap(), SOURCE).await.unwrap();
    let run = client.submit(&spec, Submission::default()).await.unwrap().run().unwrap();
    let state = until("the run ends", PATIENCE, async || {
        let state = client.store().run_summary(run).await?.state;
        Ok(state.is_terminal().then_some(state))
    })
    .await
    .unwrap();
    let ended = client.store().ended_tasks(run, &[0, 1, 2]).await.unwrap();
    assert_eq!(state, RunState::Success, "{ended:?}\n{}", server.last_lines(20));
    assert_eq!(ended.len(), 3);
    for task in ended {
        let output = task.output.expect("an output");
        let open = output["open"].as_str().expect("a text");
        assert!(open.starts_with("4 "), "three streams and the folder being listed, but task {} sees {open}", task.key);
    }
    server.stop(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_task_inherits_nothing_of_a_server_on_sqlite() {
    check(Flavor::Sqlite).await;
}

#[tokio::test]
async fn a_task_inherits_nothing_of_a_server_on_postgres() {
    check(Flavor::Postgres).await;
}
