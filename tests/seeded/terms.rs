//! Leadership: an old leader's unit is under way while another takes over.

use std::time::Duration;

use mainspring_store::{Connect, NewSession, Store, Term};
use mainspring_testkit::database::NOW;
use mainspring_testkit::invariants::Violation;
use mainspring_testkit::proxy::Proxy;
use mainspring_testkit::wait::until;
use mainspring_testkit::{TestDatabase, witness};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::bugs::{assert_found, assert_sound, wait_for_waiters, waiters};

/// Two nodes, a leader and a follower, and a session that is taken for dead.
struct Scene {
    database: TestDatabase,
    old: Store,
    new: Store,
    term: Term,
    session: i64,
    /// The old leader's way to the database.
    _proxy: Proxy,
}

impl Scene {
    async fn new(plain_read: bool) -> Self {
        let database = TestDatabase::postgres().await;
        witness::install(database.url()).await.unwrap();
        let proxy = Proxy::start(&witness::named(database.url(), "old")).await.unwrap();
        if plain_read {
            proxy.rewrite("FROM terms WHERE name = $1 AND epoch = $2 AND term_id = $3 FOR KEY SHARE", PLAIN);
        }
        let old = Store::connect(&Connect::new(proxy.url())).await.unwrap();
        let new = Store::connect(&Connect::new(witness::named(database.url(), "new"))).await.unwrap();
        let term = old.take_term("leader", Uuid::from_u128(1), Uuid::from_u128(11), None).await.unwrap().unwrap();
        let session = NewSession {
            node: Uuid::from_u128(3),
            worker: "third".into(),
            hostname: "elsewhere".into(),
            queues: String::new(),
            labels: String::new(),
            slots: 1,
            function_slots: 0,
            remote: false,
            version: String::new(),
        };
        let session = database.store().open_session(NOW, &session).await.unwrap();
        Self { database, old, new, term, session, _proxy: proxy }
    }

    async fn is_alive(&self) -> bool {
        self.database.store().live_sessions().await.unwrap().iter().any(|row| row.id == self.session)
    }
}

const PLAIN: &str = "FROM terms WHERE name = $1 AND epoch = $2 AND term_id = $3";

/// The old leader has looked at its term and waits for the session, which another transaction holds; meanwhile the other takes over.
async fn takeover_during_a_unit(plain_read: bool) -> Vec<Violation> {
    let scene = Scene::new(plain_read).await;
    let url = scene.database.url();
    let mut holder = PgConnection::connect(url).await.unwrap();
    sqlx::query("BEGIN").execute(&mut holder).await.unwrap();
    sqlx::query("SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE")
        .bind(scene.session)
        .execute(&mut holder)
        .await
        .unwrap();
    let (old, term, session) = (scene.old.clone(), scene.term.clone(), scene.session);
    let reaping = tokio::spawn(async move { old.reap_session(NOW, session, 0, &term).await });
    wait_for_waiters(url, 1).await;
    let (new, seen) = (scene.new.clone(), scene.term.clone());
    let taking =
        tokio::spawn(
            async move { new.take_term("leader", Uuid::from_u128(2), Uuid::from_u128(12), Some(&seen)).await },
        );
    let mut looking = PgConnection::connect(url).await.unwrap();
    until("the takeover waits or is done", Duration::from_secs(60), async || {
        Ok((taking.is_finished() || waiters(&mut looking).await? == 2).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(taking.is_finished(), plain_read, "a takeover waits for a unit that holds the term");
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    reaping.await.unwrap().unwrap();
    assert_eq!(taking.await.unwrap().unwrap().map(|term| term.epoch), Some(2));
    assert!(!scene.is_alive().await);
    assert_eq!(witness::counts(url).await.unwrap(), (2, 1), "two terms, one write");
    witness::check(url).await.unwrap()
}

#[tokio::test]
async fn a_plain_read_of_the_term_is_found() {
    assert_sound(&takeover_during_a_unit(false).await);
    let found = takeover_during_a_unit(true).await;
    assert_found(&found, "only who holds the term writes as its leader");
}

/// The takeover is under way when the old leader looks at its term: it waits, and what it finds then is not its own.
async fn unit_during_a_takeover(plain_read: bool) -> (bool, Vec<Violation>) {
    let scene = Scene::new(plain_read).await;
    let url = scene.database.url();
    let mut taking = PgConnection::connect(&witness::named(url, "new")).await.unwrap();
    sqlx::query("BEGIN").execute(&mut taking).await.unwrap();
    sqlx::query("SELECT epoch FROM terms FOR UPDATE").execute(&mut taking).await.unwrap();
    let sql = "UPDATE terms SET epoch = epoch + 1, term_id = $1, node = $2, beat = 0";
    sqlx::query(sql).bind(Uuid::from_u128(12)).bind(Uuid::from_u128(2)).execute(&mut taking).await.unwrap();
    let (old, term, session) = (scene.old.clone(), scene.term.clone(), scene.session);
    let reaping = tokio::spawn(async move { old.reap_session(NOW, session, 0, &term).await });
    let mut looking = PgConnection::connect(url).await.unwrap();
    until("the unit waits or is done", Duration::from_secs(60), async || {
        Ok((reaping.is_finished() || waiters(&mut looking).await? == 1).then_some(()))
    })
    .await
    .unwrap();
    sqlx::query("COMMIT").execute(&mut taking).await.unwrap();
    reaping.await.unwrap().unwrap();
    (scene.is_alive().await, witness::check(url).await.unwrap())
}

#[tokio::test]
async fn a_unit_that_looks_during_a_takeover_is_refused() {
    let (alive, found) = unit_during_a_takeover(false).await;
    assert!(alive, "the old leader's late unit did something");
    assert_sound(&found);
    let (alive, found) = unit_during_a_takeover(true).await;
    assert!(!alive);
    assert_found(&found, "no write of an epoch commits after the takeover to a later one");
}
