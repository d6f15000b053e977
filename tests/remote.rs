//! Remote workers between nodes, where the moment decides: who carries a session, and what is repeated.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::work::{Failure, LogLine, LogStream, Outcome};
use mainspring_engine::{
    Client, LogUpload, NewWorker, NodeConfig, Submission, SystemClock, WorkerAnswer, WorkerExchange, WorkerResult,
    WorkerSession,
};
use mainspring_store::StoredChunk;
use mainspring_testkit::TestDatabase;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::wait::until;
use mainspring_worker::Registry;
use sqlx::{Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);
const SOURCE: &str = "{name: away, tasks: {work: {run: 'echo hello', queue: far}}}";

/// A node that executes nothing itself, with a client of its own.
async fn node(database: &TestDatabase, name: &str) -> TestNode {
    start(database, quiet_node(name)).await
}

fn quiet_node(name: &str) -> NodeConfig {
    NodeConfig {
        name: name.into(),
        heartbeat: Duration::from_millis(50),
        lease_ttl: Duration::from_secs(60),
        process_slots: 0,
        function_slots: 0,
        ..NodeConfig::default()
    }
}

async fn start(database: &TestDatabase, config: NodeConfig) -> TestNode {
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    TestNode::start_as(client, config, Registry::builder().build()).await.unwrap()
}

/// Registers a worker at a node, and starts a run that has a task for it.
async fn worker_with_a_task(node: &TestNode, source: &str) -> WorkerSession {
    let worker = NewWorker { worker: "w".into(), queues: vec!["far".into()], slots: [4; 3], ..NewWorker::default() };
    let id = node.client().workers().unwrap().register(worker).await.unwrap();
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = node.client().put_workflow(workflow, source).await.unwrap();
    node.client().submit(&spec, Submission::default()).await.unwrap();
    WorkerSession { id, token_hash: Vec::new(), namespaces: None }
}

fn request(seq: i64) -> WorkerExchange {
    WorkerExchange { seq, finished: Vec::new(), holding: Vec::new(), want: [4; 3], wait: Duration::from_secs(1) }
}

async fn exchange(node: &TestNode, session: &WorkerSession, request: WorkerExchange) -> WorkerAnswer {
    node.client().workers().unwrap().exchange(session, request).await.unwrap()
}

/// The renewal of leases passes while a session that comes from another node is still being moved here.
#[tokio::test]
async fn a_session_on_its_way_to_a_node_is_not_taken_for_one_that_has_left() {
    let database = TestDatabase::postgres().await;
    let (first, second) = (node(&database, "first").await, node(&database, "second").await);
    let session = worker_with_a_task(&first, SOURCE).await;
    let mut seq = 1;
    let assigned = until("the task is assigned", PATIENCE, async || {
        let answer = exchange(&first, &session, request(seq)).await;
        seq += 1;
        Ok(answer.assignments.first().cloned())
    })
    .await
    .unwrap();
    // The worker never got it and asks at the other node, whose guard has to wait for the row.
    let mut holder = PgConnection::connect(database.url()).await.unwrap();
    sqlx::query("BEGIN").execute(&mut holder).await.unwrap();
    sqlx::query("SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE").bind(session.id).execute(&mut holder).await.unwrap();
    let asking = {
        let (gate, session) = (second.client().workers().unwrap(), session.clone());
        tokio::spawn(async move { gate.exchange(&session, request(seq - 1)).await })
    };
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
               AND query LIKE '%UPDATE sessions SET seq%'";
    until("the guard waits", PATIENCE, async || {
        let (waiting,): (i64,) = sqlx::query_as(sql).fetch_one(&mut looking).await?;
        Ok((waiting > 0).then_some(()))
    })
    .await
    .unwrap();
    let beat = "SELECT beat FROM sessions WHERE worker = 'second'";
    let (before,): (i64,) = sqlx::query_as(beat).fetch_one(&mut looking).await.unwrap();
    until("the node has renewed its leases", PATIENCE, async || {
        let (now,): (i64,) = sqlx::query_as(beat).fetch_one(&mut looking).await?;
        Ok((now > before + 2).then_some(()))
    })
    .await
    .unwrap();
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    let answer = asking.await.unwrap().unwrap();
    let given: Vec<_> = answer.assignments.iter().map(|given| (given.key, given.attempt)).collect();
    assert_eq!(given, [(assigned.key, 1)], "it is carried here, with what it was to execute");
    first.stop().await;
    second.stop().await;
}

/// The answer of one node is lost, another one delivers and takes the result, and the worker comes back to the first, which
/// still remembers that it delivered the attempt.
#[tokio::test]
async fn a_node_that_a_session_comes_back_to_does_not_deliver_what_another_took_the_result_of() {
    let database = TestDatabase::postgres().await;
    let config = NodeConfig { heartbeat: Duration::from_secs(20), ..quiet_node("first") };
    let first = start(&database, config).await;
    let second = node(&database, "second").await;
    let session = worker_with_a_task(&first, SOURCE).await;
    let mut seq = 0;
    let lost = until("the task is assigned", PATIENCE, async || {
        seq += 1;
        Ok(exchange(&first, &session, request(seq)).await.assignments.first().cloned())
    })
    .await
    .unwrap();
    let got = until("the other node delivers it", PATIENCE, async || {
        let answer = exchange(&second, &session, request(seq)).await;
        seq += 1;
        Ok(answer.assignments.first().cloned())
    })
    .await
    .unwrap();
    assert_eq!((got.key, got.attempt), (lost.key, lost.attempt));
    let outcome = Outcome::Success { output: None };
    let result = WorkerResult { key: got.key, attempt: got.attempt, outcome, started_at: 1, finished_at: 2 };
    until("its result is taken", PATIENCE, async || {
        let answer =
            exchange(&second, &session, WorkerExchange { finished: vec![result.clone()], ..request(seq) }).await;
        seq += 1;
        Ok((!answer.acknowledged.is_empty()).then_some(()))
    })
    .await
    .unwrap();
    for _ in 0..4 {
        let answer =
            exchange(&first, &session, WorkerExchange { wait: Duration::from_millis(50), ..request(seq) }).await;
        seq += 1;
        assert_eq!(answer.assignments, [], "it is over");
    }
    first.stop().await;
    second.stop().await;
}

/// A worker hands in a failure at a node that has never seen the workflow: it is retried as its workflow says.
#[tokio::test]
async fn a_failure_that_is_handed_in_at_another_node_is_retried() {
    let database = TestDatabase::postgres().await;
    let (first, second) = (node(&database, "first").await, node(&database, "second").await);
    let source = "{name: again, tasks: {work: {run: 'exit 1', queue: far, retry: {attempts: 2, delay: 10ms}}}}";
    let session = worker_with_a_task(&first, source).await;
    let mut seq = 0;
    let assigned = until("the task is assigned", PATIENCE, async || {
        seq += 1;
        Ok(exchange(&first, &session, request(seq)).await.assignments.first().cloned())
    })
    .await
    .unwrap();
    let failure = Failure { kind: "exit".into(), message: "it failed".into(), ..Failure::default() };
    let (key, attempt, outcome) = (assigned.key, assigned.attempt, Outcome::Failed(failure));
    let result = WorkerResult { key, attempt, outcome, started_at: 1, finished_at: 2 };
    seq += 1;
    exchange(&second, &session, WorkerExchange { finished: vec![result], ..request(seq) }).await;
    let again = until("it is tried again", PATIENCE, async || {
        seq += 1;
        Ok(exchange(&second, &session, request(seq)).await.assignments.first().cloned())
    })
    .await
    .unwrap();
    assert_eq!((again.key, again.attempt), (key, attempt + 1));
    first.stop().await;
    second.stop().await;
}

/// A node finds what another one claimed for a worker, and the worker hangs up before the node has read what it needs to
/// deliver it.
#[tokio::test]
async fn what_is_found_for_a_worker_that_hangs_up_is_delivered_when_it_asks_again() {
    let database = TestDatabase::postgres().await;
    let (first, second) = (node(&database, "first").await, node(&database, "second").await);
    let session = worker_with_a_task(&first, SOURCE).await;
    let mut seq = 0;
    let lost = until("the task is assigned", PATIENCE, async || {
        seq += 1;
        Ok(exchange(&first, &session, request(seq)).await.assignments.first().cloned())
    })
    .await
    .unwrap();
    let mut holder = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE versions IN ACCESS EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    let asking = {
        let (gate, session) = (second.client().workers().unwrap(), session.clone());
        tokio::spawn(async move { gate.exchange(&session, request(seq)).await })
    };
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
               AND query LIKE '%versions%'";
    until("the node reads the workflow", PATIENCE, async || {
        let (waiting,): (i64,) = sqlx::query_as(sql).fetch_one(&mut looking).await?;
        Ok((waiting > 0).then_some(()))
    })
    .await
    .unwrap();
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    let got = until("the task is delivered", Duration::from_secs(20), async || {
        let answer = exchange(&second, &session, request(seq)).await;
        seq += 1;
        Ok(answer.assignments.first().cloned())
    })
    .await
    .unwrap();
    assert_eq!((got.key, got.attempt), (lost.key, lost.attempt));
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn lines_beyond_the_most_are_dropped_and_not_asked_for_again() {
    const MOST: i64 = 1_000_000;
    let database = TestDatabase::postgres().await;
    let node = node(&database, "only").await;
    let session = worker_with_a_task(&node, SOURCE).await;
    let mut seq = 0;
    let assigned = until("the task is assigned", PATIENCE, async || {
        seq += 1;
        Ok(exchange(&node, &session, request(seq)).await.assignments.first().cloned())
    })
    .await
    .unwrap();
    let (key, attempt) = (assigned.key, assigned.attempt);
    let lines = |count| vec![LogLine { at: 1, stream: LogStream::Stdout, text: "x".into() }; count];
    // As many as there may be but for one.
    let chunk = StoredChunk { key, attempt, chunk: i32::try_from(MOST - 1).unwrap(), lines: lines(1) };
    database.store().append_logs(&[chunk]).await.unwrap();
    let gate = node.client().workers().unwrap();
    let upload = async |offset, count| {
        let answers = gate.store_logs(&session, vec![LogUpload { key, attempt, offset, lines: lines(count) }]).await;
        let answer = answers.unwrap()[0];
        (answer.accepted, answer.next_offset)
    };
    assert_eq!(upload(MOST - 2, 1).await, (0, MOST - 1), "it is stored already");
    assert_eq!(upload(MOST + 7, 1).await, (0, MOST - 1), "what is between is not");
    assert_eq!(upload(MOST - 1, 3).await, (1, MOST + 2));
    assert_eq!(upload(MOST + 2, 2).await, (0, MOST + 4));
    node.stop().await;
}

/// Two workers fall silent, and the database refuses to take back what the first of them holds.
#[tokio::test]
async fn a_lost_worker_whose_work_cannot_be_returned_keeps_no_other_from_being_found() {
    let database = TestDatabase::postgres().await;
    let node = start(&database, NodeConfig { lease_ttl: Duration::from_secs(2), ..quiet_node("only") }).await;
    let mut sessions = Vec::new();
    for source in [SOURCE, &SOURCE.replace("away", "elsewhere")] {
        let session = worker_with_a_task(&node, source).await;
        let mut seq = 0;
        until("the task is assigned", PATIENCE, async || {
            seq += 1;
            let asked = WorkerExchange { wait: Duration::from_millis(50), ..request(seq) };
            Ok(exchange(&node, &session, asked).await.assignments.first().cloned())
        })
        .await
        .unwrap();
        sessions.push(session.id);
        if sessions.len() == 1 {
            let refuse = format!(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$; \
                 CREATE TRIGGER refuse BEFORE UPDATE ON task_runs FOR EACH ROW WHEN (OLD.session = {}) \
                 EXECUTE FUNCTION refuse()",
                session.id
            );
            let mut operator = PgConnection::connect(database.url()).await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(refuse)).execute(&mut operator).await.unwrap();
        }
    }
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    let mut found_dead = async |session: i64| {
        until("the session is found dead", Duration::from_secs(20), async || {
            let sql = "SELECT dead FROM sessions WHERE id = $1";
            let (dead,): (bool,) = sqlx::query_as(sql).bind(session).fetch_one(&mut looking).await?;
            Ok(dead.then_some(()))
        })
        .await
        .unwrap();
    };
    found_dead(sessions[1]).await;
    let mut operator = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("DROP TRIGGER refuse ON task_runs").execute(&mut operator).await.unwrap();
    found_dead(sessions[0]).await;
    node.stop().await;
}
