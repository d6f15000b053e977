//! Nodes beside Redis: wake-ups, events in and out, and a Redis that comes and goes.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::state::RunState;
use mainspring_engine::{
    Client, CoordinationHealth, DispatchConfig, JobRequest, JobTiming, NodeConfig, RedisSettings, Submission,
    SystemClock,
};
use mainspring_store::{Flavor, Store};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::services::Service;
use mainspring_testkit::wait::until;
use mainspring_worker::Registry;
use sqlx::{Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);

/// Asks Redis as any program would; the reply as its texts.
fn redis(service: &Service, arguments: &[&str]) -> Vec<String> {
    mainspring_testkit::redis::ask(&service.address(), arguments).unwrap().texts()
}

fn client(store: &Store, service: &Service) -> Client {
    let settings = RedisSettings::parse(&service.url()).unwrap();
    Client::new(store.clone(), Arc::new(SystemClock::new())).with_redis(&settings)
}

async fn node(store: &Store, service: &Service) -> TestNode {
    let config = NodeConfig { heartbeat: Duration::from_millis(100), ..NodeConfig::default() };
    TestNode::start_as(client(store, service), config, Registry::builder().build()).await.unwrap()
}

const WAITING: &str = "{name: waiting, tasks: {a: {wait: {event: paid, key: '7'}, timeout: 10m}}}";
const QUICK: &str = "{name: quick, tasks: {a: {function: {handler: noop}}}}";

async fn submit(client: &Client, source: &str) -> mainspring_core::RunId {
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = client.put_workflow(workflow, source).await.unwrap();
    client.submit(&spec, Submission::default()).await.unwrap().run().unwrap()
}

async fn ended(client: &Client, run: mainspring_core::RunId) {
    until("the run ends", PATIENCE, async || {
        Ok(client.store().run_summary(run).await?.state.is_terminal().then_some(()))
    })
    .await
    .unwrap();
}

/// Two nodes hear of work through the stream alone, and go on when it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_flushed_or_killed_stops_nothing() {
    for flavor in [Flavor::Postgres, Flavor::Sqlite] {
        let (mut service, database) = (Service::redis().await.unwrap(), TestDatabase::new(flavor).await);
        let node = node(database.store(), &service).await;
        let client = client(database.store(), &service);
        let health = async |healthy: bool| {
            until("Redis is seen as it is", PATIENCE, async || {
                let is = node.client().redis_health() == Some(CoordinationHealth::Healthy);
                Ok((is == healthy).then_some(()))
            })
            .await
            .unwrap();
        };
        ended(&client, submit(&client, QUICK).await).await;
        assert!(redis(&service, &["XLEN", "stream:scheduler:wake"])[0] != "0", "wake-ups go through the stream");
        redis(&service, &["FLUSHALL"]);
        ended(&client, submit(&client, QUICK).await).await;
        service.kill().unwrap();
        health(false).await;
        ended(&client, submit(&client, QUICK).await).await;
        service.restart().await.unwrap();
        health(true).await;
        ended(&client, submit(&client, QUICK).await).await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_from_the_stream_are_stored_once_and_acknowledged_after() {
    let (service, database) = (Service::redis().await.unwrap(), TestDatabase::postgres().await);
    let stream = "stream:scheduler:events.in";
    // What was sent before any node listened counts too.
    redis(&service, &["XADD", stream, "*", "event_name", "early"]);
    let node = node(database.store(), &service).await;
    let client = node.client().clone();
    let run = submit(&client, WAITING).await;
    let paid = ["XADD", stream, "*", "event_name", "paid", "key", "7", "data", "{\"amount\": 3}", "id", "order-7"];
    redis(&service, &paid);
    ended(&client, run).await;
    redis(&service, &paid);
    for wrong in [["XADD", stream, "*", "nonsense", "x"], ["XADD", stream, "*", "event_name", "a\0b"]] {
        redis(&service, &wrong);
    }
    redis(&service, &["XADD", stream, "*", "event_name", "broken", "data", "{"]);
    until("everything is acknowledged", PATIENCE, async || {
        let pending = redis(&service, &["XPENDING", stream, "scheduler-events"]);
        let rejected = redis(&service, &["XLEN", "stream:scheduler:events.in.rejected"]);
        Ok((pending[0] == "0" && rejected[0] == "3").then_some(()))
    })
    .await
    .unwrap();
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    let stored: Vec<(String,)> = sqlx::query_as("SELECT name FROM events WHERE source LIKE 'redis %' ORDER BY name")
        .fetch_all(&mut looking)
        .await
        .unwrap();
    assert_eq!(stored, [("early".to_owned(),), ("paid".to_owned(),)], "the second order-7 is the first");
    // A flushed Redis has forgotten the group too.
    redis(&service, &["FLUSHALL"]);
    redis(&service, &["XADD", stream, "*", "event_name", "late"]);
    until("it is read all the same", PATIENCE, async || {
        let (count,): (i64,) =
            sqlx::query_as("SELECT count(*) FROM events WHERE name = 'late'").fetch_one(&mut looking).await?;
        Ok((count == 1).then_some(()))
    })
    .await
    .unwrap();
    until("it is acknowledged", PATIENCE, async || {
        Ok((redis(&service, &["XPENDING", stream, "scheduler-events"])[0] == "0").then_some(()))
    })
    .await
    .unwrap();
    let consumers = || redis(&service, &["XINFO", "CONSUMERS", stream, "scheduler-events"]);
    assert!(!consumers().is_empty(), "the node reads");
    node.stop().await;
    assert!(consumers().is_empty(), "a node that has stopped leaves no consumer: {:?}", consumers());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_numbered_event_of_a_run_goes_out() {
    let (service, database) = (Service::redis().await.unwrap(), TestDatabase::postgres().await);
    let node = node(database.store(), &service).await;
    let client = node.client().clone();
    let all_told = async |run: mainspring_core::RunId| {
        let log = client.store().run_log(run, 0, 100).await.unwrap();
        let expected: Vec<i64> = log.events.iter().map(|event| event.seq).collect();
        until("all of it is in the stream", PATIENCE, async || {
            let lines = redis(&service, &["XRANGE", "stream:scheduler:events.out", "-", "+"]);
            let runs = lines.iter().enumerate().filter(|(at, line)| {
                line.as_str() == run.to_string() && lines.get(at.wrapping_sub(1)).is_some_and(|name| name == "run")
            });
            let told: Vec<i64> = runs.filter_map(|(at, _)| lines.get(at + 2)?.parse().ok()).collect();
            Ok((told == expected).then_some(()))
        })
        .await
        .unwrap();
    };
    let first = submit(&client, QUICK).await;
    ended(&client, first).await;
    all_told(first).await;
    redis(&service, &["FLUSHALL"]);
    let second = submit(&client, QUICK).await;
    ended(&client, second).await;
    all_told(second).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_jobs_goes_out_and_again_after_a_flush() {
    for flavor in [Flavor::Postgres, Flavor::Sqlite] {
        let (service, database) = (Service::redis().await.unwrap(), TestDatabase::new(flavor).await);
        let node = node(database.store(), &service).await;
        let at = mainspring_core::time::rfc3339(node.client().now());
        let request = JobRequest::new("once", "noop", JobTiming::Once(at));
        node.client().create_jobs(&[request]).await.unwrap();
        let told = async || {
            until("both events are in the stream", PATIENCE, async || {
                let lines = redis(&service, &["XRANGE", "stream:scheduler:events.out", "-", "+"]);
                let has = |name: &str| lines.iter().any(|line| line == name);
                Ok((has("scheduler:job.created") && has("scheduler:job.completed")).then_some(()))
            })
            .await
            .unwrap();
        };
        told().await;
        redis(&service, &["FLUSHALL"]);
        told().await;
        node.stop().await;
    }
}

/// The certificate of a private Redis is trusted by `redis.ca`, and by nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_behind_tls_is_trusted_by_its_authority_alone() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let service = Service::redis_with_tls(&certificate, &key).await.unwrap();
    let database = TestDatabase::sqlite().await;
    let settings = RedisSettings::parse(&service.url()).unwrap();
    let start = async |settings: &RedisSettings| {
        let client = Client::new(database.store().clone(), Arc::new(SystemClock::new())).with_redis(settings);
        TestNode::start_as(client, NodeConfig::default(), Registry::builder().build()).await.unwrap()
    };
    let stranger = start(&settings).await;
    let cause = until("the trouble is known", PATIENCE, async || match stranger.client().redis_health() {
        Some(CoordinationHealth::Degraded(cause)) => Ok(Some(cause)),
        _ => Ok(None),
    })
    .await
    .unwrap();
    assert!(cause.contains("no secure connection"), "{cause}");
    // It works all the same.
    let run = submit(stranger.client(), QUICK).await;
    ended(stranger.client(), run).await;
    stranger.stop().await;
    let node = start(&settings.with_ca(certificate).unwrap()).await;
    let run = submit(node.client(), QUICK).await;
    ended(node.client(), run).await;
    assert_eq!(node.client().redis_health(), Some(CoordinationHealth::Healthy));
    node.stop().await;
}

#[tokio::test]
async fn a_redis_that_wants_a_password_is_named_in_the_health_report() {
    let (service, database) = (Service::redis_with_password("secret").await.unwrap(), TestDatabase::sqlite().await);
    let node = node(database.store(), &service).await;
    let cause = until("the trouble is known", PATIENCE, async || match node.client().redis_health() {
        Some(CoordinationHealth::Degraded(cause)) => Ok(Some(cause)),
        _ => Ok(None),
    })
    .await
    .unwrap();
    assert!(cause.contains("NOAUTH"), "{cause}");
    node.stop().await;
    let url = service.url().replace("redis://", "redis://:secret@");
    let settings = RedisSettings::parse(&url).unwrap();
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new())).with_redis(&settings);
    let node = TestNode::start_as(client, NodeConfig::default(), Registry::builder().build()).await.unwrap();
    let run = submit(node.client(), QUICK).await;
    ended(node.client(), run).await;
    assert_eq!(node.client().redis_health(), Some(CoordinationHealth::Healthy));
    node.stop().await;
}

/// A node that takes the tasks of queue `mail` from a stream, two at a time.
async fn dispatched(store: &Store, service: &Service, name: &str) -> TestNode {
    let dispatch = DispatchConfig { queues: ["mail".to_owned()].into(), ..DispatchConfig::default() };
    let config = NodeConfig { name: name.into(), process_slots: 2, dispatch, ..NodeConfig::default() };
    TestNode::start_as(client(store, service), config, Registry::builder().build()).await.unwrap()
}

/// A queue with `transport = "redis"` under work while Redis is flushed, killed and started again: every task is executed once.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_redis_dispatches_goes_on_when_redis_is_flushed_or_gone() {
    const MAIL: &str = "{name: mail, tasks: {a: {run: 'sleep 0.05', queue: mail}}}";
    for flavor in [Flavor::Postgres, Flavor::Sqlite] {
        let (mut service, database) = (Service::redis().await.unwrap(), TestDatabase::new(flavor).await);
        let mut nodes = vec![dispatched(database.store(), &service, "one").await];
        if flavor == Flavor::Postgres {
            nodes.push(dispatched(database.store(), &service, "two").await);
        }
        // Another process: nothing starts in the unit that makes it.
        let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
        ended(&client, submit(&client, MAIL).await).await;
        let route = database.store().routes().await.unwrap().iter().find(|route| route.queue == "mail").unwrap().id;
        let stream = format!("stream:scheduler:job.dispatch:{route}");
        // Once something was read, the group says what was the last.
        let was_read = |service: &Service| {
            let groups = redis(service, &["XINFO", "GROUPS", &stream]);
            let at = groups.iter().position(|text| text == "last-delivered-id");
            at.and_then(|at| groups.get(at + 1)).is_some_and(|last| last != "0-0")
        };
        let work = async |count: usize| -> Vec<mainspring_core::RunId> {
            let workflow = mainspring_core::parse(MAIL).unwrap_or_else(|errors| panic!("{errors}"));
            let spec = client.put_workflow(workflow, MAIL).await.unwrap();
            let made = client.submit_many(&spec, vec![Submission::default(); count]).await.unwrap();
            made.into_iter().map(|made| made.run().unwrap()).collect()
        };
        let all_end = async |runs: Vec<mainspring_core::RunId>| {
            for run in runs {
                ended(&client, run).await;
            }
        };
        all_end(work(20).await).await;
        assert!(was_read(&service), "nodes read the stream");
        until("every entry is acknowledged and removed", PATIENCE, async || {
            let pending = redis(&service, &["XPENDING", &stream, "scheduler-workers"]);
            Ok((pending[0] == "0" && redis(&service, &["XLEN", &stream])[0] == "0").then_some(()))
        })
        .await
        .unwrap();
        let runs = work(30).await;
        ended(&client, runs[3]).await;
        redis(&service, &["FLUSHALL"]);
        all_end(runs).await;
        let runs = work(30).await;
        ended(&client, runs[3]).await;
        service.kill().unwrap();
        all_end(runs).await;
        assert!(matches!(nodes[0].client().redis_health(), Some(CoordinationHealth::Degraded(_))));
        service.restart().await.unwrap();
        until("streams are fed and read again", PATIENCE, async || {
            all_end(work(4).await).await;
            let fed = redis(&service, &["EXISTS", &stream])[0] == "1";
            Ok((fed && was_read(&service)).then_some(()))
        })
        .await
        .unwrap();
        let counts = client.store().run_counts().await.unwrap();
        assert!(counts.iter().all(|count| count.state == RunState::Success), "{counts:?}");
        for node in nodes {
            node.stop().await;
        }
        assert_eq!(mainspring_testkit::invariants::check_at_rest(database.url()).await.unwrap(), []);
        let attempts = database.texts("SELECT 'an attempt' FROM attempts").await;
        assert!(attempts.is_empty(), "none was lost or handed back");
    }
}
