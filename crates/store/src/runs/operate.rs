//! Actions of operators on runs: cancel, pause, resume. Each locks the run first and never touches running rows.

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::Reason;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::cluster::terms::{self, Term};
use crate::db::{Store, Tx, within};
use crate::dead_letters::{NewLetter, insert, new_id};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::flags::{
    CHUNK, HAS_DEPENDENTS, RUN_BEING_MADE, RUN_CANCELLING, RUN_HAS_FINALLY, RUN_HAS_ON_FAILURE, RUN_NO_FINALISERS,
    RUN_TIMED_OUT,
};
use crate::runs::limits::hand_on;
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::locked::{LockedRun, lock_run};
use crate::runs::proceed::{self, BEYOND_EVERY_TASK};
use crate::runs::settle::settle;
use crate::runs::starts;
use crate::runs::transitions::{Transition, append_transition};
use crate::runs::waits::call_off;

/// Who acts, and why.
#[derive(Debug, Clone, Default)]
pub struct Operator {
    /// As the request says it.
    pub by: String,
    pub reason: Option<String>,
    /// Whose token it was, where that is another name.
    pub token: Option<String>,
    /// Anything, as JSON.
    pub metadata: Option<String>,
    /// The dead letter that is acted on: nothing happens unless it is pending.
    pub letter: Option<Uuid>,
}

impl Operator {
    pub fn new(by: impl Into<String>, reason: Option<String>) -> Self {
        Self { by: by.into(), reason, ..Self::default() }
    }

    /// The reason of a cancel, for the tasks that are stopped and for readers.
    fn cancels(&self) -> String {
        match self.reason.as_deref().filter(|reason| !reason.is_empty()) {
            Some(reason) => format!("cancelled by {}: {reason}", self.by),
            None => format!("cancelled by {}", self.by),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// Nothing new of it will start; what runs is being killed.
    Cancelling,
    /// It had ended before.
    AlreadyEnded(RunState),
}

/// Puts a run whose lock is held into another state.
async fn enter(tx: &mut Tx, now: Micros, run: &mut LockedRun, state: RunState) -> Result<()> {
    run.state = state;
    within!(
        tx,
        sqlx::query("UPDATE runs SET state = $2, progress_at = $3 WHERE id = $1")
            .bind(run.id)
            .bind(state.code())
            .bind(now)
    );
    Ok(())
}

#[boxed]
impl Store {
    /// Cancels a run: what has not started never will, what runs is asked to stop. A second cancel calls off finalisers.
    /// Returns only when no further task of the run can be claimed.
    pub async fn cancel_run(&self, now: Micros, action: Uuid, id: RunId, operator: &Operator) -> Result<CancelOutcome> {
        let mut tx = self.begin().await?;
        // One that was to start later begins now, to end at once.
        starts::begin(&mut tx, now, id).await?;
        let mut run = lock_run(&mut tx, id).await?;
        if run.state.is_terminal() {
            return Ok(CancelOutcome::AlreadyEnded(run.state));
        }
        let again = run.flags & RUN_CANCELLING != 0;
        run.flags |= RUN_CANCELLING | if again { RUN_NO_FINALISERS } else { 0 };
        record(&mut tx, now, action, &mut run, "cancel", operator).await?;
        let more = stop_run(&mut tx, now, &mut run, &operator.cancels()).await?;
        tx.commit().await?;
        if more {
            self.proceed_run(now, id).await?;
        }
        Ok(CancelOutcome::Cancelling)
    }

    /// Fails runs whose deadline has passed, as a leader. Their open tasks are cancelled, their finalisers run.
    pub async fn expire_runs(&self, now: Micros, term: &Term) -> Result<u64> {
        let due: Vec<(RunId,)> = crate::db::read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT id FROM runs WHERE deadline_at IS NOT NULL AND state < {run.success} AND deadline_at <= $1 AND flags & {run_flag.ignores_deadline} = 0 ORDER BY deadline_at LIMIT 100")
        )
        .bind(now)
        .fetch_all(conn)
        .await?
        });
        let mut expired = 0;
        for (id,) in due {
            let mut tx = self.begin().await?;
            if !terms::hold(&mut tx, term).await? {
                return Ok(expired);
            }
            let mut run = lock_run(&mut tx, id).await?;
            if run.state.is_terminal() || run.flags & (RUN_CANCELLING | RUN_TIMED_OUT) != 0 {
                continue;
            }
            run.flags |= RUN_TIMED_OUT;
            append_transition(&mut tx, now, id, Transition::TimedOut).await?;
            let why = match report_lifetime(&mut tx, now, &run).await? {
                true => "the run has lived for longer than `lifecycle.max_duration`",
                false => "the run's timeout has passed",
            };
            let more = stop_run(&mut tx, now, &mut run, why).await?;
            tx.commit().await?;
            if more {
                self.proceed_run(now, id).await?;
            }
            expired += 1;
        }
        Ok(expired)
    }

    /// The next deadline of an open run.
    pub async fn next_deadline(&self) -> Result<Option<Micros>> {
        let row: Option<(i64,)> = crate::db::read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT deadline_at FROM runs WHERE deadline_at IS NOT NULL AND state < {run.success} AND flags & {run_flag.ignores_deadline} = 0 ORDER BY deadline_at LIMIT 1")
        )
        .fetch_optional(conn)
        .await?
        });
        Ok(row.map(|row| row.0))
    }

    /// Pauses a run: nothing more of it starts; what runs goes on.
    pub async fn pause_run(&self, now: Micros, action: Uuid, id: RunId, operator: &Operator) -> Result<()> {
        let mut tx = self.begin().await?;
        let mut run = lock_run(&mut tx, id).await?;
        if run.state != RunState::Running || run.flags & (RUN_CANCELLING | RUN_TIMED_OUT) != 0 {
            return Err(Error::Conflict(format!("run {id} is {}: only a running run can be paused", run.state)));
        }
        enter(&mut tx, now, &mut run, RunState::Paused).await?;
        // Two statements, so that a row that was just let through its gate is seen as ready and gives its slot back.
        within!(
            tx,
            sqlx::query(
                sql!("UPDATE task_runs SET state = {task.held} WHERE run_id = $1 AND (state = {task.gated} OR (state = {task.deciding} AND session IS NULL))")
            )
            .bind(id)
        );
        let released: Vec<(Option<i32>,)> = within!(tx, |conn| sqlx::query_as(sql!(
            "UPDATE task_runs SET state = {task.held} WHERE run_id = $1 AND state = {task.ready} RETURNING pool"
        ))
        .bind(id)
        .fetch_all(conn)
        .await?);
        let released: Vec<i32> = released.into_iter().filter_map(|row| row.0).collect();
        record(&mut tx, now, action, &mut run, "pause", operator).await?;
        hand_on(&mut tx, now, &released, &[], &[]).await?;
        tx.commit().await
    }

    /// Lets a paused run go on.
    pub async fn resume_run(&self, now: Micros, action: Uuid, id: RunId, operator: &Operator) -> Result<()> {
        let mut tx = self.begin().await?;
        let mut run = lock_run(&mut tx, id).await?;
        if run.state != RunState::Paused {
            return Err(Error::Conflict(format!("run {id} is {}: only a paused run can be resumed", run.state)));
        }
        enter(&mut tx, now, &mut run, RunState::Running).await?;
        record(&mut tx, now, action, &mut run, "resume", operator).await?;
        proceed::enqueue(&mut tx, now, id, proceed::ADMIT).await?;
        tx.commit().await?;
        self.proceed_run(now, id).await
    }
}

/// Makes an entry of a run whose deadline was its longest life, which is a matter of staleness; a `timeout` that is shorter
/// makes none. Whether it was.
async fn report_lifetime(tx: &mut Tx, now: Micros, run: &LockedRun) -> Result<bool> {
    let lifetime: Option<(Micros,)> = within!(tx, |conn| {
        sqlx::query_as(
            "SELECT lifetime FROM version_thresholds WHERE version = $1 AND lifetime IS NOT NULL \
             AND (run_timeout IS NULL OR lifetime <= run_timeout)",
        )
        .bind(run.version)
        .fetch_optional(conn)
        .await?
    });
    let Some((lifetime,)) = lifetime else { return Ok(false) };
    let letter = NewLetter {
        id: new_id(now),
        run: run.id,
        task: None,
        version: run.version,
        reason: Reason::StalenessTimeout,
        original_state: run.state.word().to_owned(),
        error_type: Some("lifetime".into()),
        error_message: Some(format!("stale: a run may live for {} minutes", lifetime / 60_000_000)),
        total_attempts: 0,
        last_attempt_at: None,
        metadata: None,
        snapshot: None,
    };
    insert(tx, now, &letter).await?;
    Ok(true)
}

/// Writes the flags of a run that is to stop, and ends what they stop. A queued run gives up its place; a paused one runs
/// again, to its end; one that is still being made stops with the last of its rows. Finalisers that may still run are left
/// alone. True if something is left to do.
pub(crate) async fn stop_run(tx: &mut Tx, now: Micros, run: &mut LockedRun, reason: &str) -> Result<bool> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO run_details (run_id, reason) VALUES ($1, $2) ON CONFLICT (run_id) DO UPDATE \
             SET reason = excluded.reason",
        )
        .bind(run.id)
        .bind(reason)
    );
    if run.flags & RUN_BEING_MADE != 0 {
        within!(tx, sqlx::query("UPDATE runs SET flags = $2 WHERE id = $1").bind(run.id).bind(run.flags));
        return Ok(true);
    }
    let was = std::mem::replace(&mut run.state, RunState::Running);
    within!(
        tx,
        sqlx::query(
            "UPDATE runs SET state = $2, flags = $3, progress_at = $4, started_at = coalesce(started_at, CASE WHEN $6 THEN $4 END), \
             waits_for = NULL, limit_id = CASE WHEN $5 THEN NULL ELSE limit_id END WHERE id = $1"
        )
        .bind(run.id)
        .bind(run.state.code())
        .bind(run.flags)
        .bind(now)
        .bind(was == RunState::Pending)
        .bind(runs_finalisers(run.flags))
    );
    if !run.is_stopped() {
        if was == RunState::Paused {
            proceed::enqueue(tx, now, run.id, proceed::ADMIT).await?;
        }
        return Ok(was == RunState::Paused);
    }
    call_off(tx, now, run.id).await?;
    if run.open == 0 {
        end_stage(tx, now, run.id).await?;
        return Ok(false);
    }
    let more = clear_chunk(tx, now, run.id).await?;
    if more {
        proceed::enqueue(tx, now, run.id, proceed::CANCEL).await?;
    }
    Ok(more)
}

/// Whether a run that is stopped before it began begins after all, for the sake of its finalisers.
fn runs_finalisers(flags: i16) -> bool {
    let is_called_off = flags & RUN_NO_FINALISERS != 0;
    let recovers = flags & RUN_TIMED_OUT != 0 && flags & RUN_HAS_ON_FAILURE != 0;
    !is_called_off && (flags & RUN_HAS_FINALLY != 0 || recovers)
}

/// How the task runs of a run that was stopped end: with the reason that was given.
pub(crate) async fn stopped(tx: &mut Tx, id: RunId) -> Result<Failure> {
    let reason: Option<(Option<String>,)> =
        within!(tx, |conn| sqlx::query_as("SELECT reason FROM run_details WHERE run_id = $1")
            .bind(id)
            .fetch_optional(conn)
            .await?);
    let message = reason.and_then(|reason| reason.0).unwrap_or_else(|| "cancelled".into());
    Ok(Failure { kind: "cancelled".into(), message, ..Failure::default() })
}

/// Ends up to a chunk of the run's rows that no worker executes and no node decides, and asks those that run to stop.
/// True if there may be more.
pub(crate) async fn clear_chunk(tx: &mut Tx, now: Micros, id: RunId) -> Result<bool> {
    let why = stopped(tx, id).await?;
    let last: Option<(i32, i32)> = within!(tx, |conn| {
        sqlx::query_as(
            sql!("SELECT idx, item FROM task_runs WHERE run_id = $1 AND state <> {task.running} AND NOT (state = {task.deciding} AND session IS NOT NULL) \
             ORDER BY idx, item LIMIT 1 OFFSET $2"),
        )
        .bind(id)
        .bind(CHUNK as i64 - 1)
        .fetch_optional(conn)
        .await?
    });
    // Not by how many are ended below: one of them may be claimed meanwhile.
    let more = last.is_some();
    let (last_idx, last_item) = last.unwrap_or(BEYOND_EVERY_TASK);
    let rows: Vec<LiveRow> = within!(tx, |conn| {
        sqlx::query_as(
            sql!(concat!("DELETE FROM task_runs WHERE run_id = $1 AND state <> {task.running} AND NOT (state = {task.deciding} AND session IS NOT NULL) AND (idx, item) <= ($2, $3) \
             RETURNING ", live_columns!())),
        )
        .bind(id)
        .bind(last_idx)
        .bind(last_item)
        .fetch_all(conn)
        .await?
    });
    if !rows.is_empty() {
        let ended_rows = rows
            .iter()
            .map(|row| {
                let mut ended_row = row.ended(now, TaskState::Cancelled, None);
                // What depends on it is cancelled with it, not failed by it.
                ended_row.flags &= !HAS_DEPENDENTS;
                ended_row
            })
            .collect();
        settle(tx, now, ended_rows, Vec::new()).await?;
    }
    // A later statement: a claim that was under way has committed or never will.
    within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO cancel_requests (session, run_id, idx, item, attempt, reason) \
             SELECT session, run_id, idx, item, attempt, $2 FROM task_runs WHERE run_id = $1 AND state = {task.running} \
             ON CONFLICT DO NOTHING")
        )
        .bind(id)
        .bind(&why.message)
    );
    Ok(more)
}

/// A run whose stage has no open task enters its next stage, or ends.
pub(crate) async fn end_stage(tx: &mut Tx, now: Micros, id: RunId) -> Result<()> {
    match tx {
        Tx::Postgres(pg) => {
            sqlx::query("SELECT next_stage_v1($1, $2)").bind(now).bind(id).execute(&mut **pg).await?;
        }
        Tx::Sqlite(sqlite) => crate::sqlite::settle::next_stage(sqlite, now, id).await?,
    }
    let pools: Vec<(i32,)> = within!(tx, |conn| sqlx::query_as(sql!(
        "SELECT DISTINCT pool FROM task_runs WHERE run_id = $1 AND state = {task.gated} AND pool IS NOT NULL"
    ))
    .bind(id)
    .fetch_all(conn)
    .await?);
    let pools: Vec<i32> = pools.into_iter().map(|pool| pool.0).collect();
    let (state, limit): (i16, Option<i32>) =
        within!(tx, |conn| sqlx::query_as("SELECT state, limit_id FROM runs WHERE id = $1")
            .bind(id)
            .fetch_one(conn)
            .await?);
    let ended: Vec<i32> = limit.filter(|_| state >= RunState::Success.code()).into_iter().collect();
    hand_on(tx, now, &[], &ended, &pools).await
}

/// Records an operator's action under the run's next event number.
pub(crate) async fn record(
    tx: &mut Tx,
    now: Micros,
    action_id: Uuid,
    run: &mut LockedRun,
    action: &str,
    operator: &Operator,
) -> Result<()> {
    let seq = run.next_number(tx).await?;
    within!(
        tx,
        sqlx::query(
            "INSERT INTO operator_actions (id, run_id, seq, action, actor, reason, created_at, token, metadata) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        )
        .bind(action_id)
        .bind(run.id)
        .bind(seq)
        .bind(action)
        .bind(&operator.by)
        .bind(&operator.reason)
        .bind(now)
        .bind(&operator.token)
        .bind(&operator.metadata)
    );
    Ok(())
}
