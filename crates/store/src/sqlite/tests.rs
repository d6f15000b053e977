//! What only SQLite has: the single writer, the lock file, and plans that must not change with the length of a list.

use std::time::Duration;

use sqlx::Row as _;
use uuid::Uuid;

use super::bulk::{Bulk, Values};
use super::{SqliteDb, claiming, continuing, ending, exchange, fires, history, limits, placing, runs, settle, submit};
use crate::db::{Connect, Db, Store};
use crate::error::Error;

async fn open() -> Store {
    let store = Store::connect(&Connect::new("sqlite::memory:")).await.unwrap();
    store.migrate_up(1).await.unwrap();
    store
}

fn sqlite(store: &Store) -> &SqliteDb {
    match &*store.db {
        Db::Sqlite(sqlite) => sqlite,
        Db::Postgres(_) => panic!("not a SQLite store"),
    }
}

async fn insert_lane(tx: &mut super::SqliteTx) {
    sqlx::query("INSERT INTO lanes (node, created_at) VALUES (x'00', 1)")
        .execute(tx.connection().await.unwrap())
        .await
        .unwrap();
}

async fn lanes(store: &Store) -> i64 {
    let mut reader = sqlite(store).readers.acquire().await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM lanes").fetch_one(&mut *reader).await.unwrap()
}

async fn file(store: &Store) -> String {
    let mut reader = sqlite(store).readers.acquire().await.unwrap();
    let (_, _, file): (i64, String, String) =
        sqlx::query_as("PRAGMA database_list").fetch_one(&mut *reader).await.unwrap();
    file
}

#[tokio::test]
async fn a_transaction_that_is_dropped_is_rolled_back_before_the_next() {
    let store = open().await;
    let mut dropped = sqlite(&store).begin().await.unwrap();
    insert_lane(&mut dropped).await;
    drop(dropped);
    let mut kept = sqlite(&store).begin().await.unwrap();
    insert_lane(&mut kept).await;
    kept.commit().await.unwrap();
    assert_eq!(lanes(&store).await, 1, "readers see what the writer has committed, and only that");
}

#[tokio::test]
async fn a_unit_cut_off_anywhere_leaves_nothing_behind() {
    let store = open().await;
    // Polls a little further each time, so that it is cut off at each of its awaits.
    for polls in 0..40 {
        let mut unit = Box::pin(async {
            let mut tx = sqlite(&store).begin().await.unwrap();
            for _ in 0..3 {
                insert_lane(&mut tx).await;
            }
            std::future::pending::<()>().await;
        });
        for _ in 0..polls {
            std::future::poll_fn(|context| {
                _ = unit.as_mut().poll(context);
                std::task::Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
    }
    let mut tx = sqlite(&store).begin().await.unwrap();
    insert_lane(&mut tx).await;
    tx.commit().await.unwrap();
    assert_eq!(lanes(&store).await, 1);
}

#[tokio::test]
async fn what_is_left_for_later_is_said_before_anything_else_and_not_without_a_commit() {
    const INSERT: &str = "INSERT INTO lanes (node, created_at) VALUES (x'00', ?)";
    let store = open().await;
    let mut dropped = sqlite(&store).begin().await.unwrap();
    dropped.deferred().push(INSERT).add(1i64);
    drop(dropped);
    let mut tx = sqlite(&store).begin().await.unwrap();
    tx.deferred().push(INSERT).add(2i64);
    tx.deferred().push(INSERT).add(3i64);
    let count = "SELECT count(*) FROM lanes";
    let seen: i64 = sqlx::query_scalar(count).fetch_one(tx.connection().await.unwrap()).await.unwrap();
    assert_eq!(seen, 2, "a statement of any kind finds what was left for later");
    tx.deferred().push(INSERT).add(4i64);
    let mut script = tx.script();
    script.push("SELECT created_at FROM lanes WHERE created_at > ? ORDER BY 1").add(2i64);
    let rows = tx.fetch(script).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<i64, _>(0)).collect::<Vec<_>>(), [3, 4]);
    tx.deferred().push(INSERT).add(5i64);
    tx.commit().await.unwrap();
    assert_eq!(lanes(&store).await, 4);

    let mut refused = sqlite(&store).begin().await.unwrap();
    refused.deferred().push("INSERT INTO lanes (node, created_at) VALUES (NULL, ?)").add(6i64);
    assert!(refused.commit().await.is_err());
    assert_eq!(lanes(&store).await, 4);
}

#[tokio::test]
async fn what_was_written_comes_into_the_file_without_the_writer() {
    let store = open().await;
    let file = file(&store).await;
    let size = || std::fs::metadata(&file).unwrap().len() as i64;
    let (before, some) = (size(), 400_000);
    let mut tx = sqlite(&store).begin().await.unwrap();
    sqlx::query("INSERT INTO lanes (node, created_at) VALUES (zeroblob($1), 1)")
        .bind(some)
        .execute(tx.connection().await.unwrap())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    while size() < before + some {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_statement_that_fails_ends_its_transaction() {
    let store = open().await;
    let mut tx = sqlite(&store).begin().await.unwrap();
    insert_lane(&mut tx).await;
    let twice = |_: &i64, values: &mut Values| {
        values.add(Uuid::nil()).add(None::<&str>).add(None::<&str>).add(None::<&str>);
    };
    runs::DETAILS.fetch(&mut tx, &[1, 2], twice).await.unwrap_err();
    drop(tx);
    let mut tx = sqlite(&store).begin().await.unwrap();
    let details: i64 =
        sqlx::query_scalar("SELECT count(*) FROM run_details").fetch_one(tx.connection().await.unwrap()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((lanes(&store).await, details), (0, 0));
}

#[tokio::test]
async fn readers_cannot_write() {
    let store = open().await;
    let mut reader = sqlite(&store).readers.acquire().await.unwrap();
    let refused = sqlx::query("DELETE FROM lanes").execute(&mut *reader).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_file_has_one_server_and_other_writers() {
    let store = open().await;
    let lock = sqlite(&store).server_lock().unwrap();
    let file = file(&store).await;
    let other = Store::connect(&Connect::new(format!("sqlite://{file}"))).await.unwrap();
    assert!(matches!(sqlite(&other).server_lock(), Err(Error::FileInUse(_))));
    // Another process may write beside the server, in turn with it.
    for _ in 0..20 {
        let (one, two) = (&store, &other);
        let write = |store: &'static str, to| async move {
            let mut tx = sqlite(to).begin().await.unwrap_or_else(|error| panic!("{store}: {error}"));
            insert_lane(&mut tx).await;
            tx.commit().await.unwrap();
        };
        tokio::join!(write("server", one), write("command line", two));
    }
    assert_eq!(lanes(&store).await, 40);
    drop(lock);
    sqlite(&other).server_lock().unwrap();
}

#[tokio::test]
async fn every_statement_finds_its_rows_by_an_index_whatever_its_length() {
    let store = open().await;
    let bulks: &[(&str, &Bulk)] = &[
        ("CLAIMED", &continuing::CLAIMED),
        ("APPLIED", &continuing::APPLIED),
        ("NUMBER", &continuing::NUMBER),
        ("ATTEMPTS", &continuing::ATTEMPTS),
        ("GO_ON", &continuing::GO_ON),
        ("END", &ending::END),
        ("END_GROUP", &ending::END_GROUP),
        ("END_KNOWN", &ending::END_KNOWN),
        ("END_FEW", &ending::END_FEW),
        ("ending::APPLIED", &ending::APPLIED),
        ("DECIDED", &exchange::DECIDED),
        ("PLACE", &placing::PLACE),
        ("FIRST", &submit::FIRST),
        ("RUNS", &runs::RUNS),
        ("DETAILS", &runs::DETAILS),
        ("TASK_RUNS", &runs::TASK_RUNS),
        ("SWAP", &fires::SWAP),
        ("FIRES", &fires::FIRES),
        ("COUNT_RUNS", &settle::COUNT_RUNS),
        ("COUNT_RUNS_ALIKE", &settle::COUNT_RUNS_ALIKE),
        ("HISTORY", &history::HISTORY),
        ("PLAIN_HISTORY", &history::PLAIN_HISTORY),
        ("DEAD_LETTERS", &history::DEAD_LETTERS),
        ("CONTINUATIONS", &settle::CONTINUATIONS),
        ("DEPENDENTS", &settle::DEPENDENTS),
        ("PENDING", &settle::PENDING),
        ("RUN_STATES", &settle::RUN_STATES),
        ("COUNT", &settle::COUNT),
        ("REMOVE", &settle::REMOVE),
        ("MAKE", &limits::MAKE),
        ("SLOTS", &limits::SLOTS),
        ("TAKE", &limits::TAKE),
    ];
    for (name, bulk) in bulks {
        for text in bulk.texts() {
            check_plan(&store, name, &text).await;
        }
    }
    for (name, script) in [
        ("OPEN", exchange::OPEN),
        ("CLAIM", claiming::CLAIM),
        ("FINISH", claiming::FINISH),
        ("TAKE_UNDECIDED", claiming::TAKE_UNDECIDED),
    ] {
        for text in script.split("; ").filter(|text| !matches!(*text, "COMMIT" | "BEGIN IMMEDIATE")) {
            check_plan(&store, name, text).await;
        }
    }
}

/// Only what is handed in may be read from end to end (and the index of rows without a decider), and nothing may be sorted.
async fn check_plan(store: &Store, name: &str, text: &str) {
    let mut writer = sqlite(store).writer().await.unwrap();
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}"));
    let plan = sqlx::query(explain).fetch_all(writer.connection()).await.unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get::<String, _>("detail")).collect();
    let handed_in = |step: &str| {
        ["SCAN v", "SCAN c", "SCAN json_each VIRTUAL TABLE", "SCAN (subquery", "SCAN s USING INDEX task_runs_undecided"]
            .iter()
            .any(|known| step.starts_with(known))
            || step.contains("CONSTANT ROW")
            || step.contains("VALUES CLAUSE")
    };
    for step in &plan {
        let scans = step.starts_with("SCAN") && !handed_in(step);
        assert!(
            !scans && !step.contains("TEMP B-TREE") && !step.contains("AUTOMATIC"),
            "{name}: {plan:#?}\n{}",
            &text[text.len().saturating_sub(600)..]
        );
    }
}
