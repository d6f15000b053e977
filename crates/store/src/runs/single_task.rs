//! A run of one task alone: everything else of it is settled by hand before it begins.
//!
//! What the task reads of others is what they left in the run that it comes from: those that went well there are `resolved_manually`
//! with their output, the others are skipped. Finalisers are left out.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::Resolution;
use mainspring_core::ids::NO_ITEM;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId, TaskKey};
use uuid::Uuid;

use crate::db::{Store, Tx, within};
use crate::dead_letters::close_pending;
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::create::{Created, NewRun, create_one};
use crate::runs::flags::{CHUNK, HAS_CONDITION, HAS_DEPENDENTS, SKIPPED_BY_HAND, startable};
use crate::runs::limits::hand_on;
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::locked::{LockedRun, lock_run};
use crate::runs::operate::{Operator, record};
use crate::runs::settle::{EndedTaskRun, settle};

/// The word in the history of the run.
const ACTION: &str = "retry_as_new_run";

#[boxed]
impl Store {
    /// Makes a run in which only this task of another run, of the same version, is executed, and closes the dead letter that
    /// the operator acts on.
    pub async fn create_run_of_task(
        &self,
        now: Micros,
        run: &NewRun,
        of: TaskKey,
        action: Uuid,
        operator: &Operator,
    ) -> Result<Created> {
        if run.version.main_tasks as usize > CHUNK {
            return Err(Error::Conflict(format!(
                "the workflow has more than {CHUNK} tasks: retry the task in the same run instead"
            )));
        }
        let mut tx = self.begin().await?;
        let created = create_one(&mut tx, now, run).await?;
        if let Created::New(_) | Created::Queued(_) = created {
            let mut locked = lock_run(&mut tx, run.id).await?;
            record(&mut tx, now, action, &mut locked, ACTION, operator).await?;
            leave_out_others(&mut tx, now, &locked, of).await?;
            if let Some(letter) = operator.letter
                && !close_pending(&mut tx, now, letter, Resolution::Retried, operator).await?
            {
                return Err(Error::Conflict(format!("dead letter {letter} is closed already")));
            }
        }
        tx.commit().await?;
        Ok(created)
    }
}

async fn leave_out_others(tx: &mut Tx, now: Micros, run: &LockedRun, of: TaskKey) -> Result<()> {
    let rows: Vec<LiveRow> = within!(tx, |conn| {
        sqlx::query_as(concat!("SELECT ", live_columns!(), " FROM task_runs WHERE run_id = $1 ORDER BY idx"))
            .bind(run.id)
            .fetch_all(conn)
            .await?
    });
    let Some(task) = rows.iter().find(|row| row.idx == of.index) else {
        return Err(Error::Conflict("a finaliser has no run of its own: retry it in the same run instead".into()));
    };
    let results = results(tx, of.run).await?;
    let others: Vec<EndedTaskRun> =
        rows.iter().filter(|row| row.idx != of.index).map(|row| left_out(now, row, &results)).collect();
    within!(tx, sqlx::query("DELETE FROM task_runs WHERE run_id = $1 AND idx <> $2").bind(run.id).bind(of.index));
    within!(
        tx,
        sqlx::query(sql!("UPDATE runs SET flags = flags & ~{run_flag.has_finalisers} WHERE id = $1")).bind(run.id)
    );
    settle(tx, now, others, Vec::new()).await?;
    if task.state == TaskState::Pending.code() {
        let state = startable(run.state == RunState::Running, task.flags & HAS_CONDITION, task.pool);
        within!(
            tx,
            sqlx::query(
                "UPDATE task_runs SET state = $3, succeeded = succeeded + open, open = 0, due_at = $4 WHERE run_id = $1 AND idx = $2"
            )
            .bind(run.id)
            .bind(of.index)
            .bind(state.code())
            .bind(now)
        );
        let pools: Vec<i32> = task.pool.filter(|_| state == TaskState::Gated).into_iter().collect();
        hand_on(tx, now, &[], &[], &pools).await?;
    }
    Ok(())
}

/// What the tasks of a run that went well left, JSON.
async fn results(tx: &mut Tx, run: RunId) -> Result<HashMap<i32, Option<String>>> {
    let rows: Vec<(i32, Option<String>)> = within!(tx, |conn| {
        sqlx::query_as(sql!(
        "SELECT idx, output FROM history WHERE run_id = $1 AND item = $2 AND state IN ({task.success}, {task.resolved_manually})"
    ))
    .bind(run)
    .bind(NO_ITEM)
    .fetch_all(conn)
    .await?
    });
    Ok(rows.into_iter().collect())
}

/// Nothing is counted for dependents: the one that is left starts whatever its rule says.
fn left_out(now: Micros, row: &LiveRow, results: &HashMap<i32, Option<String>>) -> EndedTaskRun {
    let result = results.get(&row.idx);
    let state = if result.is_some() { TaskState::ResolvedManually } else { TaskState::Skipped };
    let mut ended_row = row.ended(now, state, None);
    ended_row.flags &= !HAS_DEPENDENTS;
    if state == TaskState::Skipped {
        ended_row.flags |= SKIPPED_BY_HAND;
    }
    ended_row.output = result.cloned().flatten();
    ended_row
}
