//! The store is out of reach for longer than the lease: a task that must not go on without it is killed and executed
//! again, its neighbour goes on and is handed in afterwards. The server is the real one, with its watchdog.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::RunId;
use mainspring_core::state::RunState;
use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::http::JsonRequest;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::proxy::{Fault, Proxy};
use mainspring_testkit::server::ServerPlan;
use mainspring_testkit::wait::until;
use mainspring_worker::Registry;
use sqlx::{Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);

/// Both hang when they are executed first. Who is executed again succeeds at once.
const SOURCE: &str = r#"
name: outage
env: {HERE: "@HERE@"}
tasks:
  impatient:
    on_store_loss: kill
    run: |
      test -e "$HERE/impatient" && exit 0
      echo $$ > "$HERE/impatient.new" && mv "$HERE/impatient.new" "$HERE/impatient"
      exec sleep 1000
  patient:
    on_store_loss: continue
    run: |
      echo $$ > "$HERE/patient.new" && mv "$HERE/patient.new" "$HERE/patient"
      until test -e "$HERE/go"; do sleep 0.05; done
      echo "went=on" >> "$MAINSPRING_OUTPUT"
"#;

async fn process_of(folder: &Path, task: &str) -> String {
    until(&format!("{task} starts"), PATIENCE, async || {
        Ok(std::fs::read_to_string(folder.join(task)).ok().map(|text| text.trim().to_owned()))
    })
    .await
    .unwrap()
}

async fn gone(process: &str) {
    let status = format!("/proc/{process}/status");
    until("a process ends", PATIENCE, async || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        Ok((text.is_empty() || text.contains("State:\tZ")).then_some(()))
    })
    .await
    .unwrap();
}

async fn submit(client: &Client, folder: &Path) -> RunId {
    let source = SOURCE.replace("@HERE@", &folder.display().to_string());
    let workflow = mainspring_core::parse(&source).unwrap();
    let spec = client.put_workflow(workflow, &source).await.unwrap();
    client.submit(&spec, Submission::default()).await.unwrap().run().unwrap()
}

/// The number of the attempt that ended a task, and its output.
async fn end_of(client: &Client, run: RunId, index: i32) -> (i32, Option<serde_json::Value>) {
    let ended = client.store().ended_tasks(run, &[index]).await.unwrap();
    (ended[0].attempt, ended[0].output.clone())
}

async fn check(own: &str) {
    let database = TestDatabase::postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerPlan::new(proxy.url(), folder.path())
        .set("MAINSPRING_WORKER_LEASE_TTL", "2s")
        .set("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", "200ms")
        .set("MAINSPRING_WORKER_ON_STORE_LOSS", own)
        .start()
        .unwrap();
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let run = submit(&client, folder.path()).await;
    until("the server serves", PATIENCE, async || Ok(server.last_lines(100).contains("listening on").then_some(())))
        .await
        .unwrap();
    let impatient = process_of(folder.path(), "impatient").await;
    let patient = process_of(folder.path(), "patient").await;
    proxy.go_away();
    gone(&impatient).await;
    assert!(Path::new(&format!("/proc/{patient}")).exists(), "the neighbour goes on");
    std::fs::write(folder.path().join("go"), "").unwrap();
    gone(&patient).await;
    assert_eq!(client.store().run_summary(run).await.unwrap().state, RunState::Running, "nothing can be handed in");
    proxy.come_back();
    let ended = until("the run ends", PATIENCE, async || {
        let state = client.store().run_summary(run).await?.state;
        Ok(state.is_terminal().then_some(state))
    });
    let ended = ended.await.unwrap_or_else(|error| panic!("{error}\n{}", server.last_lines(60)));
    assert_eq!(ended, RunState::Success, "{}", server.last_lines(60));
    assert_eq!(end_of(&client, run, 0).await, (2, None), "killed, handed back, executed again");
    assert_eq!(end_of(&client, run, 1).await, (1, Some(serde_json::json!({"went": "on"}))));
    server.stop(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn what_a_task_says_of_a_lost_store_wins_over_a_worker_that_kills() {
    check("kill").await;
}

#[tokio::test]
async fn what_a_task_says_of_a_lost_store_wins_over_a_worker_that_goes_on() {
    check("continue").await;
}

/// The results of what ended meanwhile cannot be handed in: their tasks are executed again once the session is found dead.
#[tokio::test]
async fn a_server_that_is_stopped_while_the_store_is_away_leaves() {
    let database = TestDatabase::postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerPlan::new(proxy.url(), folder.path()).start().unwrap();
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    server.address(PATIENCE).await.unwrap();
    submit(&client, folder.path()).await;
    let patient = process_of(folder.path(), "patient").await;
    proxy.go_away();
    std::fs::write(folder.path().join("go"), "").unwrap();
    gone(&patient).await;
    server.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}\n{}", server.last_lines(30)));
}

/// The pool keeps its connections, the lanes have lost theirs and get no others.
#[tokio::test]
async fn a_node_that_is_stopped_while_its_lanes_get_no_connection_ends() {
    let database = TestDatabase::postgres().await;
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let node = TestNode::start(database.store(), Registry::builder().build()).await.unwrap();
    let source =
        format!("{{name: away, tasks: {{a: {{run: 'until test -e {}; do sleep 0.02; done'}}}}}}", go.display());
    let spec = node.client().put_workflow(mainspring_core::parse(&source).unwrap(), &source).await.unwrap();
    node.client().submit(&spec, Submission::default()).await.unwrap();
    until("the task runs", PATIENCE, async || Ok((node.running() > 0).then_some(()))).await.unwrap();
    let options: sqlx::postgres::PgConnectOptions = database.url().parse().unwrap();
    let name = options.get_database().unwrap().to_owned();
    let mut operator = PgConnection::connect_with(&options.database("postgres")).await.unwrap();
    let refuse = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
    sqlx::raw_sql(sqlx::AssertSqlSafe(refuse)).execute(&mut operator).await.unwrap();
    let cut =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND query LIKE '%exchange_v1%'";
    let lanes = sqlx::query(cut).bind(&name).fetch_all(&mut operator).await.unwrap();
    assert!(!lanes.is_empty());
    std::fs::write(go, "").unwrap();
    until("the task has ended", PATIENCE, async || Ok((node.running() == 0).then_some(()))).await.unwrap();
    tokio::time::timeout(PATIENCE, node.stop()).await.expect("it ends");
    let allow = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true");
    sqlx::raw_sql(sqlx::AssertSqlSafe(allow)).execute(&mut operator).await.unwrap();
}

#[tokio::test]
async fn a_result_whose_failure_the_database_refuses_too_is_handed_in_until_it_is_taken() {
    let database = TestDatabase::postgres().await;
    let node = TestNode::start(database.store(), Registry::builder().build()).await.unwrap();
    let mut operator = PgConnection::connect(database.url()).await.unwrap();
    let refuse = "CREATE SEQUENCE refusals; \
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM nextval('refusals'); RAISE EXCEPTION 'not now'; END $$; \
        CREATE TRIGGER refuse BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION refuse()";
    sqlx::raw_sql(refuse).execute(&mut operator).await.unwrap();
    let source = "{name: refused, tasks: {a: {run: 'true'}}}";
    let spec = node.client().put_workflow(mainspring_core::parse(source).unwrap(), source).await.unwrap();
    let run = node.client().submit(&spec, Submission::default()).await.unwrap().run().unwrap();
    until("the batch, the result alone and its failure are refused", PATIENCE, async || {
        let (refusals,): (i64,) = sqlx::query_as("SELECT last_value FROM refusals").fetch_one(&mut operator).await?;
        Ok((refusals >= 3).then_some(()))
    })
    .await
    .unwrap();
    sqlx::raw_sql("DROP TRIGGER refuse ON history").execute(&mut operator).await.unwrap();
    let ended = until("the run ends", PATIENCE, async || {
        let state = database.store().run_summary(run).await?.state;
        Ok(state.is_terminal().then_some(state))
    });
    assert_eq!(ended.await.unwrap(), RunState::Success);
    node.stop().await;
}

#[tokio::test]
async fn health_answers_soon_while_the_database_is_silent() {
    let database = TestDatabase::postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerPlan::new(proxy.url(), folder.path()).start().unwrap();
    let address = server.address(PATIENCE).await.unwrap();
    let token = String::new();
    let ask = |target: &str| JsonRequest {
        method: "GET",
        target: target.into(),
        token: token.clone(),
        key: None,
        body: String::new(),
    };
    until("everything is well", PATIENCE, async || {
        let (_, answer) = ask("/health").send(address).await?;
        Ok(answer.contains(r#""status":"healthy","timestamp""#).then_some(()))
    })
    .await
    .unwrap();
    proxy.disturb(1, 1, &[Fault::Stall(Duration::from_secs(40))]);
    let stalled = until("the database is found silent", PATIENCE, async || {
        let began = std::time::Instant::now();
        let (status, answer) = ask("/health").send(address).await?;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}: {answer}", began.elapsed());
        assert_eq!(status, 200, "{answer}");
        Ok(answer.contains(r#""database":{"status":"unhealthy"}"#).then_some(answer))
    })
    .await
    .unwrap();
    assert!(stalled.contains(r#""status":"unhealthy","timestamp""#), "{stalled}");
    assert_eq!(ask("/ready").send(address).await.unwrap().0, 503);
    assert_eq!(ask("/live").send(address).await.unwrap().0, 200);
    proxy.calm();
    proxy.cut_all();
    until("it is well again", PATIENCE, async || {
        let (_, answer) = ask("/health").send(address).await?;
        Ok(answer.contains(r#""status":"healthy","timestamp""#).then_some(()))
    })
    .await
    .unwrap_or_else(|error| panic!("{error}\n{}", server.last_lines(60)));
    server.stop(PATIENCE).await.unwrap();
}
