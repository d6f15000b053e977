//! Jobs and events under fire: servers are killed at random moments, and what was counted must equal a recount.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainspring_engine::{Client, JobRequest, JobTiming, NewEvent, SystemClock};
use mainspring_store::{
    Connect, ExecutionFilter, ExecutionStatus, Flavor, HandlerAction, HandlerRow, JobRow, Operator, RunFilter, Store,
};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::invariants::check_jobs;
use mainspring_testkit::server::ServerPlan;
use mainspring_testkit::wait::until;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(120);
const KILLS: usize = 4;
const EVENTS: usize = 12;

async fn jobs_of(client: &Client) -> Vec<JobRow> {
    let filter = mainspring_store::JobFilter { limit: 1_000, ..Default::default() };
    client.store().jobs(&filter).await.unwrap()
}

fn handler(client: &Client, event: &str) -> HandlerRow {
    HandlerRow {
        id: client.clock().new_id(),
        namespace: Some("default".into()),
        event_name: event.into(),
        handler_name: "noop".into(),
        handler_type: "function".into(),
        enabled: true,
        priority: 0,
        action: HandlerAction::CreateJob,
        config: json!({"tags": ["made"]}),
        trigger_count: 0,
        success_count: 0,
        failure_count: 0,
        last_triggered: None,
        created_by: "test".into(),
        created_at: client.now(),
        updated_at: client.now(),
    }
}

/// Jobs that fire, fail and are retried while the server is killed; events that make jobs meanwhile. What is counted
/// afterwards is what history says, and each event made one job.
async fn killed_servers_count_once(flavor: Flavor) {
    let database = TestDatabase::new(flavor).await;
    let store = Store::connect(&Connect::new(database.url())).await.unwrap();
    let client = Client::new(store, Arc::new(SystemClock::new()));
    let folder = tempfile::tempdir().unwrap();
    let plan = ServerPlan::new(database.url(), folder.path())
        .set("MAINSPRING_WORKER_LEASE_TTL", "600ms")
        .set("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", "150ms");
    let interval = |name: &str, handler: &str, payload| {
        let mut request = JobRequest::new(name, handler, JobTiming::Interval("1s".into()));
        request.payload = Some(payload);
        (request.max_retries, request.retry_delay_ms) = (Some(1), Some(20));
        request
    };
    client
        .create_jobs(&[
            interval("quick", "noop", json!({})),
            interval("slow", "sleep", json!({"ms": 300})),
            interval("hopeless", "fail", json!({"message": "as always"})),
            interval("second try", "fail", json!({"times": 1})),
        ])
        .await
        .unwrap();
    client.store().insert_handler(&handler(&client, "order.imported")).await.unwrap();
    let mut emitted = 0;
    for kill in 0..KILLS {
        let mut server = plan.start().unwrap();
        let before: i64 = jobs_of(&client).await.iter().map(|job| job.statistics.executions).sum();
        // A life that gets something done, however slow the machine is.
        until("something is executed", PATIENCE, async || {
            let now: i64 = jobs_of(&client).await.iter().map(|job| job.statistics.executions).sum();
            Ok((now >= before + 2).then_some(()))
        })
        .await
        .unwrap();
        for _ in 0..EVENTS / KILLS {
            let event = NewEvent {
                namespace: "default".into(),
                name: "order.imported".into(),
                key: None,
                data: json!({"number": emitted}),
                source: "test".into(),
            };
            client.emit(event).await.unwrap();
            emitted += 1;
        }
        if kill == 1 {
            retry_something(&client).await;
        }
        server.kill().unwrap();
    }
    let mut server = plan.start().unwrap();
    for job in jobs_of(&client).await.iter().filter(|job| job.kind == mainspring_store::JobKind::Recurring) {
        client.pause_job(job).await.unwrap();
    }
    settle(&client, database.url()).await;
    server.stop(PATIENCE).await.unwrap();
    let violations = check_jobs(database.url()).await.unwrap();
    assert!(violations.is_empty(), "{violations:?}");
    let jobs = jobs_of(&client).await;
    let by_name: HashMap<&str, &JobRow> = jobs.iter().map(|job| (job.name.as_str(), job)).collect();
    assert!(by_name["quick"].statistics.successes > 0 && by_name["quick"].statistics.failures == 0);
    assert!(by_name["hopeless"].statistics.failures > 0 && by_name["hopeless"].statistics.successes == 0);
    let made: Vec<&&JobRow> = by_name.values().filter(|job| job.created_by.starts_with("event handler")).collect();
    assert_eq!(made.len(), emitted, "each event made one job");
    assert!(made.iter().all(|job| job.statistics.successes == 1 && job.statistics.executions == 1));
}

/// Reopens one failed execution, so that a second generation of it ends too.
async fn retry_something(client: &Client) {
    let hopeless = client.store().job_named("default", "hopeless").await.unwrap();
    let failed = until("an execution has failed", PATIENCE, async || {
        let executions =
            client.executions(&hopeless, ExecutionFilter { limit: 50, ..ExecutionFilter::default() }).await?;
        Ok(executions.into_iter().find(|execution| execution.status == ExecutionStatus::Failed))
    })
    .await
    .unwrap();
    client.retry_execution(failed.id, &Operator::new("test", None)).await.unwrap();
}

/// Waits until nothing is to be done any more.
async fn settle(client: &Client, url: &str) {
    until("everything has ended and is counted", PATIENCE, async || {
        let filter = RunFilter { limit: 10_000, ..Default::default() };
        let open = client.store().list_runs(&filter).await?.iter().any(|run| !run.state.is_terminal());
        let due = jobs_of(client).await.iter().any(|job| job.next_run.is_some());
        if open || due {
            return Ok(None);
        }
        let violations = check_jobs(url).await?;
        let waiting = violations.iter().any(|violation| !violation.invariant.contains("recount"));
        Ok((!waiting).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_servers_count_each_execution_once_on_sqlite() {
    killed_servers_count_once(Flavor::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_servers_count_each_execution_once_on_postgres() {
    killed_servers_count_once(Flavor::Postgres).await;
}
