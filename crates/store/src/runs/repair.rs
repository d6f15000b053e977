//! Actions of operators on one task run: settle it by hand, cancel it, try it at once, give it fresh attempts.
//!
//! Each unit locks the run first and never touches a row that a worker executes or a node decides: a running attempt can only be
//! asked to stop. What has ended is changed by reopening its run ([`Reopen::Settled`](crate::Reopen::Settled)).

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::Resolution;
use mainspring_core::ids::NO_ITEM;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_core::{Micros, TaskKey};
use uuid::Uuid;

use crate::db::{Store, Tx, locking, read, within};
use crate::dead_letters::{close_matching, require_pending};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::flags::{EXPANDED, HAS_CONDITION, RUN_BEING_MADE, SKIPPED_BY_HAND, startable};
use crate::runs::limits::hand_on;
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::locked::{LockedRun, lock_run};
use crate::runs::operate::Operator;
use crate::runs::reopen_write::supersede_keys;
use crate::runs::settle::settle;

/// What to do to a live task run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// It counts as a success, with this output (JSON).
    Resolve {
        output: Option<String>,
    },
    /// It is left out, and counts as a success without output.
    Skip,
    Cancel,
    /// Do not wait for the next attempt's time.
    RetryNow,
    /// Forget the failures and losses so far.
    ResetAttempts,
    /// How many attempts in all.
    MaxAttempts(i16),
    /// Milliseconds for each attempt from the next one on.
    Timeout(i64),
}

impl Repair {
    /// The word in the history of the run.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "resolve_manually",
            Self::Skip => "skip",
            Self::Cancel => "cancel_task",
            Self::RetryNow => "retry_task",
            Self::ResetAttempts => "reset_attempts",
            Self::MaxAttempts(_) | Self::Timeout(_) => "override",
        }
    }

    /// What becomes of its pending dead letter.
    fn closes(&self) -> Option<Resolution> {
        match self {
            Self::Resolve { .. } => Some(Resolution::Resolved),
            Self::Skip => Some(Resolution::Skipped),
            Self::Cancel => Some(Resolution::Cancelled),
            Self::RetryNow => Some(Resolution::Retried),
            Self::ResetAttempts | Self::MaxAttempts(_) | Self::Timeout(_) => None,
        }
    }

    fn becomes(&self) -> Option<TaskState> {
        match self {
            Self::Resolve { .. } => Some(TaskState::ResolvedManually),
            Self::Skip => Some(TaskState::Skipped),
            Self::Cancel => Some(TaskState::Cancelled),
            Self::RetryNow | Self::ResetAttempts | Self::MaxAttempts(_) | Self::Timeout(_) => None,
        }
    }
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repaired {
    Done,
    /// It runs: its worker was asked to stop it.
    StopRequested,
    /// It is not live: only reopening its run can change it.
    Ended,
}

const LIVE: &str = concat!("SELECT ", live_columns!(), " FROM task_runs WHERE run_id = $1 AND idx = $2 AND item = $3");

#[boxed]
impl Store {
    /// Acts on a live task run.
    pub async fn repair(
        &self,
        now: Micros,
        action: Uuid,
        key: TaskKey,
        repair: &Repair,
        operator: &Operator,
    ) -> Result<Repaired> {
        let mut tx = self.begin().await?;
        let mut run = lock_run(&mut tx, key.run).await?;
        let row: Option<LiveRow> = within!(tx, |conn| sqlx::query_as(LIVE)
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .fetch_optional(conn)
            .await?);
        let Some(row) = row else { return Ok(Repaired::Ended) };
        if let Some(letter) = operator.letter {
            require_pending(&mut tx, letter).await?;
        }
        refuse_unsettled_runs(&run)?;
        let is_claimed = row.state == TaskState::Running.code() || row.session.is_some();
        if is_claimed && *repair != Repair::Cancel {
            return Err(Error::Conflict("it is running: cancel it first, or wait for the end of its attempt".into()));
        }
        if !is_claimed {
            hold(&mut tx, &row).await?;
        }
        record_task(&mut tx, now, action, &mut run, key, repair.word(), operator).await?;
        if let Some(status) = repair.closes() {
            close_matching(&mut tx, now, key.run, Some(key.index), Some(key.item), status, operator).await?;
        }
        let outcome = match repair {
            Repair::ResetAttempts => set(&mut tx, &row, "failures = 0, lost = 0").await?,
            Repair::MaxAttempts(most) => {
                if row.failures >= *most {
                    let said = format!("it has failed {} times already: allow more attempts than that", row.failures);
                    return Err(Error::Conflict(said));
                }
                set(&mut tx, &row, &format!("max_failures = {most}")).await?
            }
            Repair::Timeout(ms) => override_timeout(&mut tx, &row, *ms).await?,
            Repair::RetryNow => retry_now(&mut tx, now, &run, &row).await?,
            Repair::Resolve { output } => end(&mut tx, now, &row, repair, output.clone(), operator).await?,
            Repair::Skip | Repair::Cancel => end(&mut tx, now, &row, repair, None, operator).await?,
        };
        tx.commit().await?;
        Ok(outcome)
    }
}

/// The node that claims the next attempt looks for it; a first attempt is started without looking.
async fn override_timeout(tx: &mut Tx, row: &LiveRow, ms: i64) -> Result<Repaired> {
    if row.attempt == 0 && row.generation == 0 {
        return Err(Error::Conflict(
            "it was not tried yet, and starts with the timeout of its workflow: change that after its first attempt"
                .into(),
        ));
    }
    within!(
        tx,
        sqlx::query(
            "INSERT INTO task_overrides (run_id, idx, item, timeout_ms) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (run_id, idx, item) DO UPDATE SET timeout_ms = $4"
        )
        .bind(row.run_id)
        .bind(row.idx)
        .bind(row.item)
        .bind(ms)
    );
    Ok(Repaired::Done)
}

#[boxed]
impl Store {
    /// The timeouts that operators gave these task runs, in milliseconds.
    pub async fn timeout_overrides(&self, keys: &[TaskKey]) -> Result<HashMap<TaskKey, i64>> {
        let mut found = HashMap::new();
        for key in keys {
            let row: Option<(i64,)> = read!(self, |conn| sqlx::query_as(
                "SELECT timeout_ms FROM task_overrides WHERE run_id = $1 AND idx = $2 AND item = $3"
            )
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .fetch_optional(conn)
            .await?);
            if let Some((ms,)) = row {
                found.insert(*key, ms);
            }
        }
        Ok(found)
    }
}

/// Locks a row that is not claimed. Only such rows are waited for: the exchange that hands in a claimed one holds it, and waits
/// for its run.
async fn hold(tx: &mut Tx, row: &LiveRow) -> Result<()> {
    let sql = locking!(
        tx,
        "SELECT idx FROM task_runs WHERE run_id = $1 AND idx = $2 AND item = $3 AND state = $4 AND session IS NULL",
        "FOR UPDATE"
    );
    let held: Option<(i32,)> = within!(tx, |conn| sqlx::query_as(sql)
        .bind(row.run_id)
        .bind(row.idx)
        .bind(row.item)
        .bind(row.state)
        .fetch_optional(conn)
        .await?);
    held.map(drop).ok_or_else(|| Error::Conflict("it has just started: look again".into()))
}

fn refuse_unsettled_runs(run: &LockedRun) -> Result<()> {
    if run.flags & RUN_BEING_MADE != 0 {
        return Err(Error::Conflict(format!("the tasks of run {} are not made yet: repeat once it has begun", run.id)));
    }
    if run.is_stopped() {
        return Err(Error::Conflict(format!("run {} is being stopped: what is open of it ends by itself", run.id)));
    }
    if run.state == RunState::Pending {
        return Err(Error::Conflict(format!(
            "run {} waits for its concurrency limit: wait, or cancel the run",
            run.id
        )));
    }
    Ok(())
}

/// Changes columns of a row; `columns` is written here, never by others.
async fn set(tx: &mut Tx, row: &LiveRow, columns: &str) -> Result<Repaired> {
    let sql =
        sqlx::AssertSqlSafe(format!("UPDATE task_runs SET {columns} WHERE run_id = $1 AND idx = $2 AND item = $3"));
    within!(tx, sqlx::query(sql).bind(row.run_id).bind(row.idx).bind(row.item));
    Ok(Repaired::Done)
}

async fn retry_now(tx: &mut Tx, now: Micros, run: &LockedRun, row: &LiveRow) -> Result<Repaired> {
    if row.state != TaskState::Retrying.code() {
        return Err(Error::Conflict(format!(
            "it is {}: only a task that waits for its next attempt, or has ended, can be retried",
            shown(row)?
        )));
    }
    let state = startable(run.state == RunState::Running, row.flags & HAS_CONDITION, row.pool);
    let done = set(tx, row, &format!("state = {}, due_at = {now}", state.code())).await?;
    let pools: Vec<i32> = row.pool.filter(|_| state == TaskState::Gated).into_iter().collect();
    hand_on(tx, now, &[], &[], &pools).await?;
    Ok(done)
}

fn shown(row: &LiveRow) -> Result<TaskState> {
    Ok(TaskState::try_from(row.state).map_err(|error| Error::bad_row("task_runs", "state", row.key(), error))?.shown())
}

async fn end(
    tx: &mut Tx,
    now: Micros,
    row: &LiveRow,
    repair: &Repair,
    output: Option<String>,
    operator: &Operator,
) -> Result<Repaired> {
    let Some(next) = repair.becomes() else { return Ok(Repaired::Done) };
    let state =
        TaskState::try_from(row.state).map_err(|error| Error::bad_row("task_runs", "state", row.key(), error))?;
    let why =
        format!("by {}{}", operator.by, operator.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}")));
    if state == TaskState::Running {
        ask_to_stop(tx, row, &format!("cancelled {why}")).await?;
        return Ok(Repaired::StopRequested);
    }
    if row.session.is_some() || !state.may_become(next) {
        return Err(Error::Conflict("it is being decided: repeat in a moment".into()));
    }
    if row.flags & EXPANDED != 0 {
        return Err(Error::Conflict("its items are under way: act on them, as in `name[0]`".into()));
    }
    call_off_wait(tx, now, row).await?;
    row.delete(tx).await?;
    let failure = (next == TaskState::Cancelled).then(|| Failure {
        kind: "cancelled".into(),
        message: format!("cancelled {why}"),
        ..Failure::default()
    });
    let mut ended_row = row.ended(now, next, failure);
    if next == TaskState::Skipped {
        ended_row.flags |= SKIPPED_BY_HAND;
    }
    ended_row.output = output;
    settle(tx, now, vec![ended_row], Vec::new()).await?;
    Ok(Repaired::Done)
}

async fn ask_to_stop(tx: &mut Tx, row: &LiveRow, reason: &str) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO cancel_requests (session, run_id, idx, item, attempt, reason) VALUES ($1, $2, \
             $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        )
        .bind(row.session)
        .bind(row.run_id)
        .bind(row.idx)
        .bind(row.item)
        .bind(row.attempt)
        .bind(reason)
    );
    Ok(())
}

/// Removes what this row waited for; its child run is called off, durably.
async fn call_off_wait(tx: &mut Tx, now: Micros, row: &LiveRow) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO continuations (run_id, kind, created_at) SELECT child, {continuation.cancel_child}, $4 FROM waits \
             WHERE run_id = $1 AND idx = $2 AND item = $3 AND child IS NOT NULL AND outcome IS NULL"),
        )
        .bind(row.run_id)
        .bind(row.idx)
        .bind(row.item)
        .bind(now)
    );
    within!(
        tx,
        sqlx::query(sql!(
            "UPDATE waits SET outcome = {waited.moot}, happened_at = $4 WHERE run_id = $1 AND idx = $2 AND item = \
             $3 AND outcome IS NULL"
        ),)
        .bind(row.run_id)
        .bind(row.idx)
        .bind(row.item)
        .bind(now)
    );
    Ok(())
}

/// Records an operator's action on one task run under the run's next event number.
async fn record_task(
    tx: &mut Tx,
    now: Micros,
    id: Uuid,
    run: &mut LockedRun,
    key: TaskKey,
    action: &str,
    operator: &Operator,
) -> Result<()> {
    crate::runs::operate::record(tx, now, id, run, action, operator).await?;
    within!(
        tx,
        sqlx::query("UPDATE operator_actions SET idx = $2, item = $3 WHERE id = $1")
            .bind(id)
            .bind(key.index)
            .bind(key.item)
    );
    Ok(())
}

/// Gives an ended task another end: the old row is superseded. The caller has locked the run, raised its generation and
/// planned what follows.
pub(crate) async fn replace_end(
    tx: &mut Tx,
    now: Micros,
    run: &mut LockedRun,
    task: usize,
    state: TaskState,
    output: Option<&str>,
) -> Result<()> {
    let key = (run.id, task as i32, NO_ITEM);
    supersede_keys(tx, &[key]).await?;
    let by_hand = if state == TaskState::Skipped { SKIPPED_BY_HAND } else { 0 };
    let seq = run.next_number(tx).await?;
    within!(
        tx,
        sqlx::query(sql!(
            "INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, \
             session, seq, started_at, finished_at, output) \
             SELECT run_id, idx, item, $4, (flags & ~{task_flag.skipped_by_hand}) | CAST($5 AS smallint), $6, attempt, failures, \
             lost, session, $7, started_at, $8, $9 FROM history_superseded \
             WHERE run_id = $1 AND idx = $2 AND item = $3 ORDER BY generation DESC LIMIT 1"
        ))
        .bind(run.id)
        .bind(key.1)
        .bind(key.2)
        .bind(state.code())
        .bind(by_hand)
        .bind(run.generation)
        .bind(seq)
        .bind(now)
        .bind(output)
    );
    Ok(())
}
