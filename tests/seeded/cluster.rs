//! Bugs of many machines: lost and repeated answers, stolen tasks, limits that are counted, and an etcd that is believed.

use std::time::Duration;

use mainspring_store::{Connect, Exchange, NewSession, Store};
use mainspring_testkit::invariants::{self, Violation};
use mainspring_testkit::{TestDatabase, witness};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

use crate::bugs::{assert_found, assert_sound};
use crate::driver::Driver;
use crate::mutation::Mutation;

const ONE: &str = "a: {function: noop}";

/// The answer that carried a claim is lost, and the worker's session lives on.
async fn lost_claim(forgets: bool) -> Vec<Violation> {
    let mut driver = Driver::new(None).await;
    driver.submit(ONE).await;
    assert_eq!(driver.claim(1).await.len(), 1, "and nobody hears of it");
    if !forgets {
        for claim in driver.store.claims_of(driver.session).await.unwrap() {
            driver.hand_in(&claim).await;
        }
    }
    driver.drain().await;
    driver.violations().await
}

#[tokio::test]
async fn a_lost_claim_answer_that_is_forgotten_is_found() {
    assert_sound(&lost_claim(false).await);
    assert_found(&lost_claim(true).await, "every run has ended");
}

/// A worker repeats an exchange whose answer it did not get, when the next attempt is its own already.
async fn repeated_exchange(bug: Option<Mutation>) -> Vec<Violation> {
    let mut driver = Driver::new(bug).await;
    driver.submit("a: {function: noop, retry: {attempts: 2}}").await;
    let first = driver.claim(1).await;
    let failed = Exchange { continued: vec![driver.retry(&first[0], driver.now())], ..driver.exchange() };
    driver.send(&failed).await;
    driver.store.promote_due(driver.now(), 10).await.unwrap();
    let second = driver.claim(1).await;
    assert_eq!(second[0].token.attempt, 2);
    driver.send(&failed).await;
    driver.hand_in(&second[0]).await;
    driver.drain().await;
    driver.violations().await
}

#[tokio::test]
async fn a_repeated_exchange_that_is_applied_twice_is_found() {
    let bug = Mutation {
        function: "exchange_v1",
        passage: "AND l.session IS NOT DISTINCT FROM x.session AND l.attempt = x.attempt FOR UPDATE",
        instead: "AND l.session IS NOT DISTINCT FROM x.session FOR UPDATE",
        trigger: None,
    };
    assert_sound(&repeated_exchange(None).await);
    assert_found(&repeated_exchange(Some(bug)).await, "a run ends as its workflow can");
}

/// A worker is asked to hand back what it has not begun, for another that is idle.
async fn stolen_task(victim_starts_it: bool) -> Vec<Violation> {
    let mut driver = Driver::new(None).await;
    driver.submit(ONE).await;
    let claimed = driver.claim(1).await;
    let released = Exchange { continued: vec![driver.release(&claimed[0])], ..driver.exchange() };
    driver.send(&released).await;
    if victim_starts_it {
        // Its result will be refused, but it has been done.
        driver.execute(&claimed[0]);
    }
    driver.come_back().await;
    let stolen = driver.claim(1).await;
    assert_eq!(stolen[0].token.attempt, 2);
    driver.hand_in(&stolen[0]).await;
    driver.drain().await;
    driver.violations().await
}

#[tokio::test]
async fn a_stolen_task_that_its_victim_starts_is_found() {
    assert_sound(&stolen_task(false).await);
    assert_found(&stolen_task(true).await, "what was handed back for others is not executed");
}

/// A pool gets a second slot while three tasks want one.
async fn admission(counts_live_rows: bool) -> Vec<Violation> {
    let mut driver = Driver::new(None).await;
    driver.store.set_pool(driver.now(), "default", "p", Some(1)).await.unwrap();
    driver.submit("a: {function: noop, pool: p}, b: {function: noop, pool: p}, c: {function: noop, pool: p}").await;
    let url = driver.database.url().to_owned();
    if counts_live_rows {
        let mut setting = PgConnection::connect(&url).await.unwrap();
        sqlx::query("UPDATE limits SET capacity = 2").execute(&mut setting).await.unwrap();
        // Two nodes look at the same time, and both see that one slot is free.
        let mut nodes = [PgConnection::connect(&url).await.unwrap(), PgConnection::connect(&url).await.unwrap()];
        for node in &mut nodes {
            sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM task_runs")
                .execute(node)
                .await
                .unwrap();
        }
        for (node, index) in nodes.iter_mut().zip([1, 2]) {
            let sql = format!(
                "UPDATE task_runs SET state = 1 WHERE idx = {index} AND (SELECT count(*) FROM task_runs WHERE state IN (1, 2)) < 2; COMMIT"
            );
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(node).await.unwrap();
        }
    } else {
        driver.store.set_pool(driver.now(), "default", "p", Some(2)).await.unwrap();
    }
    invariants::check(&url).await.unwrap()
}

#[tokio::test]
async fn limits_that_are_counted_from_live_rows_are_found() {
    assert_sound(&admission(false).await);
    assert_found(&admission(true).await, "a pool's held counts its ready and running rows");
}

/// etcd is out of reach: a leader that believes it finds everybody dead, one that asks the database waits for the beats to
/// stand still.
async fn silent_etcd(is_taken_for_death: bool) -> Vec<Violation> {
    let database = TestDatabase::postgres().await;
    witness::install(database.url()).await.unwrap();
    let worker = Store::connect(&Connect::new(witness::named(database.url(), "worker"))).await.unwrap();
    let leader = Store::connect(&Connect::new(witness::named(database.url(), "leader"))).await.unwrap();
    let session = NewSession {
        node: Uuid::from_u128(3),
        worker: "w".into(),
        hostname: "h".into(),
        queues: String::new(),
        labels: String::new(),
        slots: 1,
        function_slots: 0,
        remote: false,
    };
    let session = worker.open_session(0, &session).await.unwrap();
    let term = leader.take_term("leader", Uuid::from_u128(1), Uuid::from_u128(2), None).await.unwrap().unwrap();
    let ttl = Duration::from_millis(300);
    if !is_taken_for_death {
        // The time of a lease is what is being tried here.
        tokio::time::sleep(ttl).await;
    }
    let beat = leader.live_sessions().await.unwrap()[0].beat;
    leader.reap_session(0, session, beat, &term).await.unwrap();
    assert!(leader.live_sessions().await.unwrap().is_empty());
    witness::check_patience(database.url(), ttl).await.unwrap()
}

#[tokio::test]
async fn an_etcd_loss_that_is_taken_for_death_is_found() {
    assert_sound(&silent_etcd(false).await);
    assert_found(&silent_etcd(true).await, "a session is found dead only after it was silent for a whole TTL");
}
