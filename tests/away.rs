//! etcd or Redis is away under load for longer than any lease: no running task is executed again, no schedule stops, and
//! health says what is the matter.

mod tokens;

use std::sync::Arc;
use std::time::Duration;

use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_server::Role;
use mainspring_store::Operator;
use mainspring_testkit::TestDatabase;
use mainspring_testkit::http::JsonRequest;
use mainspring_testkit::server::{ServerPlan, ServerProcess};
use mainspring_testkit::services::Service;
use mainspring_testkit::wait::until;
use serde_json::Value;
use sqlx::{Connection, PgConnection};

use tokens::make_token;

const PATIENCE: Duration = Duration::from_secs(90);
/// The lease of workers is 3.5 s, that of leadership in etcd 3 s.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(8);
const RUNNING: usize = 6;
/// The next fire may wait for the machine, not for a lease.
const LATEST: i64 = 3_000_000;

#[derive(Debug, Clone, Copy)]
enum Away {
    Etcd,
    Redis,
}

impl Away {
    fn component(self) -> &'static str {
        match self {
            Self::Etcd => "coordination",
            Self::Redis => "bus",
        }
    }
}

/// What a server says of a component, once it says this of it.
async fn health(server: &mut ServerProcess, token: &str, component: &str, status: &str) -> String {
    let at = server.address(PATIENCE).await.unwrap();
    let request = JsonRequest {
        method: "GET",
        target: "/health".into(),
        token: token.to_owned(),
        key: None,
        body: String::new(),
    };
    until(&format!("{component} is {status}"), PATIENCE, async || {
        let Ok((_, text)) = request.send(at).await else { return Ok(None) };
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let body: Value = serde_json::from_str(body.trim()).unwrap_or_default();
        let shown = &body["components"][component];
        Ok((shown["status"] == status).then(|| shown["message"].to_string()))
    })
    .await
    .unwrap()
}

async fn number(looking: &mut PgConnection, sql: &'static str) -> i64 {
    let (number,): (i64,) = sqlx::query_as(sql).fetch_one(looking).await.unwrap();
    number
}

async fn put(client: &Client, source: &str) -> Arc<mainspring_engine::Spec> {
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    client.put_workflow(workflow, source).await.unwrap()
}

async fn away(what: Away, lasts: Duration) {
    let (mut etcd, mut redis) = (Service::etcd().await.unwrap(), Service::redis().await.unwrap());
    let database = TestDatabase::postgres().await;
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let token = make_token(&client, Role::Admin).await;
    let plan = ServerPlan::new(database.url(), folder.path())
        .set("ETCD_ENDPOINTS", etcd.url())
        .set("REDIS_URL", redis.url())
        .set("MAINSPRING_WORKER_SLOTS", "4");
    // Each has a log of its own: where it listens is read from it.
    let mut servers = Vec::new();
    for name in ["a", "b"] {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let mut server = ServerPlan { folder, ..plan.clone() }.set("WORKER_ID", name).start().unwrap();
        server.address(PATIENCE).await.unwrap();
        servers.push(server);
    }
    let long = put(&client, "{name: long, tasks: {a: {run: 'sleep 1000'}}}").await;
    let created = client.submit_many(&long, vec![Submission::default(); RUNNING]).await.unwrap();
    put(&client, "{name: often, triggers: [{every: 1s}], tasks: {a: {function: noop}}}").await;
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    until("all of it runs, and the schedule fires", PATIENCE, async || {
        let sql = "SELECT count(*) FROM task_runs t JOIN runs r ON r.id = t.run_id JOIN workflows w ON w.id = r.workflow_id \
                   WHERE t.state = 2 AND w.name = 'long'";
        let running = number(&mut looking, sql).await;
        let fires = number(&mut looking, "SELECT count(*) FROM fires").await;
        Ok((running == RUNNING as i64 && fires > 1).then_some(()))
    })
    .await
    .unwrap();
    match what {
        Away::Etcd => etcd.kill().unwrap(),
        Away::Redis => redis.kill().unwrap(),
    }
    for server in &mut servers {
        let message = health(server, &token, what.component(), "degraded").await;
        assert!(message.len() > 20, "it says why: {message}");
    }
    let fires = number(&mut looking, "SELECT count(*) FROM fires").await;
    // How long it is away is what is being tried.
    tokio::time::sleep(lasts).await;
    assert_eq!(number(&mut looking, "SELECT count(*) FROM attempts").await, 0, "no running task was taken back");
    assert_eq!(number(&mut looking, "SELECT count(*) FROM fires WHERE outcome <> 0").await, 0, "none was missed");
    let fired = number(&mut looking, "SELECT count(*) FROM fires").await - fires;
    assert!(fired >= lasts.as_secs() as i64 - 3, "{fired} fires in {lasts:?}");
    let late = number(&mut looking, "SELECT coalesce(max(fired_at - nominal_at), 0) FROM fires").await;
    assert!(late < LATEST, "a fire came {late} µs late");
    match what {
        Away::Etcd => etcd.restart().await.unwrap(),
        Away::Redis => redis.restart().await.unwrap(),
    }
    for server in &mut servers {
        health(server, &token, what.component(), "healthy").await;
    }
    for run in created {
        client.cancel(run.run().unwrap(), &Operator::new("test", None)).await.unwrap();
    }
    assert_eq!(number(&mut looking, "SELECT count(*) FROM attempts").await, 0, "nor when it came back");
    for server in &mut servers {
        server.stop(PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_away_for_longer_than_a_lease() {
    away(Away::Etcd, LONGER_THAN_A_LEASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_away_for_longer_than_a_lease() {
    away(Away::Redis, LONGER_THAN_A_LEASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_etcd_is_away_for_two_minutes() {
    away(Away::Etcd, Duration::from_secs(120)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_redis_is_away_for_two_minutes() {
    away(Away::Redis, Duration::from_secs(120)).await;
}
