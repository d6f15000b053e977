//! Handing free slots of limits to those that wait.

use std::collections::BTreeMap;

use mainspring_core::{Micros, RunId};

use super::SqliteTx;
use super::bulk::{Bulk, Columns, Values};
use crate::error::Result;
use crate::names::sql;
use crate::runs::admission::Slots;
use crate::runs::flags::CHUNK;
use crate::runs::limits::POOL;
use crate::runs::rates::PoolRate;

/// How many waiters of a pool one unit lets in at most; the sweep lets in the rest.
const WAITERS_PER_UNIT: i32 = 5_000;

pub(super) static SLOTS: Bulk = Bulk::new(
    "WITH v(id) AS (VALUES ",
    1,
    sql!(
        ") SELECT l.id, l.capacity, l.held, (SELECT count(*) FROM runs r WHERE r.waits_for = l.id AND r.flags & {run_flag.being_made} = 0) \
     FROM v CROSS JOIN limits l ON l.id = v.id"
    ),
);

pub(super) static MAKE: Bulk = Bulk::new(
    "WITH v(kind, key, capacity) AS (VALUES ",
    3,
    ") INSERT INTO limits (kind, key, capacity) SELECT kind, key, capacity FROM v WHERE v.key IS NOT NULL \
     ON CONFLICT (kind, key) DO UPDATE SET capacity = excluded.capacity",
);

pub(super) static TAKE: Bulk = Bulk::new(
    "WITH v(id, taken) AS (VALUES ",
    2,
    ") UPDATE limits SET held = held + v.taken FROM v WHERE limits.id = v.id",
);

/// Makes those that do not exist, and gives the others their capacity.
pub(crate) async fn make(tx: &mut SqliteTx, kind: i16, wanted: &[&(String, i32)]) -> Result<()> {
    MAKE.fetch(tx, wanted, |(key, capacity), values: &mut Values| {
        _ = values.add(kind).add(key.as_str()).add(*capacity)
    })
    .await?;
    Ok(())
}

/// What these limits have free.
pub(crate) async fn slots(tx: &mut SqliteTx, limits: &[i32]) -> Result<BTreeMap<i32, Slots>> {
    let rows = SLOTS.fetch(tx, limits, |limit, values: &mut Values| _ = values.add(*limit)).await?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            let id: i32 = columns.get()?;
            Ok((id, Slots { capacity: columns.get()?, held: columns.get()?, queued: columns.get()? }))
        })
        .collect()
}

/// Takes the given number of slots of each.
pub(crate) async fn take(tx: &mut SqliteTx, taken: &[(i32, i32)]) -> Result<()> {
    TAKE.fetch(tx, taken, |taken, values: &mut Values| _ = values.add(taken.0).add(taken.1)).await?;
    Ok(())
}

/// Hands free slots of the named limits to those that wait. `released` names a pool once per slot given back, `ended` a
/// concurrency limit once per run that ended, `touched` limits that may have gained waiters.
pub(crate) async fn limits(
    tx: &mut SqliteTx,
    now: Micros,
    released: &[i32],
    ended: &[i32],
    touched: &[i32],
) -> Result<()> {
    let mut given_back: BTreeMap<i32, i32> = BTreeMap::new();
    for id in released.iter().chain(ended) {
        *given_back.entry(*id).or_default() += 1;
    }
    for id in touched {
        given_back.entry(*id).or_default();
    }
    for (id, back) in given_back {
        hand_on(tx, now, id, back).await?;
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
struct StoredLimit {
    kind: i16,
    capacity: Option<i32>,
    held: i32,
    rate: Option<i32>,
    period: Option<i64>,
    used: i32,
    window_began: Option<i64>,
}

async fn hand_on(tx: &mut SqliteTx, now: Micros, id: i32, back: i32) -> Result<()> {
    let found: Option<StoredLimit> =
        sqlx::query_as("SELECT kind, capacity, held, rate, period, used, window_began FROM limits WHERE id = $1")
            .bind(id)
            .fetch_optional(tx.connection().await?)
            .await?;
    let Some(StoredLimit { kind, capacity, held: before, rate, period, used, window_began }) = found else {
        return Ok(());
    };
    let held = (before - back).max(0);
    let mut free = capacity.unwrap_or(i32::MAX) - held;
    let rate = PoolRate::of((rate, period, used, window_began));
    let mut window = rate.map(|rate| rate.at(now));
    if let Some(window) = &window {
        free = free.min(window.left());
    }
    let let_in = if free <= 0 {
        0
    } else if kind == POOL {
        let_tasks_in(tx, now, id, free.min(WAITERS_PER_UNIT)).await?
    } else {
        let_runs_in(tx, now, id, free).await?
    };
    let held = held + let_in;
    if let Some(window) = &mut window {
        window.take(now, let_in);
    }
    if held != before || window != rate {
        sqlx::query("UPDATE limits SET held = $2, used = $3, window_began = $4 WHERE id = $1")
            .bind(id)
            .bind(held)
            .bind(window.map_or(0, |window| window.used))
            .bind(window.and_then(|window| window.window_began))
            .execute(tx.connection().await?)
            .await?;
    }
    Ok(())
}

async fn let_tasks_in(tx: &mut SqliteTx, now: Micros, pool: i32, free: i32) -> Result<i32> {
    let done = sqlx::query(
        sql!("UPDATE task_runs SET state = {task.ready}, due_at = CASE WHEN failures > 0 THEN max($1, due_at) ELSE $1 END WHERE (run_id, idx, item) IN \
         (SELECT s.run_id, s.idx, s.item FROM task_runs s WHERE s.state = {task.gated} AND s.pool = $2 ORDER BY s.rank, s.due_at LIMIT $3)"),
    )
    .bind(now)
    .bind(pool)
    .bind(free)
    .execute(tx.connection().await?)
    .await?;
    Ok(done.rows_affected() as i32)
}

#[derive(sqlx::FromRow)]
struct Waiting {
    id: RunId,
    open: i32,
    gated: bool,
}

/// Admits runs in their order. Flag 32: its rows are still being made. A child whose parent was cancelled (continuation 4)
/// will be too: it does not start before that.
async fn let_runs_in(tx: &mut SqliteTx, now: Micros, limit: i32, free: i32) -> Result<i32> {
    let admitted: Vec<Waiting> = sqlx::query_as(
        sql!("SELECT r.id, r.open, EXISTS (SELECT 1 FROM task_runs t WHERE t.run_id = r.id AND t.state = {task.held} AND t.pool IS NOT NULL) AS gated \
         FROM runs r WHERE r.waits_for = $1 AND r.flags & {run_flag.being_made} = 0 \
         AND NOT EXISTS (SELECT 1 FROM continuations c WHERE c.run_id = r.id AND c.kind = 4) ORDER BY r.rank, r.id LIMIT $2"),
    )
    .bind(limit)
    .bind(free)
    .fetch_all(tx.connection().await?)
    .await?;
    for run in &admitted {
        // Many rows, rows with a gate of their own, or none, so that the run is over: in units of their own.
        let apart = run.gated || run.open == 0 || run.open as usize > CHUNK;
        let sql = if apart {
            sql!(
                "UPDATE runs SET state = {run.running}, waits_for = NULL, holds = limit_id, started_at = $2, progress_at = $2, seq = seq + 1 WHERE id = $1; \
             INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) SELECT id, seq, 0, 1, stage, $2 FROM runs WHERE id = $1; \
             INSERT INTO continuations (run_id, kind, created_at) VALUES ($1, 1, $2)"
            )
        } else {
            sql!(
                "UPDATE runs SET state = {run.running}, waits_for = NULL, holds = limit_id, started_at = $2, progress_at = $2, seq = seq + 1 WHERE id = $1; \
             INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) SELECT id, seq, 0, 1, stage, $2 FROM runs WHERE id = $1; \
             UPDATE task_runs SET state = CASE WHEN flags & {task_flag.has_condition} <> 0 THEN {task.deciding} ELSE {task.ready} END, due_at = $2 + idx WHERE run_id = $1 AND state = {task.held}"
            )
        };
        sqlx::query(sql).bind(run.id).bind(now).execute(tx.connection().await?).await?;
    }
    Ok(admitted.len() as i32)
}
