//! What reopening needs in a run that is open: its tasks that wait count their dependencies anew, and those that are settled
//! by that start or end.
//!
//! A pending row changes only under its run's lock, which the caller holds. Rows that are claimed, or could be, stay as they
//! are.

use mainspring_core::reopen::Recounted;
use mainspring_core::rule::Verdict;
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, RunId};

use crate::db::{Tx, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::flags::{of_task, startable};
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::reopen::PlannedRun;
use crate::runs::settle::settle;

/// The tasks of an open run that wait for others. Refused while ends of it are still being counted.
pub(crate) async fn pending_tasks(tx: &mut Tx, run: RunId) -> Result<Vec<usize>> {
    let counting: Option<(RunId,)> =
        within!(tx, |conn| sqlx::query_as("SELECT run_id FROM continuations WHERE run_id = $1 LIMIT 1")
            .bind(run)
            .fetch_optional(conn)
            .await?);
    if counting.is_some() {
        return Err(Error::Conflict(format!("run {run} is still working off what has ended: repeat in a moment")));
    }
    let rows: Vec<(i32,)> = within!(tx, |conn| sqlx::query_as(sql!(
        "SELECT idx FROM task_runs WHERE run_id = $1 AND item = -1 AND state = {task.pending} ORDER BY idx"
    ))
    .bind(run)
    .fetch_all(conn)
    .await?);
    Ok(rows.into_iter().map(|row| row.0 as usize).collect())
}

/// Writes what was counted anew. What can no longer start ends, and what follows from that is settled too.
pub(crate) async fn recount(tx: &mut Tx, now: Micros, one: &PlannedRun<'_>) -> Result<()> {
    let mut ended_rows = Vec::new();
    for recounted in &one.plan.recounted {
        let state = match recounted.verdict {
            Verdict::Wait => TaskState::Pending,
            // The pool's id is not known here; a row with one is gated when it is written.
            Verdict::Start => startable(one.admitted, of_task(&one.request.workflow.tasks[recounted.index]), None),
            Verdict::Skip | Verdict::UpstreamFailed => {
                let ends =
                    if recounted.verdict == Verdict::Skip { TaskState::Skipped } else { TaskState::UpstreamFailed };
                ended_rows.extend(take_out(tx, one.run.id, recounted).await?.map(|row| row.ended(now, ends, None)));
                continue;
            }
        };
        set(tx, now, one.run.id, recounted, state).await?;
    }
    if !ended_rows.is_empty() {
        settle(tx, now, ended_rows, Vec::new()).await?;
    }
    Ok(())
}

async fn set(tx: &mut Tx, now: Micros, run: RunId, recounted: &Recounted, state: TaskState) -> Result<()> {
    let counters = recounted.counters;
    within!(
        tx,
        sqlx::query(sql!(
            "UPDATE task_runs SET open = $3, succeeded = $4, failed = $5, skipped = $6, \
             state = CASE WHEN $7 = {task.ready} AND pool IS NOT NULL THEN {task.gated} ELSE $7 END, \
             due_at = CASE WHEN $7 = {task.pending} THEN due_at ELSE $8 END \
             WHERE run_id = $1 AND idx = $2 AND item = -1 AND state = {task.pending}"
        ))
        .bind(run)
        .bind(recounted.index as i32)
        .bind(counters.open)
        .bind(counters.succeeded)
        .bind(counters.failed)
        .bind(counters.skipped)
        .bind(state.code())
        .bind(now + recounted.index as i64)
    );
    Ok(())
}

async fn take_out(tx: &mut Tx, run: RunId, recounted: &Recounted) -> Result<Option<LiveRow>> {
    Ok(within!(tx, |conn| {
        sqlx::query_as(sql!(concat!(
            "DELETE FROM task_runs WHERE run_id = $1 AND idx = $2 AND item = -1 AND state = {task.pending} RETURNING ",
            live_columns!()
        )))
        .bind(run)
        .bind(recounted.index as i32)
        .fetch_optional(conn)
        .await?
    }))
}
