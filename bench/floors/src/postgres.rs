//! The floors on PostgreSQL.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use uuid::Uuid;

use crate::measure::{COMMITS, Measurement, median};
use crate::{BATCH, FLOORS};

const CONNECTIONS: usize = 2;

const SCHEMA: &str = "
    DROP TABLE IF EXISTS floor_queue;
    CREATE TABLE floor_queue (
        id uuid NOT NULL PRIMARY KEY,
        state int2 NOT NULL,
        priority int2 NOT NULL,
        due_at int8 NOT NULL
    );
    CREATE INDEX floor_queue_ready ON floor_queue (priority DESC, due_at) WHERE state = 1;
";

const INSERT: &str = "INSERT INTO floor_queue SELECT id, 1::int2, 5::int2, $2 FROM unnest($1::uuid[]) AS id";

const CLAIM: &str = "
    UPDATE floor_queue SET state = 2
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM floor_queue WHERE state = 1 ORDER BY priority DESC, due_at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING id";

const DELETE: &str = "DELETE FROM floor_queue WHERE id = ANY($1) AND state = 2";
const KEEP: &str = "UPDATE floor_queue SET state = 3 WHERE id = ANY($1) AND state = 2";

pub(crate) async fn measure(url: &str, floor: &str, n: usize) -> Result<Measurement> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS as u32).connect(url).await?;
    sqlx::raw_sql(SCHEMA).execute(&pool).await?;
    let measurement = match floor {
        "commit" => commit(&pool).await?,
        "insert" => insert(&pool, n).await?,
        "claim_complete" => claim_complete(&pool, "claim_complete", DELETE, n).await?,
        "claim_keep" => claim_complete(&pool, "claim_keep", KEEP, n).await?,
        _ => bail!("unknown floor {floor}; there are {}", FLOORS.join(", ")),
    };
    sqlx::raw_sql("DROP TABLE floor_queue").execute(&pool).await?;
    Ok(measurement)
}

async fn commit(pool: &PgPool) -> Result<Measurement> {
    let mut connection = pool.acquire().await?;
    insert_batch(&mut connection, 1, 0).await?;
    let start = Instant::now();
    let mut times = Vec::with_capacity(COMMITS);
    for due_at in 0..COMMITS {
        let single = Instant::now();
        insert_batch(&mut connection, 1, due_at).await?;
        times.push(single.elapsed());
    }
    Ok(Measurement {
        floor: "commit",
        database: "postgres",
        n: COMMITS,
        elapsed: start.elapsed(),
        median: median(times),
    })
}

async fn insert(pool: &PgPool, n: usize) -> Result<Measurement> {
    let mut connection = pool.acquire().await?;
    let start = Instant::now();
    for first in (0..n).step_by(BATCH) {
        insert_batch(&mut connection, BATCH.min(n - first), first).await?;
    }
    Ok(Measurement { floor: "insert", database: "postgres", n, elapsed: start.elapsed(), median: None })
}

async fn claim_complete(pool: &PgPool, floor: &'static str, complete: &'static str, n: usize) -> Result<Measurement> {
    let mut connection = pool.acquire().await?;
    for first in (0..n).step_by(BATCH) {
        insert_batch(&mut connection, BATCH.min(n - first), first).await?;
    }
    sqlx::raw_sql("VACUUM ANALYZE floor_queue").execute(&mut *connection).await?;
    drop(connection);

    let start = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..CONNECTIONS {
        let pool = pool.clone();
        workers.push(tokio::spawn(async move { empty_queue(&pool, complete).await }));
    }
    let mut done = 0;
    for worker in workers {
        done += worker.await??;
    }
    ensure!(done == n, "{done} of {n} rows were completed");
    Ok(Measurement { floor, database: "postgres", n, elapsed: start.elapsed(), median: None })
}

async fn empty_queue(pool: &PgPool, complete: &'static str) -> Result<usize> {
    let mut connection = pool.acquire().await?;
    let mut done = 0;
    loop {
        let claimed: Vec<Uuid> = sqlx::query_scalar(CLAIM).bind(BATCH as i64).fetch_all(&mut *connection).await?;
        if claimed.is_empty() {
            return Ok(done);
        }
        let deleted = sqlx::query(complete).bind(&claimed).execute(&mut *connection).await?.rows_affected();
        ensure!(deleted == claimed.len() as u64, "a claimed row was not completed");
        done += claimed.len();
    }
}

async fn insert_batch(connection: &mut PgConnection, n: usize, due_at: usize) -> Result<()> {
    let ids: Vec<Uuid> = (0..n).map(|_| Uuid::now_v7()).collect();
    sqlx::query(INSERT).bind(&ids).bind(due_at as i64).execute(connection).await?;
    Ok(())
}
