//! One test per bug: the sound version first, then the bug, under one schedule.

use std::time::Duration;

use mainspring_core::Micros;
use mainspring_store::{Error, Exchange, Flavor, Resolution};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::invariants::Violation;
use mainspring_testkit::proxy::{Fault, Proxy};
use mainspring_testkit::wait::until;
use sqlx::{Connection, PgConnection};

use crate::driver::Driver;
use crate::mutation::Mutation;

const ONE: &str = "a: {function: noop}";
const CHAIN: &str = "a: {function: noop}, b: {needs: a, function: noop}";
const TWO: &str = "a: {function: noop}, b: {function: noop}";
const BOTH: [Flavor; 2] = [Flavor::Postgres, Flavor::Sqlite];
const SECOND: Micros = 1_000_000;

pub(crate) fn assert_sound(found: &[Violation]) {
    assert_eq!(found, [], "the sound version");
}

/// The bug was found, and by what should find it.
pub(crate) fn assert_found(found: &[Violation], invariant: &str) {
    assert!(found.iter().any(|violation| violation.invariant == invariant), "{invariant:?} is not among {found:#?}");
}

/// A worker that was taken for dead hands its result in when another one executes the task already.
async fn late_result(bug: Option<Mutation>) -> Vec<Violation> {
    let mut driver = Driver::new(bug).await;
    driver.submit(CHAIN).await;
    let first = driver.claim(1).await;
    let late = driver.execute(&first[0]);
    driver.die().await;
    let second = driver.claim(1).await;
    assert_eq!(second[0].token.attempt, 2);
    let exchange = Exchange { ended: vec![late], ..driver.exchange() };
    driver.send(&exchange).await;
    driver.hand_in(&second[0]).await;
    driver.drain().await;
    driver.violations().await
}

#[tokio::test]
async fn a_finish_that_does_not_check_session_and_attempt_is_found() {
    let bug = Mutation {
        function: "exchange_v1",
        passage: "AND t.state = f.from_state AND t.session IS NOT DISTINCT FROM f.session AND t.attempt = f.attempt",
        instead: "AND t.state = f.from_state",
        trigger: None,
    };
    assert_sound(&late_result(None).await);
    assert_found(&late_result(Some(bug)).await, "an attempt ends once");
}

/// A node dies right after an exchange or lives on. With the bug, it changes the run's counter next.
async fn life_after_an_exchange(flavor: Flavor, bug: Option<Mutation>, dies: bool) -> Vec<Violation> {
    let mut driver = Driver::of(flavor, bug).await;
    driver.submit(TWO).await;
    let claimed = driver.claim(2).await;
    if dies {
        let exchange = Exchange { ended: vec![driver.execute(&claimed[0])], ..driver.exchange() };
        driver.send(&exchange).await;
        driver.die().await;
    }
    driver.counts_apart = bug.is_some();
    if !dies {
        driver.hand_in(&claimed[0]).await;
        driver.hand_in(&claimed[1]).await;
    }
    driver.drain().await;
    driver.violations().await
}

#[tokio::test]
async fn a_counter_changed_outside_the_unit_is_found() {
    let bug = Mutation {
        function: "settle_v1",
        passage: "open = r.open - p.n,",
        instead: "open = r.open,",
        // A unit numbers its events, the statement apart from it does not.
        trigger: Some(
            "CREATE TRIGGER bug AFTER UPDATE OF open ON runs WHEN NEW.open < OLD.open AND NEW.seq > OLD.seq \
             BEGIN UPDATE runs SET open = OLD.open WHERE id = NEW.id; END",
        ),
    };
    for flavor in BOTH {
        assert_sound(&life_after_an_exchange(flavor, None, true).await);
        // Nothing shows as long as no process dies in between.
        assert_sound(&life_after_an_exchange(flavor, Some(bug), false).await);
        assert_found(&life_after_an_exchange(flavor, Some(bug), true).await, "runs.open counts the live task runs");
    }
}

/// The reply to an exchange is lost after the commit.
async fn lost_reply(retries_blindly: bool) -> Vec<Violation> {
    let database = TestDatabase::postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    let mut driver = Driver::by_way_of(database, proxy.url()).await;
    driver.submit(CHAIN).await;
    driver.submit(ONE).await;
    let claimed = driver.claim(1).await;
    let ended = vec![driver.execute(&claimed[0])];
    let exchange = Exchange { ended, want: driver.wants(1).await, ..driver.exchange() };
    proxy.plan("exchange_v1", Fault::LoseReply);
    let error = driver.lane.exchange(&exchange).await.unwrap_err();
    assert!(matches!(error, Error::InDoubt(_)), "{error}");
    let reply = if retries_blindly {
        driver.lane = driver.store.open_lane(uuid::Uuid::from_u128(1), driver.now()).await.unwrap();
        driver.send(&exchange).await
    } else {
        match driver.lane.resolve(&[driver.session]).await.unwrap() {
            Resolution::Applied(reply) => reply,
            Resolution::NotApplied => panic!("the reply was lost after the commit"),
        }
    };
    for claim in &reply.claimed {
        driver.hand_in(claim).await;
    }
    driver.drain().await;
    assert_eq!(proxy.injected(), [Fault::LoseReply]);
    driver.violations().await
}

#[tokio::test]
async fn a_blind_retry_after_a_lost_reply_is_found() {
    assert_sound(&lost_reply(false).await);
    assert_found(&lost_reply(true).await, "every run has ended");
}

/// A task fails and is to be tried again; the node dies before.
async fn death_before_a_retry(flavor: Flavor, timer_in_memory: bool) -> Vec<Violation> {
    let mut driver = Driver::of(flavor, None).await;
    driver.submit("a: {function: noop, retry: {attempts: 3}}, b: {needs: a, function: noop}").await;
    let claimed = driver.claim(1).await;
    let due_at = driver.now() + SECOND;
    // A node with the bug tells the store of no time: it would wake up by itself and make the row due.
    let told = if timer_in_memory { Micros::MAX } else { due_at };
    let exchange = Exchange { continued: vec![driver.retry(&claimed[0], told)], ..driver.exchange() };
    driver.send(&exchange).await;
    driver.die().await;
    driver.drain().await;
    driver.violations().await
}

#[tokio::test]
async fn a_retry_timer_in_memory_is_found() {
    for flavor in BOTH {
        assert_sound(&death_before_a_retry(flavor, false).await);
        assert_found(&death_before_a_retry(flavor, true).await, "every run has ended");
    }
}

async fn plain_work(flavor: Flavor, bug: Option<Mutation>) -> Vec<Violation> {
    let mut driver = Driver::of(flavor, bug).await;
    driver.submit(CHAIN).await;
    driver.drain().await;
    driver.violations().await
}

#[tokio::test]
async fn a_finish_without_advance_is_found() {
    let bug = Mutation {
        function: "settle_v1",
        passage: "IF cardinality(a_run) > 0 OR EXISTS (SELECT 1 FROM unnest(g_flags) f WHERE f & 1 <> 0) THEN",
        instead: "IF FALSE THEN",
        trigger: Some(
            "CREATE TRIGGER bug AFTER UPDATE ON task_runs WHEN OLD.state = 0 BEGIN UPDATE task_runs SET state = 0, open = OLD.open, \
             succeeded = OLD.succeeded, failed = OLD.failed, skipped = OLD.skipped WHERE run_id = NEW.run_id AND idx = NEW.idx; END",
        ),
    };
    for flavor in BOTH {
        assert_sound(&plain_work(flavor, None).await);
        assert_found(&plain_work(flavor, Some(bug)).await, "what became of a task follows from its trigger rule");
    }
    // The same on the way that a lone result takes.
    let bug = Mutation {
        function: "settle_one_v1",
        passage: "IF p_flags & 1 = 0 THEN RETURN; END IF;",
        instead: "RETURN;",
        trigger: None,
    };
    let found = plain_work(Flavor::Postgres, Some(bug)).await;
    assert_found(&found, "what became of a task follows from its trigger rule");
}

/// A session is reaped while an exchange of it is about to claim.
async fn reaping_during_a_claim(in_one_statement: bool) -> Vec<Violation> {
    let mut driver = Driver::new(None).await;
    let first = driver.submit(ONE).await;
    driver.submit(ONE).await;
    let claimed = driver.claim(1).await;
    assert_eq!(claimed[0].token.key.run, first);

    // The exchange has locked its session and waits for the run that another transaction holds; it will claim afterwards.
    let mut holder = PgConnection::connect(driver.database.url()).await.unwrap();
    sqlx::query("BEGIN").execute(&mut holder).await.unwrap();
    sqlx::query("SELECT 1 FROM runs WHERE id = $1 FOR UPDATE").bind(first).execute(&mut holder).await.unwrap();
    let exchange =
        Exchange { ended: vec![driver.execute(&claimed[0])], want: driver.wants(1).await, ..driver.exchange() };
    let url = driver.database.url().to_owned();
    let mut lane = driver.store.open_lane(uuid::Uuid::from_u128(1), driver.now()).await.unwrap();
    let exchanging = tokio::spawn(async move { lane.exchange(&exchange).await.unwrap() });
    wait_for_waiters(&url, 1).await;

    let dead = driver.come_back().await;
    let (store, now) = (driver.store.clone(), driver.now());
    let reaping = tokio::spawn(async move {
        if in_one_statement {
            reap_in_one_statement(&url, dead).await;
        } else {
            store.end_session(now, dead).await.unwrap();
        }
    });
    wait_for_waiters(driver.database.url(), 2).await;
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    let reply = exchanging.await.unwrap();
    assert_eq!(reply.claimed.len(), 1, "it claims before it can know that it is dead");
    reaping.await.unwrap();
    driver.drain().await;
    driver.violations().await
}

/// Waits until this number of backends waits for locks.
pub(crate) async fn wait_for_waiters(url: &str, count: i64) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    until("a backend waits for a lock", Duration::from_secs(60), async || {
        Ok((waiters(&mut connection).await? == count).then_some(()))
    })
    .await
    .unwrap();
}

pub(crate) async fn waiters(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let (waiting,): (i64,) = sqlx::query_as(sql).fetch_one(connection).await?;
    Ok(waiting)
}

/// The mark and the return see the same moment: the one before the wait.
async fn reap_in_one_statement(url: &str, session: i64) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let sql = "WITH held AS (SELECT id FROM sessions WHERE id = $1 AND NOT dead FOR UPDATE), \
               marked AS (UPDATE sessions s SET dead = TRUE FROM held h WHERE s.id = h.id RETURNING s.id) \
               UPDATE task_runs t SET state = 1, session = NULL, claim = NULL, started_at = NULL FROM marked m WHERE t.session = m.id";
    sqlx::query(sql).bind(session).execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn reaping_in_one_statement_is_found() {
    assert_sound(&reaping_during_a_claim(false).await);
    assert_found(&reaping_during_a_claim(true).await, "no task run is live");
}
