//! Reopening a task that was repeated over a list: items that went well stay as they are, the others are done again.

use mainspring_core::Micros;
use mainspring_core::reopen::{ReopenedItems, ReopenedTask};
use mainspring_core::state::TaskState;

use crate::db::{Tx, within};
use crate::error::Result;
use crate::names::sql;
use crate::runs::flags::{BIG_FAN_OUT, DEAD_LETTER, EXPANDED, HAS_CONDITION, HAS_DEPENDENTS, of_task, startable};
use crate::runs::locked::LockedRun;
use crate::runs::parking::NEVER;
use crate::runs::reopen::PlannedRun;

/// Makes the task wait for its items again, and those live that are done again.
pub(crate) async fn revive_items(
    tx: &mut Tx,
    now: Micros,
    one: &PlannedRun<'_>,
    reopened: &ReopenedTask,
    items: &ReopenedItems,
) -> Result<()> {
    let (run, index, task) = (&one.run, reopened.index, &one.request.workflow.tasks[reopened.index]);
    let flags = of_task(task);
    let parent = Row {
        item: -1,
        state: TaskState::Waiting,
        flags: (flags | EXPANDED) & !DEAD_LETTER,
        attempt: reopened.attempt + 1,
        open: items.again.len() as i32,
        succeeded: items.kept,
        due_at: NEVER,
    };
    insert(tx, run, index, &parent).await?;
    within!(
        tx,
        sqlx::query(
            "UPDATE waits SET attempt = $3, outcome = NULL, happened_at = NULL WHERE run_id = $1 AND idx = $2 AND item = -1"
        )
        .bind(run.id)
        .bind(index as i32)
        .bind(parent.attempt)
    );
    let mut own = flags & !(HAS_DEPENDENTS | HAS_CONDITION | BIG_FAN_OUT);
    if task.action.parks() {
        own |= HAS_CONDITION;
    }
    let at_once = task.max_parallel.map_or(usize::MAX, |max| max as usize);
    for (nth, (item, attempt)) in items.again.iter().enumerate() {
        within!(
            tx,
            sqlx::query("DELETE FROM waits WHERE run_id = $1 AND idx = $2 AND item = $3")
                .bind(run.id)
                .bind(index as i32)
                .bind(item)
        );
        let state = if nth < at_once { startable(one.admitted, own, None) } else { TaskState::Pending };
        let row =
            Row { item: *item, state, flags: own, attempt: *attempt, open: 0, succeeded: 0, due_at: now + nth as i64 };
        insert(tx, run, index, &row).await?;
    }
    Ok(())
}

struct Row {
    item: i32,
    state: TaskState,
    flags: i16,
    attempt: i32,
    open: i32,
    succeeded: i32,
    due_at: Micros,
}

/// A live row from its template; one with a pool is gated instead of ready.
async fn insert(tx: &mut Tx, run: &LockedRun, index: usize, row: &Row) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO task_runs (run_id, idx, item, state, rule, rank, flags, route, pool, attempt, \
             max_failures, max_lost, generation, open, succeeded, \
                                    version, due_at, started_at) \
             SELECT r.id, vt.idx, $3, CASE WHEN $4 = {task.ready} AND vt.pool IS NOT NULL THEN {task.gated} ELSE $4 END, \
             vt.rule, coalesce(vt.rank, r.rank), $5, vt.route, vt.pool, \
                    $6, vt.max_failures, vt.max_lost, $7, $8, $9, vt.version, $10, NULL \
             FROM runs r JOIN version_tasks vt ON vt.version = r.version AND vt.idx = $2 WHERE r.id = $1"),
        )
        .bind(run.id)
        .bind(index as i32)
        .bind(row.item)
        .bind(row.state.code())
        .bind(row.flags)
        .bind(row.attempt)
        .bind(run.generation)
        .bind(row.open)
        .bind(row.succeeded)
        .bind(row.due_at)
    );
    Ok(())
}
