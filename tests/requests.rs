//! Clients vanish and servers are killed in the middle of requests: what was asked for under a key exists exactly once,
//! with its audit row, and no transaction stays open.

mod tokens;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mainspring_engine::{Client, SystemClock};
use mainspring_server::Role;
use mainspring_store::{AuditFilter, Flavor, JobFilter, RunFilter};
use mainspring_testkit::http::JsonRequest;
use mainspring_testkit::server::ServerPlan;
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, transactions};

use tokens::make_token;

const PATIENCE: Duration = Duration::from_secs(120);
const ROUNDS: u64 = 4;
/// Requests of each kind in a round.
const EACH: u64 = 8;
const WORKFLOW: &str = "name: etl\nconcurrency: {limit: 1000}\ntasks: {a: {function: noop}}";

const TRIGGER: &str = "/api/v1/workflows/etl/trigger";
const EVENTS: &str = "/api/v1/scheduler/events/trigger";
const JOBS: &str = "/api/v1/scheduler/jobs/cron";
const WORKFLOWS: &str = "/api/v1/workflows";

/// One request of each kind.
fn requests(token: &str, number: u64) -> Vec<JsonRequest> {
    let bodies = [
        (TRIGGER, "{}".to_owned()),
        (EVENTS, r#"{"event_name": "e", "data": {}}"#.to_owned()),
        (JOBS, format!(r#"{{"name": "j{number}", "schedule": "0 2 * * *", "handler_name": "cleanup:old_traces"}}"#)),
        (WORKFLOWS, format!(r#"{{"name": "w{number}", "tasks": {{"a": {{"run": "true"}}}}}}"#)),
    ];
    let request = |(target, body): (&str, String)| JsonRequest {
        method: "POST",
        target: target.to_owned(),
        token: token.to_owned(),
        key: Some(format!("{target}-{number}")),
        body,
    };
    bodies.into_iter().map(request).collect()
}

/// Tries until it is answered. Whatever is no answer is tried again under the same key.
async fn insist(request: &JsonRequest, at: SocketAddr) {
    until(&format!("{} is answered", request.target), PATIENCE, async || match request.send(at).await {
        Ok((200..=299, _)) => Ok(Some(())),
        Ok((409 | 503, _)) | Err(_) => Ok(None),
        Ok((status, text)) => anyhow::bail!("{status}: {text}"),
    })
    .await
    .unwrap();
}

async fn every_key_counts_once(flavor: Flavor) {
    let database = TestDatabase::new(flavor).await;
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let token = make_token(&client, Role::Admin).await;
    client.put_workflow(mainspring_core::parse(WORKFLOW).unwrap(), WORKFLOW).await.unwrap();
    let mut rng = fastrand::Rng::with_seed(20_261_117);
    for round in 0..ROUNDS {
        let asked: Vec<JsonRequest> = (0..EACH).flat_map(|number| requests(&token, round * EACH + number)).collect();
        // A server is killed while its clients are busy, and some clients vanish.
        let folder = tempfile::tempdir().unwrap();
        let mut server = ServerPlan::new(database.url(), folder.path()).start().unwrap();
        let at = server.address(PATIENCE).await.unwrap();
        let mut clients = tokio::task::JoinSet::new();
        for request in asked.clone() {
            let cut = rng.bool().then(|| Duration::from_micros(rng.u64(500..10_000)));
            clients.spawn(async move {
                _ = match cut {
                    Some(after) => request.cut(at, after).await,
                    None => request.send(at).await.map(drop),
                };
            });
        }
        let life = Duration::from_millis(rng.u64(5..120));
        tokio::time::sleep(life).await;
        if round % 2 == 0 {
            server.kill().unwrap();
            clients.join_all().await;
            server = ServerPlan::new(database.url(), folder.path()).start().unwrap();
        } else {
            clients.join_all().await;
        }
        let at = server.address(PATIENCE).await.unwrap();
        for request in &asked {
            insist(request, at).await;
        }
        assert_eq!(transactions::check(database.url()).await.unwrap(), []);
        server.stop(PATIENCE).await.unwrap();
    }
    check(&client).await;
}

async fn check(client: &Client) {
    let asked = usize::try_from(ROUNDS * EACH).unwrap();
    let store = client.store();
    let runs = store.list_runs(&RunFilter { limit: 1_000, ..RunFilter::default() }).await.unwrap();
    assert_eq!(runs.iter().filter(|run| run.workflow == "etl").count(), asked, "one run per key");
    assert_eq!(store.events_since("default", "e", 0, None).await.unwrap().len(), asked, "one event per key");
    let jobs = store.jobs(&JobFilter { limit: 1_000, ..JobFilter::default() }).await.unwrap();
    assert_eq!(jobs.len(), asked, "one job per key");
    let audit = store.audit(&AuditFilter { limit: 10_000, ..AuditFilter::default() }).await.unwrap();
    for path in [TRIGGER, EVENTS, JOBS, WORKFLOWS] {
        let done = audit.iter().filter(|row| row.path == path && (200..300).contains(&row.status)).count();
        assert_eq!(done, asked, "the audit log tells of each {path} once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_counts_once_on_postgres() {
    every_key_counts_once(Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_counts_once_on_sqlite() {
    every_key_counts_once(Flavor::Sqlite).await;
}
