//! Ends that others wait for: items count for the task they belong to, a child's end for the task that made it.
//! The twin of `items_v1` and `child_ended_v1`.

use mainspring_core::{Micros, RunId};

use super::SqliteTx;
use super::settle::counts_code;
use crate::error::Result;
use crate::names::{sql, startable};
use crate::runs::settle::EndedTaskRun;

/// Counts ended items and lets as many go that waited for their turn. Returns the pools that these now wait for.
pub(super) async fn count(
    tx: &mut SqliteTx,
    now: Micros,
    ended_rows: &[EndedTaskRun],
    is_running: impl Fn(RunId) -> bool,
) -> Result<Vec<i32>> {
    let mut pools = Vec::new();
    let ended: Vec<&EndedTaskRun> = ended_rows.iter().filter(|row| row.key.item >= 0).collect();
    for group in ended.chunk_by(|one, next| (one.key.run, one.key.index) == (next.key.run, next.key.index)) {
        let (run, index) = (group[0].key.run, group[0].key.index);
        let mut counts = [0i32; 4];
        for row in group {
            counts[counts_code(row) as usize] += 1;
        }
        let running = is_running(run);
        let open: Option<(i32,)> = sqlx::query_as(
            sql!("UPDATE task_runs SET open = open - $3, succeeded = succeeded + $4, failed = failed + $5, skipped = skipped + $6, \
                 state = CASE WHEN open > $3 THEN state WHEN $7 THEN 4 ELSE 6 END, due_at = CASE WHEN open > $3 THEN due_at ELSE $8 END \
             WHERE run_id = $1 AND idx = $2 AND item = -1 AND state = {task.waiting} AND flags & {task_flag.expanded} <> 0 RETURNING open"),
        )
        .bind(run)
        .bind(index)
        .bind(group.len() as i32)
        .bind(counts[1])
        .bind(counts[2])
        .bind(counts[3])
        .bind(running)
        .bind(now)
        .fetch_optional(tx.connection().await?)
        .await?;
        if open.is_some_and(|(open,)| open > 0) {
            let released: Vec<(i16, Option<i32>)> = sqlx::query_as(
                sql!(concat!("UPDATE task_runs SET state = ", startable!("$4", "flags", "pool"), ", \
                     due_at = $5 + item \
                 WHERE rowid IN (SELECT rowid FROM task_runs WHERE run_id = $1 AND idx = $2 AND item >= 0 AND state = {task.pending} ORDER BY item LIMIT $3) \
                 RETURNING state, pool")),
            )
            .bind(run)
            .bind(index)
            .bind(group.len() as i32)
            .bind(running)
            .bind(now)
            .fetch_all(tx.connection().await?)
            .await?;
            pools.extend(released.into_iter().filter(|row| row.0 == 5).filter_map(|row| row.1));
        }
    }
    Ok(pools)
}

/// The task run that waits for this run can be decided.
pub(super) async fn child_ended(tx: &mut SqliteTx, now: Micros, child: RunId) -> Result<()> {
    sqlx::query(
        sql!("UPDATE task_runs SET state = {task.deciding}, due_at = $2 WHERE state = {task.waiting} AND (run_id, idx, item) IN \
             (SELECT run_id, idx, item FROM waits WHERE child = $1 AND child IS NOT NULL AND outcome IS NULL)"),
    )
    .bind(child)
    .bind(now)
    .execute(tx.connection().await?)
    .await?;
    sqlx::query(sql!(
        "UPDATE waits SET outcome = (SELECT state = {run.success} FROM runs WHERE id = $1), happened_at = $2 \
         WHERE child = $1 AND child IS NOT NULL AND outcome IS NULL"
    ))
    .bind(child)
    .bind(now)
    .execute(tx.connection().await?)
    .await?;
    Ok(())
}
