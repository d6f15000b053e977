//! Servers that lead: a leader that stands still is succeeded and refused, and the dead are found in time.
//!
//! Time is measured on the database's clock and only while a leader looked, so a busy machine fails nothing here.

use std::time::Duration;

use mainspring_testkit::TestDatabase;
use mainspring_testkit::server::{ServerPlan, ServerProcess};
use mainspring_testkit::wait::until;
use mainspring_testkit::witness::{self, Pace};
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

    /// Who leads, once somebody but this server does: where it stands among the servers.
    async fn leader(&mut self, but: &str) -> usize {
        let sql =
            "SELECT actor FROM (SELECT actor FROM witness_takeovers ORDER BY epoch DESC LIMIT 1) t WHERE actor <> $1";
        let looking = &mut self.looking;
        let (name,): (String,) = until("somebody leads", PATIENCE, async || {
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
