//! Bugs beside etcd and Redis: a silence that is taken for death, an event that is acknowledged too soon. The nodes are real, and
//! so are the servers; what a node sends is changed by a proxy.

use std::sync::Arc;
use std::time::Duration;

use mainspring_engine::{Client, EtcdSettings, NodeConfig, RedisSettings, SystemClock};
use mainspring_store::{Connect, Store};
use mainspring_testkit::invariants::Violation;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::proxy::{Proxy, TcpProxy};
use mainspring_testkit::services::Service;
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, redis, witness};
use mainspring_worker::Registry;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::bugs::{assert_found, assert_sound};

const PATIENCE: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(2);

async fn connect(url: &str) -> Client {
    Client::new(Store::connect(&Connect::new(url)).await.unwrap(), Arc::new(SystemClock::new()))
}

async fn start(client: Client, name: &str) -> TestNode {
    let config = NodeConfig {
        name: name.into(),
        heartbeat: Duration::from_millis(100),
        lease_ttl: TTL,
        ..NodeConfig::default()
    };
    TestNode::start_as(client, config, Registry::builder().build()).await.unwrap()
}

/// A node beside etcd, which comes to the database by this URL.
async fn coordinated(url: &str, etcd: &Service, name: &str) -> TestNode {
    let settings = EtcdSettings { endpoints: vec![etcd.url()], prefix: "/seeded".into(), ..EtcdSettings::default() };
    start(connect(url).await.with_etcd(&settings).await.unwrap(), name).await
}

/// etcd is gone while the leader goes on beating. A node with the bug takes what it does not hear any more for the leader's end.
async fn silent_etcd(is_taken_for_death: bool) -> Vec<Violation> {
    let (mut etcd, database) = (Service::etcd().await.unwrap(), TestDatabase::postgres().await);
    let url = database.url();
    witness::install(url).await.unwrap();
    let leader = coordinated(&witness::named(url, "leader"), &etcd, "leader").await;
    let leads = async |count: i64| {
        until("a node leads", PATIENCE, async || Ok((witness::counts(url).await?.0 >= count).then_some(())))
            .await
            .unwrap();
    };
    leads(1).await;
    let proxy = Proxy::start(&witness::named(url, "candidate")).await.unwrap();
    let candidate = coordinated(proxy.url(), &etcd, "candidate").await;
    etcd.kill().unwrap();
    if is_taken_for_death {
        proxy.rewrite("beat, released FROM terms", "beat, TRUE AS released FROM terms");
        // What is prepared already is prepared anew.
        proxy.cut_all();
        leads(2).await;
    } else {
        // The time of a lease is what is being tried here.
        tokio::time::sleep(TTL + TTL / 2).await;
    }
    let found = witness::check_succession(url, TTL).await.unwrap();
    candidate.stop().await;
    leader.stop().await;
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_loss_that_is_taken_for_death_is_found() {
    assert_sound(&silent_etcd(false).await);
    assert_found(&silent_etcd(true).await, "a leader is succeeded only after it was silent for a whole TTL");
}

/// A node that dies with everything in its memory when its runtime does.
async fn doomed(database: String, redis: RedisSettings) -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (started, starting) = oneshot::channel();
    runtime.spawn(async move {
        let node = start(connect(&database).await.with_redis(&redis), "doomed").await;
        let _ = started.send(());
        std::future::pending::<()>().await;
        drop(node);
    });
    starting.await.unwrap();
    runtime
}

/// A node reads an event from Redis, cannot store it, and dies.
async fn death_with_an_event(acknowledged_when_read: bool) -> Vec<Violation> {
    const STREAM: &str = "stream:scheduler:events.in";
    let (service, database) = (Service::redis().await.unwrap(), TestDatabase::postgres().await);
    let at = service.address();
    let (to_redis, to_database) = (TcpProxy::start(&at).await.unwrap(), Proxy::start(database.url()).await.unwrap());
    if acknowledged_when_read {
        to_redis.rewrite("*11\r\n$10\r\nXREADGROUP", "*12\r\n$10\r\nXREADGROUP");
        to_redis.rewrite("$7\r\nSTREAMS\r\n$26\r\n", "$5\r\nNOACK\r\n$7\r\nSTREAMS\r\n$26\r\n");
    }
    let settings = RedisSettings::parse(&format!("redis://{}", to_redis.address())).unwrap();
    let node = doomed(to_database.url().to_owned(), settings).await;
    until("it listens", PATIENCE, async || redis::last_event_read(&at)).await.unwrap();
    to_database.go_away();
    let sent = redis::ask(&at, &["XADD", STREAM, "*", "event_name", "paid", "id", "order-7"]).unwrap();
    until("it has read the event", PATIENCE, async || {
        Ok((redis::last_event_read(&at)?.as_deref() == Some(sent.text())).then_some(()))
    })
    .await
    .unwrap();
    node.shutdown_background();
    drop(to_redis);
    let pending = redis::events_pending(&at).unwrap();
    assert_eq!(pending.is_empty(), acknowledged_when_read);
    for id in pending {
        // As if it had waited for longer than an abandoned entry does.
        redis::ask(&at, &["XCLAIM", STREAM, "scheduler-events", "gone", "0", &id, "IDLE", "600000", "JUSTID"]).unwrap();
    }
    let other = connect(database.url()).await.with_redis(&RedisSettings::parse(&service.url()).unwrap());
    let other = start(other, "other").await;
    redis::ask(&at, &["XADD", STREAM, "*", "event_name", "late"]).unwrap();
    until("the other has read everything", PATIENCE, async || {
        let late = redis::last_event_read(&at)?.is_some_and(|last| last != sent.text());
        Ok((late && redis::events_pending(&at)?.is_empty()).then_some(()))
    })
    .await
    .unwrap();
    other.stop().await;
    redis::check_events(&at, database.url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_acknowledged_before_it_is_stored_is_found() {
    assert_sound(&death_with_an_event(false).await);
    assert_found(&death_with_an_event(true).await, "an event that was acknowledged is stored");
}
