//! Writes what a reopening plans, for many runs in as many statements as for one. The caller holds the locks of the runs and
//! of what they share. Rare things are written run by run: another end of a task, items of a list, other inputs.

use mainspring_core::dead_letter::Resolution;
use mainspring_core::reopen::{Reopen, ReopenedTask};
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId};

use crate::db::{Tx, within};
use crate::dead_letters::{close_matching, close_of_runs, close_of_tasks, close_stale};
use crate::error::Result;
use crate::names::sql;
use crate::over_rows::{fetch_over_rows, over_rows};
use crate::runs::flags::{RUN_CANCELLING, RUN_NO_FINALISERS, RUN_TIMED_OUT, of_task, startable};
use crate::runs::limits::hand_on;
use crate::runs::operate::{Operator, end_stage};
use crate::runs::reopen::PlannedRun;
use crate::runs::reopen_items::revive_items;
use crate::runs::reopen_open::recount;
use crate::runs::repair::replace_end;
use crate::runs::transitions::keep_ends;

/// Index and item of one task run of a run.
type Key = (RunId, i32, i32);

pub(crate) async fn write(tx: &mut Tx, now: Micros, planned: &mut [PlannedRun<'_>], operator: &Operator) -> Result<()> {
    for one in planned.iter_mut() {
        if let Reopen::Settled { task, state, output } = &one.request.what {
            replace_end(tx, now, &mut one.run, *task, *state, output.as_deref()).await?;
        }
    }
    let ended: Vec<RunId> = planned.iter().filter(|one| !one.is_open()).map(|one| one.run.id).collect();
    keep_ends(tx, &ended).await?;
    supersede(tx, planned).await?;
    // What was left to do belonged to the end that is taken back.
    delete_of(tx, &ended, "continuations").await?;
    delete_of(tx, &ended, "unsuccessful_runs").await?;
    revive(tx, now, planned).await?;
    update_ended(tx, now, planned).await?;
    update_open(tx, now, planned).await?;
    over_rows!(tx, "id", ended, |values, id| _ = values.push_bind(*id), |query| _ =
        query.push("UPDATE run_details SET reason = NULL WHERE reason IS NOT NULL AND run_id IN (SELECT k.id FROM k)"));
    change_inputs(tx, planned).await?;
    close_letters(tx, now, planned, operator).await?;
    record(tx, now, planned, operator).await?;
    for one in planned.iter() {
        if one.is_open() {
            recount(tx, now, one).await?;
        } else if one.plan.tasks.is_empty() {
            end_stage(tx, now, one.run.id).await?;
        }
    }
    let runs: Vec<RunId> = planned.iter().map(|one| one.run.id).collect();
    let pools: Vec<(i32,)> = fetch_over_rows!(tx, "id", runs, |values, id| _ = values.push_bind(*id), |query| _ =
        query.push(sql!(
            "SELECT DISTINCT t.pool FROM k CROSS JOIN task_runs t \
             WHERE t.run_id = k.id AND t.state = {task.gated} AND t.pool IS NOT NULL"
        )));
    let pools: Vec<i32> = pools.into_iter().map(|pool| pool.0).collect();
    hand_on(tx, now, &[], &[], &pools).await
}

/// Deletes what a table has of runs; `table` is written here, never by others.
async fn delete_of(tx: &mut Tx, runs: &[RunId], table: &'static str) -> Result<()> {
    over_rows!(tx, "id", runs, |values, id| _ = values.push_bind(*id), |query| _ =
        query.push("DELETE FROM ").push(table).push(" WHERE run_id IN (SELECT k.id FROM k)"));
    Ok(())
}

/// Moves the ends that are taken back out of the history.
async fn supersede(tx: &mut Tx, planned: &[PlannedRun<'_>]) -> Result<()> {
    let keys: Vec<Key> = planned
        .iter()
        .flat_map(|one| one.plan.superseded.iter().map(|(index, item)| (one.run.id, *index as i32, *item)))
        .collect();
    supersede_keys(tx, &keys).await
}

pub(crate) async fn supersede_keys(tx: &mut Tx, keys: &[Key]) -> Result<()> {
    for keys in keys.chunks(ROWS_AT_ONCE) {
        over_rows!(
            tx,
            "run_id, idx, item",
            keys,
            |values, key| _ = values.push_bind(key.0).push_bind(key.1).push_bind(key.2),
            |query| _ = query.push(
                "INSERT INTO history_superseded SELECT h.* FROM k CROSS JOIN history h \
                 WHERE h.run_id = k.run_id AND h.idx = k.idx AND h.item = k.item"
            )
        );
        over_rows!(
            tx,
            "run_id, idx, item",
            keys,
            |values, key| _ = values.push_bind(key.0).push_bind(key.1).push_bind(key.2),
            |query| _ =
                query.push("DELETE FROM history WHERE (run_id, idx, item) IN (SELECT k.run_id, k.idx, k.item FROM k)")
        );
    }
    Ok(())
}

/// How many rows a statement has at most: both databases bound the number of parameters.
const ROWS_AT_ONCE: usize = 1_000;

/// Makes live rows of what is done again.
async fn revive(tx: &mut Tx, now: Micros, planned: &[PlannedRun<'_>]) -> Result<()> {
    let mut whole: Vec<(&PlannedRun<'_>, &ReopenedTask)> = Vec::new();
    for one in planned {
        for task in &one.plan.tasks {
            match &task.items {
                Some(items) => revive_items(tx, now, one, task, items).await?,
                None => whole.push((one, task)),
            }
        }
    }
    for rows in whole.chunks(ROWS_AT_ONCE) {
        // What it waited for, it waits for anew.
        over_rows!(
            tx,
            "run_id, idx",
            rows,
            |values, (one, task)| _ = values.push_bind(one.run.id).push_bind(task.index as i32),
            |query| _ = query.push("DELETE FROM waits WHERE (run_id, idx) IN (SELECT k.run_id, k.idx FROM k)")
        );
        over_rows!(
            tx,
            "run_id, idx, state, flags, attempt, generation, open, succeeded, failed, skipped, due_at",
            rows,
            |values, (one, task)| {
                let flags = of_task(&one.request.workflow.tasks[task.index]);
                // The pool's id is not known here; a row with one is gated when it is written.
                let state = if task.starts { startable(one.admitted, flags, None) } else { TaskState::Pending };
                values.push_bind(one.run.id).push_bind(task.index as i32).push_bind(state.code()).push_bind(flags);
                values.push_bind(task.attempt).push_bind(one.run.generation).push_bind(task.counters.open);
                values.push_bind(task.counters.succeeded).push_bind(task.counters.failed);
                values.push_bind(task.counters.skipped).push_bind(now + task.index as i64);
            },
            |query| {
                _ = query.push(sql!(
                "INSERT INTO task_runs (run_id, idx, item, state, rule, rank, flags, route, pool, attempt, max_failures, max_lost, \
                 generation, open, succeeded, failed, skipped, version, due_at) \
                 SELECT k.run_id, k.idx, -1, \
                 CASE WHEN k.state = {task.ready} AND vt.pool IS NOT NULL THEN {task.gated} ELSE k.state END, vt.rule, \
                 coalesce(vt.rank, r.rank), k.flags, vt.route, vt.pool, k.attempt, vt.max_failures, vt.max_lost, \
                 k.generation, k.open, k.succeeded, k.failed, k.skipped, vt.version, k.due_at \
                 FROM k CROSS JOIN runs r CROSS JOIN version_tasks vt \
                 WHERE r.id = k.run_id AND vt.version = r.version AND vt.idx = k.idx"
            ))
            }
        );
    }
    Ok(())
}

/// How many rows of a run are live after it was reopened that were not before.
fn revived(one: &PlannedRun<'_>) -> i32 {
    let items: usize =
        one.plan.tasks.iter().filter_map(|task| task.items.as_ref()).map(|items| items.again.len()).sum();
    (one.plan.tasks.len() + items) as i32
}

/// Runs that had ended run again, or wait for their limit.
async fn update_ended(tx: &mut Tx, now: Micros, planned: &mut [PlannedRun<'_>]) -> Result<()> {
    let mut ended: Vec<&mut PlannedRun<'_>> = planned.iter_mut().filter(|one| !one.is_open()).collect();
    for one in &mut ended {
        one.run.seq += 1;
    }
    over_rows!(
        tx,
        "id, state, stage, flags, generation, open, failed, deadline_at, seq",
        ended,
        |values, one| {
            let state = if one.admitted { RunState::Running } else { RunState::Pending };
            let deadline = one.request.workflow.deadline_ms();
            values.push_bind(one.run.id).push_bind(state.code()).push_bind(one.plan.stage.code());
            values.push_bind(one.run.flags & !(RUN_CANCELLING | RUN_TIMED_OUT | RUN_NO_FINALISERS));
            values.push_bind(one.run.generation).push_bind(revived(one)).push_bind(one.plan.failed as i32);
            values.push_bind(deadline.map(|timeout| now.saturating_add(timeout as i64 * 1_000)));
            values.push_bind(one.run.seq);
        },
        |query| {
            query.push(sql!(
                "UPDATE runs SET state = k.state, stage = k.stage, flags = k.flags | coalesce((SELECT {run_flag.followed} \
                 FROM workflows w WHERE w.id = runs.workflow_id AND w.followed), 0), generation = k.generation, \
                 open = k.open, failed = k.failed, deadline_at = k.deadline_at, seq = k.seq, finished_at = NULL, \
                 holds = CASE WHEN k.state = {run.running} THEN limit_id END, \
                 waits_for = CASE WHEN k.state = {run.pending} THEN limit_id END, progress_at = "
            ));
            query.push_bind(now).push(", reopened_at = ").push_bind(now);
            query.push(" FROM k WHERE runs.id = k.id AND runs.id IN (SELECT k.id FROM k)");
        }
    );
    Ok(())
}

/// Open runs have more to do, and fewer failures.
async fn update_open(tx: &mut Tx, now: Micros, planned: &mut [PlannedRun<'_>]) -> Result<()> {
    for one in planned.iter_mut().filter(|one| one.is_open()) {
        one.run.seq += 1;
        within!(
            tx,
            sqlx::query(
                "UPDATE runs SET generation = $2, open = open + $3, failed = $4, seq = $5, progress_at = $6 WHERE id = $1"
            )
            .bind(one.run.id)
            .bind(one.run.generation)
            .bind(revived(one))
            .bind(one.plan.failed as i32)
            .bind(one.run.seq)
            .bind(now)
        );
    }
    Ok(())
}

async fn change_inputs(tx: &mut Tx, planned: &[PlannedRun<'_>]) -> Result<()> {
    for (one, inputs) in planned.iter().filter_map(|one| Some((one, one.request.inputs.as_ref()?))) {
        within!(
            tx,
            sqlx::query(
                "INSERT INTO run_details (run_id, inputs) VALUES ($1, $2) ON CONFLICT (run_id) DO UPDATE SET inputs = $2"
            )
            .bind(one.run.id)
            .bind(inputs)
        );
    }
    Ok(())
}

/// Entries that wait for a person, of what this concerns: what will run again is retried, what was settled by hand is closed
/// as that, and a run that was given up as stale goes on. What else failed keeps its entry.
async fn close_letters(tx: &mut Tx, now: Micros, planned: &[PlannedRun<'_>], operator: &Operator) -> Result<()> {
    for one in planned {
        if let Reopen::Settled { task, state, .. } = &one.request.what {
            let status = if *state == TaskState::Skipped { Resolution::Skipped } else { Resolution::Resolved };
            close_stale(tx, now, one.run.id, status, operator).await?;
            close_matching(tx, now, one.run.id, Some(*task as i32), None, status, operator).await?;
        }
    }
    let runs: Vec<(RunId, bool)> = planned
        .iter()
        .filter(|one| !matches!(one.request.what, Reopen::Settled { .. }))
        .map(|one| (one.run.id, one.request.what == Reopen::Failed))
        .collect();
    close_of_runs(tx, now, &runs, Resolution::Retried, operator).await?;
    let mut tasks: Vec<(RunId, i32)> = planned
        .iter()
        .flat_map(|one| one.plan.superseded.iter().map(|(index, _)| (one.run.id, *index as i32)))
        .collect();
    tasks.dedup();
    for tasks in tasks.chunks(ROWS_AT_ONCE) {
        close_of_tasks(tx, now, tasks, Resolution::Retried, operator).await?;
    }
    Ok(())
}

/// Records the action under the next event number of each run, which its row has by now.
async fn record(tx: &mut Tx, now: Micros, planned: &[PlannedRun<'_>], operator: &Operator) -> Result<()> {
    over_rows!(
        tx,
        "id, run_id, seq, action",
        planned,
        |values, one| {
            values.push_bind(one.request.action).push_bind(one.run.id).push_bind(one.run.seq);
            values.push_bind(one.request.what.word());
        },
        |query| {
            query.push(
                "INSERT INTO operator_actions (id, run_id, seq, action, created_at, actor, reason, token, metadata) \
                 SELECT k.id, k.run_id, k.seq, k.action, ",
            );
            query
                .push_bind(now)
                .push(", ")
                .push_bind(operator.by.clone())
                .push(", ")
                .push_bind(operator.reason.clone());
            query.push(", ").push_bind(operator.token.clone()).push(", ").push_bind(operator.metadata.clone());
            query.push(" FROM k");
        }
    );
    Ok(())
}
