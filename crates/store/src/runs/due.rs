//! Rows that become claimable by the passing of time.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};

use crate::db::{Store, locking, read, within};
use crate::error::Result;
use crate::names::{sql, startable};
use crate::runs::limits::hand_on;

/// Rows that wait for a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Duties {
    /// When the next row becomes due.
    pub next_due: Option<Micros>,
    /// The time of day at which the next run begins that was put off.
    pub next_start: Option<Micros>,
    /// Whether there are events that were not delivered to waiting task runs.
    pub has_events: bool,
    pub has_continuations: bool,
}

#[boxed]
impl Store {
    /// Everything there is to do for a node besides exchanging, in one look.
    pub async fn duties(&self) -> Result<Duties> {
        let duties: Duties = read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT (SELECT due_at FROM task_runs WHERE state IN ({task.retrying}, {task.waiting}) ORDER BY due_at LIMIT 1) AS next_due, \
                    (SELECT due_at FROM starts ORDER BY due_at LIMIT 1) AS next_start, \
                    EXISTS (SELECT 1 FROM events WHERE NOT matched) AS has_events, \
                    EXISTS (SELECT 1 FROM continuations) AS has_continuations")
        )
        .fetch_one(conn)
        .await?
        });
        Ok(Duties { next_due: duties.next_due.filter(|due| *due != crate::runs::parking::NEVER), ..duties })
    }

    /// Makes rows claimable whose time has come, at most `limit`; returns how many. Any node may do it at any time:
    /// runs that another transaction holds are left for the next tick.
    pub async fn promote_due(&self, now: Micros, limit: i64) -> Result<u64> {
        let due: Vec<(RunId,)> = read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT run_id FROM task_runs WHERE state IN ({task.retrying}, {task.waiting}) AND due_at <= $1 ORDER BY due_at LIMIT $2")
        )
        .bind(now)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        let mut runs: Vec<RunId> = due.into_iter().map(|row| row.0).collect();
        runs.sort_unstable();
        runs.dedup();
        let mut promoted = 0;
        for chunk in runs.chunks(100) {
            let mut tx = self.begin().await?;
            let mut pools = Vec::new();
            for run in chunk {
                let sql = locking!(tx, "SELECT state FROM runs WHERE id = $1", "FOR NO KEY UPDATE SKIP LOCKED");
                let locked: Option<(i16,)> =
                    within!(tx, |conn| sqlx::query_as(sql).bind(run).fetch_optional(conn).await?);
                let Some((state,)) = locked else { continue };
                let moved: Vec<(i16, Option<i32>)> = within!(tx, |conn| {
                    sqlx::query_as(
                    sql!(concat!("UPDATE task_runs SET state = CASE WHEN $3 = {run.running} AND state = {task.waiting} THEN {task.deciding} ELSE ", startable!("$3 = {run.running}", "flags", "pool"), " END, due_at = $2 \
                     WHERE run_id = $1 AND state IN ({task.retrying}, {task.waiting}) AND due_at <= $2 RETURNING state, pool"))
                )
                .bind(run)
                .bind(now)
                .bind(i32::from(state))
                .fetch_all(conn)
                .await?
                });
                promoted += moved.len() as u64;
                pools.extend(moved.into_iter().filter(|row| row.0 == 5).filter_map(|row| row.1));
            }
            pools.sort_unstable();
            pools.dedup();
            hand_on(&mut tx, now, &[], &[], &pools).await?;
            tx.commit().await?;
        }
        Ok(promoted)
    }

    /// When the next row becomes due.
    pub async fn next_due(&self) -> Result<Option<Micros>> {
        let row: Option<(i64,)> = read!(self, |conn| sqlx::query_as(sql!(
            "SELECT due_at FROM task_runs WHERE state IN ({task.retrying}, {task.waiting}) ORDER BY due_at LIMIT 1"
        ))
        .fetch_optional(conn)
        .await?);
        Ok(row.map(|row| row.0).filter(|due| *due != crate::runs::parking::NEVER))
    }
}
