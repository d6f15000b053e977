//! Big units go on in chunks. What is left to do is a row in `continuations`, so a crash between chunks loses nothing.

use mainspring_boxed::boxed;
use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId};

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::names::{sql, startable};
use crate::runs::flags::{CHUNK, RUN_ADMITTED, RUN_BEING_MADE, RUN_CANCELLING};
use crate::runs::limits::hand_on;
use crate::runs::locked::{LockedRun, lock_run};
use crate::runs::operate::{clear_chunk, end_stage, stop_run, stopped};
use crate::runs::settle::{Count, settle};
use crate::runs::transitions::{Transition, append_transition};

/// Make the rows of a run.
pub(crate) const CREATE: i16 = 0;
/// Let the held rows of a run go.
pub(crate) const ADMIT: i16 = 1;
/// End the rows of a run that is being cancelled.
pub(crate) const CANCEL: i16 = 2;
/// Count the dependents of an ended task.
pub(crate) const FAN_OUT: i16 = 3;
/// Cancel a run whose parent does not wait for it any more.
pub(crate) const CANCEL_CHILD: i16 = 4;

/// Stands for the end of a chunk that is the last.
pub(crate) const BEYOND_EVERY_TASK: (i32, i32) = (i32::MAX, i32::MAX);

#[derive(Debug, Clone, sqlx::FromRow)]
struct Continuation {
    id: i64,
    run_id: RunId,
    kind: i16,
    idx: i32,
    counts: i16,
    position: i32,
}

/// Which continuation comes next.
#[derive(Debug, Clone, Copy)]
enum Choice<'a> {
    /// The oldest after this one that is not locked, without those of these runs.
    After(i64, &'a [RunId]),
    /// The oldest of this run.
    Run(RunId),
}

/// What became of a continuation.
#[derive(Debug)]
enum Step {
    /// There is none.
    Nothing,
    Done,
    LeftOut(i64),
    /// Repeating is useless, as far as its error says.
    Failed(Continuation, Error),
}

pub(crate) async fn enqueue(tx: &mut Tx, now: Micros, run: RunId, kind: i16) -> Result<()> {
    within!(
        tx,
        sqlx::query("INSERT INTO continuations (run_id, kind, created_at) VALUES ($1, $2, $3)")
            .bind(run)
            .bind(kind)
            .bind(now)
    );
    Ok(())
}

#[boxed]
impl Store {
    /// Does one chunk of what is left to do, oldest first; false if nothing is. A run whose chunk fails for good is left out, and
    /// the next one goes on.
    pub async fn proceed(&self, now: Micros) -> Result<bool> {
        let mut failed = Vec::new();
        let mut after = 0;
        loop {
            match self.proceed_one(now, Choice::After(after, &failed)).await? {
                Step::Nothing => return Ok(false),
                Step::Done => return Ok(true),
                Step::LeftOut(id) => after = id,
                Step::Failed(work, error) => {
                    tracing::warn!(
                        %error, run = %work.run_id, continuation = work.id, kind = work.kind,
                        "what is left to do for a run fails; it is tried again, others go on"
                    );
                    after = work.id;
                    failed.push(work.run_id);
                }
            }
        }
    }

    /// Does everything that is left to do for a run.
    pub async fn proceed_run(&self, now: Micros, run: RunId) -> Result<()> {
        loop {
            match self.proceed_one(now, Choice::Run(run)).await? {
                Step::Done => {}
                Step::Nothing | Step::LeftOut(_) => return Ok(()),
                Step::Failed(_, error) => return Err(error),
            }
        }
    }

    /// Whether anything is left to do. Cheap: for a look before taking the writer.
    pub async fn has_continuations(&self) -> Result<bool> {
        let row: Option<(i64,)> =
            read!(self, |conn| sqlx::query_as("SELECT id FROM continuations LIMIT 1").fetch_optional(conn).await?);
        Ok(row.is_some())
    }

    /// Failures that waiting can help are errors of this call.
    async fn proceed_one(&self, now: Micros, choice: Choice<'_>) -> Result<Step> {
        let mut tx = self.begin().await?;
        let sql = match choice {
            Choice::After(..) => locking!(
                tx,
                "SELECT id, run_id, kind, idx, counts, position FROM continuations WHERE id > $1 ORDER BY id LIMIT 1",
                "FOR UPDATE SKIP LOCKED"
            ),
            Choice::Run(_) => locking!(
                tx,
                "SELECT id, run_id, kind, idx, counts, position FROM continuations WHERE run_id = $1 ORDER BY id LIMIT 1",
                "FOR UPDATE"
            ),
        };
        let found: Option<Continuation> = within!(tx, |conn| {
            let query = sqlx::query_as(sql);
            let query = match choice {
                Choice::After(id, _) => query.bind(id),
                Choice::Run(run) => query.bind(run),
            };
            query.fetch_optional(conn).await?
        });
        let Some(work) = found else { return Ok(Step::Nothing) };
        if matches!(choice, Choice::After(_, failed) if failed.contains(&work.run_id)) {
            // What is left to do for a run goes in order.
            return Ok(Step::LeftOut(work.id));
        }
        match proceed_with(tx, now, &work).await {
            Ok(()) => Ok(Step::Done),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => Ok(Step::Failed(work, error)),
        }
    }
}

/// Does a chunk, and notes where the next one begins.
async fn proceed_with(mut tx: Tx, now: Micros, work: &Continuation) -> Result<()> {
    let run = lock_run(&mut tx, work.run_id).await?;
    let next = match work.kind {
        CREATE => make_chunk(&mut tx, now, &run, work.position).await?,
        ADMIT => admit_chunk(&mut tx, now, &run).await?,
        CANCEL => clear_chunk(&mut tx, now, run.id).await?.then_some(0),
        FAN_OUT => fan_out_chunk(&mut tx, now, &run, work).await?,
        CANCEL_CHILD => cancel_child(&mut tx, now, run).await?,
        other => return Err(Error::bad_row("continuations", "kind", work.id, other)),
    };
    match next {
        Some(position) => {
            within!(
                tx,
                sqlx::query("UPDATE continuations SET position = $2 WHERE id = $1").bind(work.id).bind(position)
            );
        }
        None => {
            within!(tx, sqlx::query("DELETE FROM continuations WHERE id = $1").bind(work.id));
        }
    }
    tx.commit().await
}

/// A child is cancelled as its parent was.
async fn cancel_child(tx: &mut Tx, now: Micros, mut run: LockedRun) -> Result<Option<i32>> {
    if !run.state.is_terminal() && run.flags & RUN_CANCELLING == 0 {
        run.flags |= RUN_CANCELLING;
        append_transition(tx, now, run.id, Transition::CancelledWithParent).await?;
        stop_run(tx, now, &mut run, "what waited for this run was cancelled").await?;
    }
    Ok(None)
}

/// Makes the rows from `position` on, held; after the last the run is admitted, or queued behind its limit, or ended if it
/// was cancelled meanwhile.
async fn make_chunk(tx: &mut Tx, now: Micros, run: &LockedRun, position: i32) -> Result<Option<i32>> {
    let end = position + CHUNK as i32;
    let made = within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO task_runs (run_id, idx, item, state, rule, rank, flags, route, pool, max_failures, \
             max_lost, open, version, due_at) \
             SELECT r.id, vt.idx, -1, CASE WHEN vt.needs > 0 THEN {task.pending} ELSE {task.held} END, vt.rule, coalesce(vt.rank, \
             r.rank), vt.flags, vt.route, vt.pool, \
                vt.max_failures, vt.max_lost, vt.needs, vt.version, $4 + vt.idx \
             FROM runs r JOIN version_tasks vt ON vt.version = r.version AND vt.stage = {stage.main} AND vt.idx >= $2 \
             AND vt.idx < $3 WHERE r.id = $1")
        )
        .bind(run.id)
        .bind(position)
        .bind(end)
        .bind(now)
    );
    if made as usize == CHUNK {
        return Ok(Some(end));
    }
    let admitted = run.flags & RUN_ADMITTED != 0;
    let flags = run.flags & !(RUN_BEING_MADE | RUN_ADMITTED);
    within!(
        tx,
        sqlx::query(sql!(
            "UPDATE runs SET flags = $2, state = CASE WHEN $3 THEN {run.running} ELSE {run.pending} END, \
             started_at = CASE WHEN $5 THEN $4 ELSE started_at END WHERE id = $1"
        ))
        .bind(run.id)
        .bind(flags)
        .bind(admitted)
        .bind(now)
        // One that was cancelled meanwhile never began.
        .bind(admitted && flags & RUN_CANCELLING == 0)
    );
    if flags & RUN_CANCELLING != 0 {
        let state = if admitted { RunState::Running } else { RunState::Pending };
        let reason = stopped(tx, run.id).await?.message;
        stop_run(tx, now, &mut LockedRun { flags, state, ..run.clone() }, &reason).await?;
    } else if admitted {
        append_transition(tx, now, run.id, Transition::Admitted).await?;
        enqueue(tx, now, run.id, ADMIT).await?;
    } else if let Some(limit) = run.limit {
        hand_on(tx, now, &[], &[], &[limit]).await?;
    }
    Ok(None)
}

/// Lets held rows go, a chunk at a time. A run without any is over; one that was stopped or paused lets none go.
async fn admit_chunk(tx: &mut Tx, now: Micros, run: &LockedRun) -> Result<Option<i32>> {
    if run.state == RunState::Running && run.open == 0 {
        end_stage(tx, now, run.id).await?;
        return Ok(None);
    }
    if run.state != RunState::Running || run.is_stopped() {
        return Ok(None);
    }
    let last: Option<(i32, i32)> = within!(tx, |conn| {
        sqlx::query_as(
            sql!("SELECT idx, item FROM task_runs WHERE run_id = $1 AND state = {task.held} ORDER BY idx, item LIMIT 1 OFFSET $2"),
        )
        .bind(run.id)
        .bind(CHUNK as i64 - 1)
        .fetch_optional(conn)
        .await?
    });
    let (last_idx, last_item) = last.unwrap_or(BEYOND_EVERY_TASK);
    let moved: Vec<(i16, Option<i32>)> = within!(tx, |conn| {
        sqlx::query_as(sql!(concat!(
            "UPDATE task_runs SET state = ",
            startable!("TRUE", "flags", "pool"),
            ", \
             due_at = CASE WHEN failures > 0 AND due_at > $2 + idx THEN due_at ELSE $2 + idx END \
             WHERE run_id = $1 AND state = {task.held} AND (idx, item) <= ($3, $4) RETURNING state, pool"
        )))
        .bind(run.id)
        .bind(now)
        .bind(last_idx)
        .bind(last_item)
        .fetch_all(conn)
        .await?
    });
    let mut pools: Vec<i32> = moved.iter().filter(|row| row.0 == 5).filter_map(|row| row.1).collect();
    pools.sort_unstable();
    pools.dedup();
    hand_on(tx, now, &[], &[], &pools).await?;
    Ok(last.map(|_| 0))
}

/// Counts a chunk of the dependents of a task that ended earlier.
async fn fan_out_chunk(tx: &mut Tx, now: Micros, run: &LockedRun, work: &Continuation) -> Result<Option<i32>> {
    let dependents = dependents(tx, run.version, work.idx, work.position).await?;
    let full = dependents.len() == CHUNK;
    let counts =
        dependents.into_iter().map(|dependent| Count { run: run.id, dependent, counts: work.counts }).collect();
    settle(tx, now, Vec::new(), counts).await?;
    Ok(full.then_some(work.position + CHUNK as i32))
}

async fn dependents(tx: &mut Tx, version: i64, idx: i32, position: i32) -> Result<Vec<i32>> {
    match tx {
        Tx::Postgres(tx) => {
            let (slice,): (Vec<i32>,) = sqlx::query_as(
                "SELECT dependents[$3 + 1 : $3 + $4] FROM version_tasks WHERE version = $1 AND idx = $2",
            )
            .bind(version)
            .bind(idx)
            .bind(position)
            .bind(CHUNK as i32)
            .fetch_one(&mut **tx)
            .await?;
            Ok(slice)
        }
        Tx::Sqlite(tx) => {
            let rows: Vec<(i32,)> = sqlx::query_as(
                "SELECT e.value FROM version_tasks vt, json_each(vt.dependents) e WHERE vt.version = $1 AND vt.idx = $2 AND e.key >= $3 AND e.key < $3 + $4 ORDER BY e.key",
            )
            .bind(version)
            .bind(idx)
            .bind(position)
            .bind(CHUNK as i32)
            .fetch_all(tx.connection().await?)
            .await?;
            Ok(rows.into_iter().map(|row| row.0).collect())
        }
    }
}
