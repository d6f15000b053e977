//! The floors on SQLite: one writer, write-ahead log, every commit synchronised.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::measure::{CLIENT_COMMITS, CLIENTS, COMMITS, Measurement, PACE, PACED_COMMITS, median};
use crate::{BATCH, FLOORS};

const SCHEMA: &str = "
    DROP TABLE IF EXISTS floor_queue;
    CREATE TABLE floor_queue (
        id BLOB NOT NULL PRIMARY KEY,
        state INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        due_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX floor_queue_ready ON floor_queue (priority DESC, due_at) WHERE state = 1;
";

const INSERT: &str = "INSERT INTO floor_queue SELECT unhex(value), 1, 5, $2 FROM json_each($1)";

const CLAIM: &str = "
    UPDATE floor_queue SET state = 2
    WHERE id IN (SELECT id FROM floor_queue WHERE state = 1 ORDER BY priority DESC, due_at LIMIT $1)
    RETURNING id";

const DELETE: &str = "DELETE FROM floor_queue WHERE state = 2 AND id IN (SELECT unhex(value) FROM json_each($1))";
const KEEP: &str =
    "UPDATE floor_queue SET state = 3 WHERE state = 2 AND id IN (SELECT unhex(value) FROM json_each($1))";

pub(crate) async fn measure(url: &str, floor: &str, n: usize) -> Result<Measurement> {
    let mut connection = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await?;
    sqlx::raw_sql(SCHEMA).execute(&mut connection).await?;
    if floor == "commit_clients" {
        return commit_clients(connection).await;
    }
    let measurement = match floor {
        "commit" => commit(&mut connection).await?,
        "commit_paced" => commit_paced(&mut connection).await?,
        "insert" => insert(&mut connection, n).await?,
        "claim_complete" => claim_complete(&mut connection, "claim_complete", DELETE, n).await?,
        "claim_keep" => claim_complete(&mut connection, "claim_keep", KEEP, n).await?,
        _ => bail!("unknown floor {floor}; there are {}", FLOORS.join(", ")),
    };
    sqlx::raw_sql("DROP TABLE floor_queue").execute(&mut connection).await?;
    Ok(measurement)
}

async fn commit(connection: &mut SqliteConnection) -> Result<Measurement> {
    insert_batch(connection, 1, 0).await?;
    let start = Instant::now();
    let mut times = Vec::with_capacity(COMMITS);
    for due_at in 0..COMMITS {
        let single = Instant::now();
        insert_batch(connection, 1, due_at).await?;
        times.push(single.elapsed());
    }
    Ok(Measurement { floor: "commit", database: "sqlite", n: COMMITS, elapsed: start.elapsed(), median: median(times) })
}

async fn commit_paced(connection: &mut SqliteConnection) -> Result<Measurement> {
    insert_batch(connection, 1, 0).await?;
    let mut ticks = tokio::time::interval(PACE);
    let start = Instant::now();
    let mut times = Vec::with_capacity(PACED_COMMITS);
    for due_at in 0..PACED_COMMITS {
        ticks.tick().await;
        let single = Instant::now();
        insert_batch(connection, 1, due_at).await?;
        times.push(single.elapsed());
    }
    let median = median(times);
    Ok(Measurement { floor: "commit_paced", database: "sqlite", n: PACED_COMMITS, elapsed: start.elapsed(), median })
}

/// There is one writer, so the clients take turns: a commit each, as it comes.
async fn commit_clients(connection: SqliteConnection) -> Result<Measurement> {
    let writer = Arc::new(Mutex::new(connection));
    let start = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let writer = Arc::clone(&writer);
        clients.spawn(async move {
            let mut times = Vec::with_capacity(CLIENT_COMMITS / CLIENTS);
            for due_at in 0..CLIENT_COMMITS / CLIENTS {
                let single = Instant::now();
                insert_batch(&mut *writer.lock().await, 1, due_at).await?;
                times.push(single.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::with_capacity(CLIENT_COMMITS);
    while let Some(each) = clients.join_next().await {
        times.extend(each??);
    }
    let (n, elapsed) = (times.len(), start.elapsed());
    sqlx::raw_sql("DROP TABLE floor_queue").execute(&mut *writer.lock().await).await?;
    Ok(Measurement { floor: "commit_clients", database: "sqlite", n, elapsed, median: median(times) })
}

async fn insert(connection: &mut SqliteConnection, n: usize) -> Result<Measurement> {
    let start = Instant::now();
    for first in (0..n).step_by(BATCH) {
        insert_batch(connection, BATCH.min(n - first), first).await?;
    }
    Ok(Measurement { floor: "insert", database: "sqlite", n, elapsed: start.elapsed(), median: None })
}

async fn claim_complete(
    connection: &mut SqliteConnection,
    floor: &'static str,
    complete: &'static str,
    n: usize,
) -> Result<Measurement> {
    for first in (0..n).step_by(BATCH) {
        insert_batch(connection, BATCH.min(n - first), first).await?;
    }
    let start = Instant::now();
    let mut done = 0;
    loop {
        let claimed: Vec<Uuid> = sqlx::query_scalar(CLAIM).bind(BATCH as i64).fetch_all(&mut *connection).await?;
        if claimed.is_empty() {
            break;
        }
        let deleted = sqlx::query(complete).bind(to_json(&claimed)).execute(&mut *connection).await?.rows_affected();
        ensure!(deleted == claimed.len() as u64, "a claimed row was not completed");
        done += claimed.len();
    }
    ensure!(done == n, "{done} of {n} rows were completed");
    Ok(Measurement { floor, database: "sqlite", n, elapsed: start.elapsed(), median: None })
}

/// Ids travel as one JSON array of hexadecimal text, so that a batch is one statement.
fn to_json(ids: &[Uuid]) -> String {
    let quoted: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.simple())).collect();
    format!("[{}]", quoted.join(","))
}

async fn insert_batch(connection: &mut SqliteConnection, n: usize, due_at: usize) -> Result<()> {
    let ids: Vec<Uuid> = (0..n).map(|_| Uuid::now_v7()).collect();
    sqlx::query(INSERT).bind(to_json(&ids)).bind(due_at as i64).execute(connection).await?;
    Ok(())
}
