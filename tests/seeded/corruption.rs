//! The checker on a database in which something is not as it was written.

use mainspring_core::state::RunState;
use mainspring_store::{Exchange, Flavor};
use mainspring_testkit::{TestDatabase, transactions};
use sqlx::{Connection, PgConnection};

use crate::driver::{Driver, execute};

/// (the table that is spoilt, how, which invariant does not hold then).
const CASES: &[(&str, &str, &str)] = &[
    ("runs", "UPDATE runs SET open = open + 1", "runs.open counts the live task runs"),
    ("runs", "UPDATE runs SET state = 1, finished_at = NULL", "every run has ended"),
    ("runs", "UPDATE runs SET state = 3 WHERE failed > 0", "a run ends as its tasks and its flags say"),
    ("runs", "DELETE FROM runs", "an acknowledged run exists"),
    ("submissions", "DELETE FROM submissions", "an acknowledged submission stays what it was"),
    ("attempts", "DELETE FROM attempts", "attempts are 1, 2, 3 … without gaps"),
    ("history", "UPDATE history SET attempt = attempt + 1 WHERE attempt > 0", "attempts are 1, 2, 3 … without gaps"),
    ("history", "UPDATE history SET attempt = 1 WHERE attempt = 2", "an attempt ends once"),
    ("history", "DELETE FROM history WHERE idx = 1", "every task of an ended run has ended"),
    ("history", "UPDATE history SET state = 12 WHERE idx = 1", "what became of a task follows from its trigger rule"),
    ("history", "UPDATE history SET seq = 1", "an attempt begins after the one before it ended"),
    ("history", "UPDATE history SET session = 999 WHERE session IS NOT NULL", "only what was claimed is executed"),
    ("history", "UPDATE history SET generation = 1", "no row is of a generation to come"),
    (
        "dead_letters",
        "DELETE FROM dead_letters",
        "an exhausted task with a dead letter queue has exactly one entry per generation",
    ),
    (
        "dead_letters",
        "INSERT INTO dead_letters (id, run_id, idx, item, version, reason, original_state, total_attempts, status, created_at, \
         updated_at) SELECT ANY_ID, run_id, idx, item, version, reason, original_state, total_attempts, 4, created_at, \
         updated_at FROM dead_letters",
        "an exhausted task with a dead letter queue has exactly one entry per generation",
    ),
    (
        "history",
        "UPDATE history SET state = 12 WHERE state = 11 AND flags & 4 <> 0",
        "a pending entry of an exhausted task is of a task that is failed",
    ),
    ("", "UPDATE limits SET held = 1", "no limit is held"),
];

#[tokio::test]
async fn a_spoilt_database_is_found() {
    find_what_is_spoilt(Flavor::Postgres).await;
}

#[tokio::test]
async fn a_spoilt_file_is_found() {
    find_what_is_spoilt(Flavor::Sqlite).await;
}

async fn find_what_is_spoilt(flavor: Flavor) {
    let mut driver = Driver::of(flavor, None).await;
    driver.submit("a: {function: noop, pool: p}, b: {needs: a, function: noop}").await;
    driver.claim(1).await;
    driver.die().await;
    driver.submit_expecting("a: {function: noop, retry: {attempts: 1}}", RunState::Failed).await;
    let claimed = driver.claim(2).await;
    let exhausted = claimed.iter().find(|claim| claim.token.attempt == 1).unwrap();
    let due_at = driver.now();
    let exchange = Exchange { continued: vec![driver.retry(exhausted, due_at)], ..driver.exchange() };
    driver.send(&exchange).await;
    let other = claimed.iter().find(|claim| claim.token.attempt == 2).unwrap();
    driver.hand_in(other).await;
    driver.drain().await;
    assert_eq!(driver.violations().await, []);

    let any_id = if flavor == Flavor::Postgres { "gen_random_uuid()" } else { "randomblob(16)" };
    for (table, spoil, invariant) in CASES {
        if !table.is_empty() {
            execute(&driver.database, &format!("CREATE TABLE saved AS SELECT * FROM {table}")).await;
        }
        execute(&driver.database, &spoil.replace("ANY_ID", any_id)).await;
        let found = driver.violations().await;
        assert!(found.iter().any(|violation| violation.invariant == *invariant), "{spoil}: {found:#?}");
        if !table.is_empty() {
            let restore = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM saved; DROP TABLE saved");
            execute(&driver.database, &restore).await;
            assert_eq!(driver.violations().await, [], "{table} was restored");
        }
    }
}

/// A connection that went back to its pool inside a transaction looks like this.
#[tokio::test]
async fn a_transaction_that_was_left_open_is_found() {
    let database = TestDatabase::postgres().await;
    assert_eq!(transactions::open(database.url()).await.unwrap(), [""; 0]);
    let mut forgotten = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT 1").execute(&mut forgotten).await.unwrap();
    assert_eq!(transactions::open(database.url()).await.unwrap().len(), 1);
    sqlx::raw_sql("ROLLBACK").execute(&mut forgotten).await.unwrap();
    assert_eq!(transactions::check(database.url()).await.unwrap(), []);
}

/// A request whose client vanishes while its handler is inside a transaction.
async fn dropped_handler(begins_by_hand: bool) -> Vec<String> {
    let database = TestDatabase::postgres().await;
    let pool = sqlx::PgPool::connect(database.url()).await.unwrap();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let write = "INSERT INTO namespaces (name, created_at, updated_at) VALUES ('cut', 0, 0)";
    let handler = async {
        if begins_by_hand {
            // The pool knows nothing of it: the connection goes back as it is.
            let mut connection = pool.acquire().await.unwrap();
            sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
            sqlx::raw_sql(write).execute(&mut *connection).await.unwrap();
            entered.send(()).unwrap();
            std::future::pending::<()>().await;
        } else {
            let mut transaction = pool.begin().await.unwrap();
            sqlx::raw_sql(write).execute(&mut *transaction).await.unwrap();
            entered.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = handler => {}
        _ = inside => {}
    }
    if begins_by_hand {
        return transactions::open(database.url()).await.unwrap();
    }
    transactions::check(database.url()).await.unwrap().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_handler_that_is_dropped_inside_its_transaction_is_found() {
    assert_eq!(dropped_handler(false).await, [""; 0], "the sound version");
    assert_eq!(dropped_handler(true).await.len(), 1);
}
