//! Nodes that coordinate: leadership that is handed over, locks, and an etcd that comes and goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_engine::{Client, CoordinationError, CoordinationHealth, EtcdSettings, NodeConfig, SystemClock};
use mainspring_store::{Flavor, Store};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::server::{ServerPlan, ServerProcess};
use mainspring_testkit::services::Service;
use mainspring_testkit::wait::until;
use mainspring_testkit::witness;
use mainspring_worker::Registry;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any test: a takeover by beats that stood still does not happen.
const FOREVER: Duration = Duration::from_secs(600);

fn settings(url: &str) -> EtcdSettings {
    EtcdSettings { endpoints: vec![url.to_owned()], prefix: "/test".into(), ..EtcdSettings::default() }
}

fn client(store: &Store) -> Client {
    Client::new(store.clone(), Arc::new(SystemClock::new()))
}

/// A second process waits for the first, and its fencing value is higher.
async fn check_lock(one: &Client, other: &Client) {
    let ttl = Duration::from_secs(20);
    let first = one.lock("nightly", ttl).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(700), other.lock("nightly", ttl)).await;
    assert!(waits.is_err(), "a lock that is held is not given twice");
    let unrelated = other.lock("weekly", ttl).await.unwrap();
    unrelated.release().await;
    let fence = first.fence();
    first.release().await;
    let second = tokio::time::timeout(PATIENCE, other.lock("nightly", ttl)).await.unwrap().unwrap();
    assert!(second.fence() > fence, "{} after {fence}", second.fence());
    second.release().await;
}

#[tokio::test]
async fn a_lock_of_the_database_is_held_once_and_fenced() {
    for flavor in [Flavor::Postgres, Flavor::Sqlite] {
        let database = TestDatabase::new(flavor).await;
        check_lock(&client(database.store()), &client(database.store())).await;
    }
}

#[tokio::test]
async fn a_lock_of_etcd_is_held_once_and_fenced() {
    let (etcd, database) = (Service::etcd().await.unwrap(), TestDatabase::sqlite().await);
    let one = client(database.store()).with_etcd(&settings(&etcd.url())).await.unwrap();
    let other = client(database.store()).with_etcd(&settings(&etcd.url())).await.unwrap();
    check_lock(&one, &other).await;
}

#[tokio::test]
async fn a_lock_whose_holder_fell_silent_is_taken_over_and_known_to_be_lost() {
    let database = TestDatabase::postgres().await;
    let ttl = Duration::from_secs(2);
    let holder = client(database.store());
    let guard = holder.lock("nightly", ttl).await.unwrap();
    // Its heartbeats reach no node any more.
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    let sql = "CREATE FUNCTION silent() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
               CREATE TRIGGER silent BEFORE UPDATE ON locks FOR EACH ROW WHEN (NEW.fence = OLD.fence) EXECUTE FUNCTION silent()";
    sqlx::raw_sql(sql).execute(&mut looking).await.unwrap();
    let second = tokio::time::timeout(PATIENCE, client(database.store()).lock("nightly", ttl)).await.unwrap().unwrap();
    assert_eq!(second.fence(), guard.fence() + 1);
    tokio::time::timeout(PATIENCE, guard.lost()).await.unwrap();
}

#[tokio::test]
async fn an_etcd_that_cannot_be_used_is_refused_with_the_reason() {
    let database = TestDatabase::sqlite().await;
    let connect = async |settings: EtcdSettings| client(database.store()).with_etcd(&settings).await;
    let redis = Service::redis().await.unwrap();
    let etcd = Service::etcd().await.unwrap();
    for (settings, reason) in [
        (settings("ftp://127.0.0.1:1"), "is written http://HOST:2379"),
        (EtcdSettings { username: Some("u".into()), ..settings(&etcd.url()) }, "both a user name and a password"),
        (
            EtcdSettings { username: Some("u".into()), password: Some("p".into()), ..settings(&etcd.url()) },
            "authentication is not enabled",
        ),
        (EtcdSettings { ca: Some("/nowhere".into()), ..settings(&etcd.url()) }, "etcd.ca: /nowhere cannot be read"),
    ] {
        match connect(settings).await {
            Err(CoordinationError::Refused(message)) => assert!(message.contains(reason), "{message}"),
            other => panic!("{reason}: {other:?}"),
        }
    }
    // What is away may come; what answers something else is a matter of health.
    let away = connect(settings("http://127.0.0.1:1")).await.unwrap();
    assert!(matches!(away.coordination_health(), CoordinationHealth::Degraded(_)));
    let odd = connect(settings(&format!("http://{}", redis.address()))).await;
    assert!(odd.as_ref().map_or(true, |client| client.coordination_health() != CoordinationHealth::Healthy), "{odd:?}");
}

/// Servers on one PostgreSQL, each under a name of its own.
struct Servers {
    database: TestDatabase,
    folder: tempfile::TempDir,
    looking: PgConnection,
    servers: Vec<(String, ServerProcess)>,
}

impl Servers {
    async fn start_named(names: &[&str], settings: Vec<(&'static str, String)>) -> Self {
        let database = TestDatabase::postgres().await;
        witness::install(database.url()).await.unwrap();
        let looking = PgConnection::connect(database.url()).await.unwrap();
        let mut scene = Self { database, folder: tempfile::tempdir().unwrap(), looking, servers: Vec::new() };
        for name in names {
            let mut plan = ServerPlan::new(witness::named(scene.database.url(), name), scene.folder.path());
            plan = plan.set("WORKER_ID", *name);
            for (variable, value) in &settings {
                plan = plan.set(variable, value);
            }
            scene.servers.push(((*name).to_owned(), plan.start().unwrap()));
            // One after the other: the first leads.
            scene.wait("a server takes part", &format!("SELECT node FROM members WHERE name = '{name}'")).await;
        }
        scene
    }

    async fn wait(&mut self, what: &str, sql: &str) {
        let looking = &mut self.looking;
        until(what, PATIENCE, async || {
            Ok(sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).fetch_optional(&mut *looking).await?)
        })
        .await
        .unwrap_or_else(|error| {
            panic!("{error:#}\n{}", self.servers.last().map_or(String::new(), |s| s.1.last_lines(20)))
        });
    }

    /// The place of the leader, once it is not the one of this epoch.
    async fn leader_after(&mut self, epoch: i64) -> (usize, i64) {
        let sql = "SELECT m.name, t.epoch FROM terms t JOIN members m ON m.node = t.node WHERE NOT t.released AND t.epoch > $1";
        let looking = &mut self.looking;
        let (name, epoch): (String, i64) = until("another server leads", PATIENCE, async || {
            Ok(sqlx::query_as(sql).bind(epoch).fetch_optional(&mut *looking).await?)
        })
        .await
        .unwrap();
        (self.servers.iter().position(|server| server.0 == name).unwrap(), epoch)
    }

    async fn stop(&mut self) {
        for (_, server) in &mut self.servers {
            server.stop(PATIENCE).await.unwrap();
        }
    }
}

fn named(lease: Duration) -> Vec<(&'static str, String)> {
    vec![("MAINSPRING_WORKER_LEASE_TTL", format!("{}ms", lease.as_millis()))]
}

#[tokio::test]
async fn a_leader_whose_lease_in_etcd_ends_is_succeeded_at_once() {
    let etcd = Service::etcd().await.unwrap();
    let mut settings = named(FOREVER);
    settings.push(("ETCD_ENDPOINTS", etcd.url()));
    let mut scene = Servers::start_named(&["a", "b"], settings).await;
    let (leader, epoch) = scene.leader_after(0).await;
    // The follower must have been in steady contact for a whole lease before it may conclude anything.
    scene.wait("the follower knows etcd for a while", "SELECT 1 FROM members HAVING min(beat) > 8").await;
    scene.servers[leader].1.kill().unwrap();
    let killed = Instant::now();
    let (successor, _) = scene.leader_after(epoch).await;
    assert_ne!(successor, leader);
    assert!(killed.elapsed() < PATIENCE / 2);
    let (_, mut server) = scene.servers.remove(successor);
    server.stop(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_before_it_drains() {
    let mut settings = named(FOREVER);
    settings.push(("MAINSPRING_SHUTDOWN_TIMEOUT", "120s".into()));
    let mut scene = Servers::start_named(&["a", "b"], settings).await;
    let (leader, epoch) = scene.leader_after(0).await;
    let client = client(scene.database.store());
    let source = "{name: long, tasks: {a: {run: 'sleep 1000'}}}";
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = client.put_workflow(workflow, source).await.unwrap();
    let runs = vec![mainspring_engine::Submission::default(); 64];
    let created = client.submit_many(&spec, runs).await.unwrap();
    scene.wait("both servers work", "SELECT 1 FROM task_runs HAVING count(DISTINCT session) = 2").await;
    let pid = Pid::from_raw(scene.servers[leader].1.pid() as i32);
    kill(pid, Signal::SIGTERM).unwrap();
    let (successor, _) = scene.leader_after(epoch).await;
    assert_ne!(successor, leader);
    // It still drains, and a supervisor that repeats itself kills nothing.
    kill(pid, Signal::SIGTERM).unwrap();
    kill(pid, Signal::SIGTERM).unwrap();
    scene.wait("it takes no more work", "SELECT 1 FROM sessions WHERE draining AND NOT dead").await;
    assert_eq!(scene.servers[leader].1.ended().unwrap(), None);
    for run in created {
        client.cancel(run.run().unwrap(), &mainspring_store::Operator::new("test", None)).await.unwrap();
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_new_leader_knows_how_long_the_dead_have_been_silent() {
    let lease = Duration::from_secs(3);
    let mut scene = Servers::start_named(&["a", "b"], named(lease)).await;
    let (leader, epoch) = scene.leader_after(0).await;
    scene.wait("both have beaten", "SELECT 1 FROM sessions HAVING count(*) = 2 AND min(beat) > 4").await;
    let name = scene.servers[leader].0.clone();
    scene.servers[leader].1.kill().unwrap();
    scene.leader_after(epoch).await;
    let url = scene.database.url().to_owned();
    let reap = until("the session of the dead is found", PATIENCE, async || {
        Ok(witness::reaps(&url).await?.into_iter().find(|reap| reap.actor.as_deref() == Some(name.as_str())))
    })
    .await
    .unwrap();
    let sql = "SELECT (extract(epoch FROM at) * 1000000)::bigint FROM witness_takeovers WHERE epoch = $1";
    let (taken_at,): (i64,) = sqlx::query_as(sql).bind(reap.epoch).fetch_one(&mut scene.looking).await.unwrap();
    let after = Duration::from_micros(u64::try_from(reap.at - taken_at).unwrap_or(0));
    assert!(after < lease / 2, "the new leader measured {after:?} anew");
    scene.servers.remove(leader);
    scene.stop().await;
}

#[tokio::test]
async fn two_servers_on_an_empty_database_make_one_first_token() {
    let database = TestDatabase::empty_postgres().await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut servers: Vec<ServerProcess> =
        folders.iter().map(|folder| ServerPlan::new(database.url(), folder.path()).start().unwrap()).collect();
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    until("both take part", PATIENCE, async || {
        // Until one of them has made the schema there is no such table.
        let members: Result<(i64,), _> = sqlx::query_as("SELECT count(*) FROM members").fetch_one(&mut looking).await;
        Ok(members.is_ok_and(|row| row.0 == 2).then_some(()))
    })
    .await
    .unwrap();
    let (tokens,): (i64,) = sqlx::query_as("SELECT count(*) FROM api_tokens").fetch_one(&mut looking).await.unwrap();
    assert_eq!(tokens, 1);
    for server in &mut servers {
        server.stop(PATIENCE).await.unwrap();
    }
}

/// Two nodes with etcd; whatever happens to it, the leader stays, no attempt is lost, and health says what is the matter.
#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_killed_wiped_or_paused_changes_no_outcome() {
    let (mut etcd, database) = (Service::etcd().await.unwrap(), TestDatabase::postgres().await);
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        let client = client(database.store()).with_etcd(&settings(&etcd.url())).await.unwrap();
        let config = NodeConfig { name: name.into(), lease_ttl: FOREVER, ..NodeConfig::default() };
        nodes.push(TestNode::start_as(client, config, Registry::builder().build()).await.unwrap());
    }
    let everywhere = async |nodes: &[TestNode], healthy: bool| {
        until("etcd is seen as it is", PATIENCE, async || {
            let is = |node: &TestNode| node.client().coordination_health() == CoordinationHealth::Healthy;
            let present = |node: &TestNode| node.client().members_present().is_some_and(|members| members.len() == 2);
            Ok(nodes.iter().all(|node| is(node) == healthy && (!healthy || present(node))).then_some(()))
        })
        .await
        .unwrap();
    };
    everywhere(&nodes, true).await;
    let client = nodes[0].client().clone();
    let source = "{name: long, tasks: {a: {function: {handler: sleep, payload: {for: 1h}}}}}";
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = client.put_workflow(workflow, source).await.unwrap();
    let created = client.submit_many(&spec, vec![mainspring_engine::Submission::default(); 10]).await.unwrap();
    until("all of it runs", PATIENCE, async || {
        Ok((nodes.iter().map(TestNode::running).sum::<usize>() == 10).then_some(()))
    })
    .await
    .unwrap();
    let before = client.store().term(mainspring_engine::LEADERSHIP).await.unwrap().unwrap();
    etcd.kill().unwrap();
    everywhere(&nodes, false).await;
    etcd.restart().await.unwrap();
    everywhere(&nodes, true).await;
    etcd.wipe().await.unwrap();
    everywhere(&nodes, true).await;
    etcd.pause().unwrap();
    everywhere(&nodes, false).await;
    etcd.resume().unwrap();
    everywhere(&nodes, true).await;
    let after = client.store().term(mainspring_engine::LEADERSHIP).await.unwrap().unwrap();
    assert_eq!((after.epoch, after.term_id), (before.epoch, before.term_id), "the leader lives, so it leads");
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    let (lost,): (i64,) = sqlx::query_as("SELECT count(*) FROM attempts").fetch_one(&mut looking).await.unwrap();
    assert_eq!(lost, 0, "no attempt was ended");
    for run in created {
        client.cancel(run.run().unwrap(), &mainspring_store::Operator::new("test", None)).await.unwrap();
    }
    for node in nodes {
        node.stop().await;
    }
}
