//! Bugs of many machines: lost and repeated answers, stolen tasks, limits that are counted.

use std::sync::Arc;

use mainspring_engine::{Client, Submission, SystemClock};
use mainspring_store::{Connect, Exchange, Store};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::invariants::{self, Violation};
use sqlx::{Connection, PgConnection};

use crate::bugs::{assert_found, assert_sound, wait_for_waiters};
use crate::driver::Driver;
use crate::mutation::{self, Mutation};

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

/// Two nodes make a run each, whose tasks all want a slot of a pool that has two.
async fn admission(bug: Option<Mutation>) -> Vec<Violation> {
    let database = TestDatabase::postgres().await;
    if let Some(bug) = bug {
        mutation::apply(&database, bug).await;
    }
    let url = database.url().to_owned();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let store = Store::connect(&Connect::new(&url)).await.unwrap();
        clients.push(Client::new(store, Arc::new(SystemClock::new())));
    }
    clients[0].store().set_pool(clients[0].now(), "default", "p", Some(2)).await.unwrap();
    let source = "{name: w, tasks: {a: {function: noop, pool: p}, b: {function: noop, pool: p}}}";
    let workflow = mainspring_core::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = clients[0].put_workflow(workflow, source).await.unwrap();
    // Both are on their way when another transaction lets the limit go.
    let mut holder = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT 1 FROM limits FOR UPDATE").execute(&mut holder).await.unwrap();
    let mut submitting = Vec::new();
    for client in clients {
        let spec = Arc::clone(&spec);
        submitting.push(tokio::spawn(async move { client.submit(&spec, Submission::default()).await.map(|_| ()) }));
    }
    wait_for_waiters(&url, 2).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    for submitted in submitting {
        submitted.await.unwrap().unwrap();
    }
    invariants::check(&url).await.unwrap()
}

#[tokio::test]
async fn limits_that_are_counted_from_live_rows_are_found() {
    let bug = Mutation {
        function: "limits_v1",
        passage: "        FROM limits WHERE id = l.id FOR NO KEY UPDATE;",
        instead: "        FROM limits WHERE id = l.id;
                  l.held := l.back + (SELECT count(*) FROM task_runs t WHERE t.pool = l.id AND t.state IN (1, 2));",
        trigger: None,
    };
    assert_sound(&admission(None).await);
    assert_found(&admission(Some(bug)).await, "a pool's held counts its ready and running rows");
}
