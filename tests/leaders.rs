//! Servers that lead: a leader that stands still is succeeded and refused, and the dead are found in time. A node that was
//! taken for dead goes on with one session.
//!
//! Time is measured on the database's clock and only while a leader looked, so a busy machine fails nothing here.

use std::sync::Arc;
use std::time::Duration;

use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_store::{Connect, NewSession, Operator, Store};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::node::TestNode;
use mainspring_testkit::proxy::{Fault, Proxy};
use mainspring_testkit::server::{ServerPlan, ServerProcess};
use mainspring_testkit::wait::until;
use mainspring_testkit::witness::{self, Pace};
use mainspring_worker::Registry;
use sqlx::{Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);
const PACE: Pace = Pace { ttl: Duration::from_millis(600), turn: Duration::from_millis(150) };

/// Servers on one database, each under a name of its own.
struct Scene {
    database: TestDatabase,
    folder: tempfile::TempDir,
    looking: PgConnection,
    lease: Duration,
    servers: Vec<(String, ServerProcess)>,
    started: usize,
}

impl Scene {
    async fn new(lease: Duration) -> Self {
        let database = TestDatabase::postgres().await;
        witness::install(database.url()).await.unwrap();
        let looking = PgConnection::connect(database.url()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self { database, folder, looking, lease, servers: Vec::new(), started: 0 }
    }

    /// Starts a server and waits until it has a session.
    async fn start(&mut self) {
        self.started += 1;
        let name = format!("server-{}", self.started);
        let plan = ServerPlan::new(witness::named(self.database.url(), &name), self.folder.path())
            .set("MAINSPRING_WORKER_LEASE_TTL", format!("{}ms", self.lease.as_millis()))
            .set("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", format!("{}ms", PACE.turn.as_millis()));
        self.servers.push((name.clone(), plan.start().unwrap()));
        self.wait_for_sessions(&name, 1).await;
    }

    /// The index of the leader, once another server than this one leads.
    async fn leader(&mut self, but: &str) -> usize {
        let sql =
            "SELECT actor FROM (SELECT actor FROM witness_takeovers ORDER BY epoch DESC LIMIT 1) t WHERE actor <> $1";
        let looking = &mut self.looking;
        let (name,): (String,) = until("a node leads", PATIENCE, async || {
            Ok(sqlx::query_as(sql).bind(but).fetch_optional(&mut *looking).await?)
        })
        .await
        .unwrap();
        self.servers.iter().position(|server| server.0 == name).unwrap()
    }

    async fn wait_for_sessions(&mut self, name: &str, count: i64) {
        let looking = &mut self.looking;
        until("a session is opened", PATIENCE, async || {
            let sql = "SELECT count(*) FROM witness_sessions WHERE actor = $1";
            let (opened,): (i64,) = sqlx::query_as(sql).bind(name).fetch_one(&mut *looking).await?;
            Ok((opened >= count).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Waits until the session of a server was marked dead; nothing is claimed by it any more then.
    async fn wait_for_reap(&mut self, name: &str) {
        let url = self.database.url();
        let reap = until("a dead session is found", PATIENCE, async || {
            Ok(witness::reaps(url).await?.into_iter().find(|reap| reap.actor.as_deref() == Some(name)))
        })
        .await
        .unwrap();
        let sql = "SELECT count(*) FROM task_runs WHERE session = $1";
        let (held,): (i64,) = sqlx::query_as(sql).bind(reap.session).fetch_one(&mut self.looking).await.unwrap();
        assert_eq!(held, 0, "what a dead session held was returned with the mark");
    }

    async fn stop(&mut self) {
        for (_, server) in &mut self.servers {
            server.stop(PATIENCE).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_leader_that_stood_still_is_succeeded_and_refused() {
    let mut scene = Scene::new(PACE.ttl).await;
    scene.start().await;
    scene.start().await;
    for _ in 0..2 {
        let old = scene.leader("").await;
        let name = scene.servers[old].0.clone();
        scene.servers[old].1.pause().unwrap();
        scene.leader(&name).await;
        scene.wait_for_reap(&name).await;
        scene.servers[old].1.resume().unwrap();
        // It finds that its session is dead and its term taken, and goes on with a session of its own.
        scene.wait_for_sessions(&name, 2).await;
    }
    scene.stop().await;
    let (terms, writes) = witness::counts(scene.database.url()).await.unwrap();
    assert!(terms >= 3 && writes >= 2, "{terms} terms, {writes} writes");
    assert_eq!(witness::check(scene.database.url()).await.unwrap(), []);
}

/// Kills leaders and followers in turn; each must be found dead.
async fn kill_in_turn(scene: &mut Scene, kills: usize) {
    scene.start().await;
    scene.start().await;
    for kill in 0..kills {
        let leader = scene.leader("").await;
        let victim = if kill % 2 == 0 { 1 - leader } else { leader };
        let (name, mut server) = scene.servers.remove(victim);
        server.kill().unwrap();
        scene.wait_for_reap(&name).await;
        scene.start().await;
    }
    scene.stop().await;
}

async fn check_pace(kills: usize) {
    let mut scene = Scene::new(PACE.ttl).await;
    kill_in_turn(&mut scene, kills).await;
    let url = scene.database.url();
    assert_eq!(witness::check_pace(url, PACE).await.unwrap(), []);
    assert_eq!(witness::check(url).await.unwrap(), []);
}

#[tokio::test]
async fn the_dead_are_found_in_time() {
    check_pace(3).await;
}

#[tokio::test]
async fn long_chaos_finds_the_dead_in_time() {
    check_pace(40).await;
}

#[tokio::test]
async fn a_leader_that_waits_too_long_is_found() {
    // Much later than the bound: what its turns come late by on a loaded machine is taken off.
    let mut scene = Scene::new(PACE.ttl + Duration::from_secs(9)).await;
    kill_in_turn(&mut scene, 1).await;
    let late = witness::check_pace(scene.database.url(), PACE).await.unwrap();
    assert!(!late.is_empty(), "it came more than a second late");
}

async fn live_sessions(client: &Client) -> Vec<i64> {
    client.store().live_sessions().await.unwrap().into_iter().map(|session| session.id).collect()
}

/// Its lanes and its beat notice at the same time, and attempts that it has just claimed are still on their way to its
/// worker: one session is opened, and none of those attempts goes on. The way to the database is long, so that much is
/// under way.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_loses_its_session_again_and_again_has_one() {
    let database = TestDatabase::postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    let far = Store::connect(&Connect::new(proxy.url())).await.unwrap();
    let node = TestNode::start(&far, Registry::builder().build()).await.unwrap();
    let client = Client::new(database.store().clone(), Arc::new(SystemClock::new()));
    let source = "{name: long, inputs: {for: {type: string, default: 1h}}, \
                   tasks: {a: {function: {handler: sleep, payload: {for: '${{ inputs.for }}'}}, max_lost: 1000}}}";
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = client.put_workflow(workflow, source).await.unwrap();
    let created = client.submit_many(&spec, vec![Submission::default(); 40]).await.unwrap();
    proxy.disturb(20_261_116, 1, &[Fault::Stall(Duration::from_millis(25))]);
    let mut looking = PgConnection::connect(database.url()).await.unwrap();
    for _ in 0..12 {
        let sql = "SELECT s.id FROM sessions s JOIN task_runs t ON t.session = s.id WHERE NOT s.dead LIMIT 1";
        let (session,): (i64,) = until("a session has claimed", PATIENCE, async || {
            Ok(sqlx::query_as(sql).fetch_optional(&mut looking).await?)
        })
        .await
        .unwrap();
        client.store().end_session(client.now(), session).await.unwrap();
    }
    proxy.calm();
    let claimed = "SELECT count(*), count(DISTINCT t.session) FROM task_runs t JOIN sessions s ON s.id = t.session";
    until("everything runs for one session", PATIENCE, async || {
        let counts: (i64, i64) = sqlx::query_as(claimed).fetch_one(&mut looking).await?;
        Ok((counts == (created.len() as i64, 1) && live_sessions(&client).await.len() == 1).then_some(()))
    })
    .await
    .unwrap();
    for run in created {
        client.cancel(run.run().unwrap(), &Operator::new("test", None)).await.unwrap();
    }
    until("nothing runs", PATIENCE, async || Ok((node.running() == 0).then_some(()))).await.unwrap();
    node.stop().await;
}

#[tokio::test]
async fn a_session_that_was_opened_in_vain_is_ended() {
    let database = TestDatabase::postgres().await;
    let node = TestNode::start(database.store(), Registry::builder().build()).await.unwrap();
    let client = node.client();
    let own = live_sessions(client).await;
    let session = NewSession {
        node: node.handle().id(),
        worker: "test".into(),
        hostname: String::new(),
        queues: String::new(),
        labels: String::new(),
        slots: 8,
        function_slots: 0,
        remote: false,
        version: String::new(),
    };
    client.store().open_session(client.now(), &session).await.unwrap();
    until("only its own is left", PATIENCE, async || Ok((live_sessions(client).await == own).then_some(())))
        .await
        .unwrap();
    node.stop().await;
}
