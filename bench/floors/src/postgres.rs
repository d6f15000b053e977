//! The floors on PostgreSQL.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use uuid::Uuid;

use crate::measure::{CLIENT_COMMITS, CLIENTS, COMMITS, Measurement, PACE, PACED_COMMITS, median};
use crate::{BATCH, FLOORS, POSTGRES_FLOORS};

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

/// The narrowest tables that still say what a scheduler must: who claimed what when, and how it ended.
const HISTORY_SCHEMA: &str = "
    DROP TABLE IF EXISTS floor_runs, floor_tasks, floor_history;
    CREATE TABLE floor_runs (
        id uuid NOT NULL PRIMARY KEY, workflow uuid NOT NULL, version int8 NOT NULL, state int2 NOT NULL, open int4 NOT NULL,
        created_at int8 NOT NULL, finished_at int8
    ) WITH (fillfactor = 70);
    CREATE INDEX floor_runs_by_workflow ON floor_runs (workflow, id);
    CREATE TABLE floor_tasks (
        run_id uuid NOT NULL, idx int4 NOT NULL, state int2 NOT NULL, attempt int4 NOT NULL, route int4 NOT NULL,
        priority int2 NOT NULL, due_at int8 NOT NULL, session int8, started_at int8, PRIMARY KEY (run_id, idx)
    );
    CREATE INDEX floor_tasks_ready ON floor_tasks (route, priority, due_at) WHERE state = 1;
    CREATE INDEX floor_tasks_claimed ON floor_tasks (session) WHERE session IS NOT NULL;
    CREATE TABLE floor_history (
        run_id uuid NOT NULL, idx int4 NOT NULL, state int2 NOT NULL, attempt int4 NOT NULL, session int8, started_at int8,
        finished_at int8 NOT NULL, PRIMARY KEY (run_id, idx)
    );
";

const INSERT_PAIR: &str = "
    WITH run AS (INSERT INTO floor_runs SELECT id, $2, 1, 1::int2, 1, $3 FROM unnest($1::uuid[]) AS id)
    INSERT INTO floor_tasks SELECT id, 0, 1::int2, 0, 1, 5::int2, $3 FROM unnest($1::uuid[]) AS id";

const CLAIM_TASK: &str = "
    UPDATE floor_tasks SET state = 2, attempt = attempt + 1, session = $2, started_at = $3
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM floor_tasks WHERE state = 1 AND route = 1 ORDER BY priority, due_at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING run_id";

const END_TASK: &str = "
    WITH gone AS (DELETE FROM floor_tasks WHERE run_id = ANY($1) AND state = 2 AND session = $2 RETURNING *)
    INSERT INTO floor_history SELECT run_id, idx, 10::int2, attempt, session, started_at, $3 FROM gone";

const INSERT: &str = "INSERT INTO floor_queue SELECT id, 1::int2, 5::int2, $2 FROM unnest($1::uuid[]) AS id";

const CLAIM: &str = "
    UPDATE floor_queue SET state = 2
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM floor_queue WHERE state = 1 ORDER BY priority DESC, due_at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING id";

const DELETE: &str = "DELETE FROM floor_queue WHERE id = ANY($1) AND state = 2";
const KEEP: &str = "UPDATE floor_queue SET state = 3 WHERE id = ANY($1) AND state = 2";

pub(crate) async fn measure(url: &str, floor: &str, n: usize) -> Result<Measurement> {
    let pool = PgPoolOptions::new().max_connections(CLIENTS.max(CONNECTIONS) as u32).connect(url).await?;
    sqlx::raw_sql(SCHEMA).execute(&pool).await?;
    let measurement = match floor {
        "commit" => commit(&pool).await?,
        "commit_paced" => commit_paced(&pool).await?,
        "commit_clients" => commit_clients(&pool).await?,
        "insert_pair" => insert_pairs(&pool, n).await?,
        "claim_history" => claim_history(&pool, n).await?,
        "insert" => insert(&pool, n).await?,
        "claim_complete" => claim_complete(&pool, "claim_complete", DELETE, n).await?,
        "claim_keep" => claim_complete(&pool, "claim_keep", KEEP, n).await?,
        _ => bail!("unknown floor {floor}; there are {}, {}", FLOORS.join(", "), POSTGRES_FLOORS.join(", ")),
    };
    sqlx::raw_sql("DROP TABLE floor_queue; DROP TABLE IF EXISTS floor_runs, floor_tasks, floor_history").execute(&pool).await?;
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

/// A database that rests between two commits is slower than one that is kept busy.
async fn commit_paced(pool: &PgPool) -> Result<Measurement> {
    let mut connection = pool.acquire().await?;
    insert_batch(&mut connection, 1, 0).await?;
    let mut ticks = tokio::time::interval(PACE);
    let start = Instant::now();
    let mut times = Vec::with_capacity(PACED_COMMITS);
    for due_at in 0..PACED_COMMITS {
        ticks.tick().await;
        let single = Instant::now();
        insert_batch(&mut connection, 1, due_at).await?;
        times.push(single.elapsed());
    }
    let median = median(times);
    Ok(Measurement { floor: "commit_paced", database: "postgres", n: PACED_COMMITS, elapsed: start.elapsed(), median })
}

/// The connections are made and the statement is prepared before the time begins.
async fn commit_clients(pool: &PgPool) -> Result<Measurement> {
    let mut connections = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let mut connection = pool.acquire().await?;
        insert_batch(&mut connection, 1, 0).await?;
        connections.push(connection);
    }
    let start = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for mut connection in connections {
        clients.spawn(async move {
            let mut times = Vec::with_capacity(CLIENT_COMMITS / CLIENTS);
            for due_at in 0..CLIENT_COMMITS / CLIENTS {
                let single = Instant::now();
                insert_batch(&mut connection, 1, due_at).await?;
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
    Ok(Measurement { floor: "commit_clients", database: "postgres", n, elapsed, median: median(times) })
}

async fn fill_pairs(connection: &mut PgConnection, n: usize) -> Result<()> {
    let workflow = Uuid::now_v7();
    for first in (0..n).step_by(BATCH) {
        let ids: Vec<Uuid> = (0..BATCH.min(n - first)).map(|_| Uuid::now_v7()).collect();
        sqlx::query(INSERT_PAIR).bind(&ids).bind(workflow).bind(first as i64).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn insert_pairs(pool: &PgPool, n: usize) -> Result<Measurement> {
    sqlx::raw_sql(HISTORY_SCHEMA).execute(pool).await?;
    let mut connection = pool.acquire().await?;
    let start = Instant::now();
    fill_pairs(&mut connection, n).await?;
    Ok(Measurement { floor: "insert_pair", database: "postgres", n, elapsed: start.elapsed(), median: None })
}

async fn claim_history(pool: &PgPool, n: usize) -> Result<Measurement> {
    sqlx::raw_sql(HISTORY_SCHEMA).execute(pool).await?;
    let mut connection = pool.acquire().await?;
    fill_pairs(&mut connection, n).await?;
    sqlx::raw_sql("VACUUM ANALYZE floor_tasks").execute(&mut *connection).await?;
    drop(connection);
    let start = Instant::now();
    let mut workers = Vec::new();
    for session in 0..CONNECTIONS as i64 {
        let pool = pool.clone();
        workers.push(tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            let mut done = 0;
            loop {
                let claim = sqlx::query_scalar(CLAIM_TASK).bind(BATCH as i64).bind(session).bind(done as i64);
                let claimed: Vec<Uuid> = claim.fetch_all(&mut *connection).await?;
                if claimed.is_empty() {
                    return anyhow::Ok(done);
                }
                let end = sqlx::query(END_TASK).bind(&claimed).bind(session).bind(done as i64);
                let ended = end.execute(&mut *connection).await?.rows_affected();
                ensure!(ended == claimed.len() as u64, "a claimed row was not completed");
                done += claimed.len();
            }
        }));
    }
    let mut done = 0;
    for worker in workers {
        done += worker.await??;
    }
    ensure!(done == n, "{done} of {n} rows were completed");
    Ok(Measurement { floor: "claim_history", database: "postgres", n, elapsed: start.elapsed(), median: None })
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
