//! Decisions that do not start an attempt: a task run is parked until something happens, becomes a child run, or is
//! expanded into items. Each is one unit that requires the decision's token to be live.

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId, TaskKey};

use crate::db::{Store, Tx, within};
use crate::error::Result;
use crate::names::sql;
use crate::runs::create::{Created, NewRun, create_one};
use crate::runs::exchange::TaskToken;
use crate::runs::flags::{DEAD_LETTER, EXPANDED, HAS_CONDITION, HAS_DEPENDENTS, RUN_HAS_PARENT, startable};
use crate::runs::limits::hand_on;
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::locked::{LockedRun, lock_run};
use crate::runs::settle::settle;
use crate::runs::waits::WaitKind;

/// A row that waits for no instant is due then.
pub(crate) const NEVER: Micros = i64::MAX;

/// What a task run is parked for.
#[derive(Debug, Clone)]
pub struct Parking {
    pub kind: WaitKind,
    /// The event it waits for, with the namespace of its run.
    pub event: Option<(String, String)>,
    pub key: Option<String>,
    /// JSON for the node that concludes it.
    pub body: Option<String>,
    /// When it has waited long enough.
    pub due_at: Option<Micros>,
}

impl Parking {
    pub fn new(kind: WaitKind, due_at: Option<Micros>) -> Self {
        Self { kind, event: None, key: None, body: None, due_at }
    }
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parked {
    Waiting,
    /// Its run is paused: it is decided again when the run goes on.
    Held,
    /// Its run is being cancelled, and so it was.
    Stopped,
    /// The token is not live any more.
    Fenced,
    /// The child could not be made: its own concurrency limit refuses it.
    Refused,
}

#[boxed]
impl Store {
    /// Parks a task run that was being decided.
    pub async fn park(&self, now: Micros, token: TaskToken, parking: &Parking) -> Result<Parked> {
        let mut tx = self.begin().await?;
        let run = match hold(&mut tx, now, token).await? {
            LockedDecision::Open(run, _) => run,
            LockedDecision::Settled(outcome) => return finish(tx, outcome).await,
        };
        wait_for(&mut tx, now, token, parking, None).await?;
        progress(&mut tx, now, &run).await?;
        finish(tx, Parked::Waiting).await
    }

    /// Gives back a task run that this node took to decide and cannot: another node may.
    pub async fn leave_undecided(&self, now: Micros, token: TaskToken) -> Result<Parked> {
        let mut tx = self.begin().await?;
        if let LockedDecision::Settled(outcome) = hold(&mut tx, now, token).await? {
            return finish(tx, outcome).await;
        }
        within!(
            tx,
            sqlx::query(
                "UPDATE task_runs SET session = NULL, claim = NULL, due_at = $4 WHERE run_id = $1 AND idx = $2 AND item = $3"
            )
            .bind(token.key.run)
            .bind(token.key.index)
            .bind(token.key.item)
            .bind(now)
        );
        finish(tx, Parked::Waiting).await
    }

    /// Makes a child run and parks the task run until it ends, in one unit.
    pub async fn park_for_child(
        &self,
        now: Micros,
        token: TaskToken,
        child: &NewRun,
        due_at: Option<Micros>,
    ) -> Result<Parked> {
        let mut tx = self.begin().await?;
        let run = match hold(&mut tx, now, token).await? {
            LockedDecision::Open(run, _) => run,
            LockedDecision::Settled(outcome) => return finish(tx, outcome).await,
        };
        let mut child = child.clone();
        child.version.run_flags |= RUN_HAS_PARENT;
        wait_for(&mut tx, now, token, &Parking::new(WaitKind::Child, due_at), Some(child.id)).await?;
        if create_one(&mut tx, now, &child).await? == Created::Refused {
            // Nothing of this unit stays.
            return Ok(Parked::Refused);
        }
        progress(&mut tx, now, &run).await?;
        finish(tx, Parked::Waiting).await
    }

    /// Expands a task run into items; `max_parallel` of them may go on at once. The values are JSON.
    pub async fn expand(
        &self,
        now: Micros,
        token: TaskToken,
        values: &[String],
        max_parallel: Option<u32>,
        items_decide: bool,
    ) -> Result<Parked> {
        let mut tx = self.begin().await?;
        let (run, row) = match hold(&mut tx, now, token).await? {
            LockedDecision::Open(run, row) => (run, row),
            LockedDecision::Settled(outcome) => return finish(tx, outcome).await,
        };
        wait_for(&mut tx, now, token, &Parking::new(WaitKind::Items, None), None).await?;
        within!(
            tx,
            sqlx::query(
                "UPDATE task_runs SET flags = $4, open = $5, succeeded = 0, failed = 0, skipped = 0 \
                 WHERE run_id = $1 AND idx = $2 AND item = $3",
            )
            .bind(run.id)
            .bind(token.key.index)
            .bind(token.key.item)
            // The items carry the errors.
            .bind((row.flags | EXPANDED) & !DEAD_LETTER)
            .bind(values.len() as i32)
        );
        write_items(&mut tx, token, values).await?;
        let mut flags = row.flags & !(HAS_DEPENDENTS | HAS_CONDITION | crate::runs::flags::BIG_FAN_OUT);
        if items_decide {
            flags |= HAS_CONDITION;
        }
        let first = startable(true, flags, row.pool).code();
        within!(
            tx,
            sqlx::query(
                "INSERT INTO task_runs (run_id, idx, item, state, rule, rank, flags, route, pool, \
                 attempt, max_failures, max_lost, generation, open, version, due_at) \
                 SELECT t.run_id, t.idx, i.item, CASE WHEN i.item < $3 THEN $4 ELSE 0 END, t.rule, \
                 t.rank, $5, t.route, t.pool, \
                        coalesce((SELECT max(h.attempt) FROM history_superseded h WHERE h.run_id = \
                 t.run_id AND h.idx = t.idx AND h.item = i.item), 0), \
                        t.max_failures, t.max_lost, t.generation, 0, t.version, $6 + i.item \
                 FROM task_runs t JOIN items i ON i.run_id = t.run_id AND i.idx = t.idx WHERE t.run_id \
                 = $1 AND t.idx = $2 AND t.item = -1",
            )
            .bind(run.id)
            .bind(token.key.index)
            .bind(max_parallel.and_then(|max| i32::try_from(max).ok()).unwrap_or(i32::MAX))
            .bind(i32::from(first))
            .bind(flags)
            .bind(now)
        );
        within!(
            tx,
            sqlx::query("UPDATE runs SET open = open + $2, progress_at = $3 WHERE id = $1")
                .bind(run.id)
                .bind(values.len() as i32)
                .bind(now)
        );
        let pools: Vec<i32> = row.pool.into_iter().filter(|_| !items_decide).collect();
        hand_on(&mut tx, now, &[], &[], &pools).await?;
        finish(tx, Parked::Waiting).await
    }

    /// Nothing has happened after all: the task run waits on.
    pub async fn park_again(&self, token: TaskToken, due_at: Option<Micros>) -> Result<()> {
        let mut tx = self.begin().await?;
        lock_run(&mut tx, token.key.run).await?;
        within!(
            tx,
            sqlx::query(
                sql!("UPDATE task_runs SET state = {task.waiting}, session = NULL, claim = NULL, due_at = $6 \
                 WHERE run_id = $1 AND idx = $2 AND item = $3 AND state = {task.deciding} AND session = $4 AND attempt = $5"),
            )
            .bind(token.key.run)
            .bind(token.key.index)
            .bind(token.key.item)
            .bind(token.session)
            .bind(token.attempt)
            .bind(due_at.unwrap_or(NEVER))
        );
        tx.commit().await
    }

    /// What it waited for failed, and is tried again at `due_at`.
    pub async fn retry_parked(
        &self,
        now: Micros,
        token: TaskToken,
        due_at: Micros,
        failure: &Failure,
    ) -> Result<Parked> {
        let mut tx = self.begin().await?;
        let run = match hold(&mut tx, now, token).await? {
            LockedDecision::Open(run, _) => run,
            LockedDecision::Settled(outcome) => return finish(tx, outcome).await,
        };
        let key = token.key;
        within!(
            tx,
            sqlx::query(sql!(
                "UPDATE task_runs SET state = {task.retrying}, failures = failures + 1, session = NULL, claim = NULL, \
                 started_at = NULL, due_at = $4 \
                 WHERE run_id = $1 AND idx = $2 AND item = $3"
            ),)
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(due_at)
        );
        within!(
            tx,
            sqlx::query(
                "INSERT INTO attempts (run_id, idx, item, attempt, outcome, seq, started_at, \
                 finished_at, error_kind, error) \
                 SELECT $1, $2, $3, $4, 0, $5, w.created_at, $6, $7, $8 FROM waits w WHERE w.run_id = \
                 $1 AND w.idx = $2 AND w.item = $3",
            )
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(token.attempt)
            .bind(run.seq + 1)
            .bind(now)
            .bind(&failure.kind)
            .bind(&failure.message)
        );
        forget_wait(&mut tx, key).await?;
        within!(
            tx,
            sqlx::query("UPDATE runs SET seq = seq + 1, progress_at = $2 WHERE id = $1").bind(run.id).bind(now)
        );
        finish(tx, Parked::Waiting).await
    }
}

/// What locking a decision found.
enum LockedDecision {
    /// The run and the row are locked, and the row is still to be decided.
    Open(LockedRun, Box<LiveRow>),
    /// There is nothing to decide any more.
    Settled(Parked),
}

async fn finish(tx: Tx, outcome: Parked) -> Result<Parked> {
    tx.commit().await?;
    Ok(outcome)
}

/// Locks the run and the row that is being decided. A run that may not go on settles the matter.
async fn hold(tx: &mut Tx, now: Micros, token: TaskToken) -> Result<LockedDecision> {
    let key = token.key;
    let run = lock_run(tx, key.run).await?;
    let sql = crate::db::locking!(
        tx,
        concat!(
            "SELECT ",
            live_columns!(),
            " FROM task_runs WHERE run_id = $1 AND idx = $2 AND item = $3 AND state = {task.deciding} AND session = $4 AND attempt = $5"
        ),
        "FOR UPDATE"
    );
    let row: Option<LiveRow> = within!(tx, |conn| sqlx::query_as(sql)
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(token.session)
        .bind(token.attempt)
        .fetch_optional(conn)
        .await?);
    let Some(row) = row else { return Ok(LockedDecision::Settled(Parked::Fenced)) };
    if run.is_stopped() {
        row.delete(tx).await?;
        let mut ended_row = row.ended(now, TaskState::Cancelled, None);
        ended_row.session = None;
        ended_row.flags &= !HAS_DEPENDENTS;
        settle(tx, now, vec![ended_row], Vec::new()).await?;
        return Ok(LockedDecision::Settled(Parked::Stopped));
    }
    if run.state != RunState::Running {
        within!(
            tx,
            sqlx::query(sql!(
                "UPDATE task_runs SET state = {task.held}, session = NULL, claim = NULL WHERE run_id = $1 \
                 AND idx = $2 AND item = $3"
            ))
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
        );
        return Ok(LockedDecision::Settled(Parked::Held));
    }
    Ok(LockedDecision::Open(run, Box::new(row)))
}

/// What was waited for is not waited for any more.
async fn forget_wait(tx: &mut Tx, key: TaskKey) -> Result<()> {
    within!(
        tx,
        sqlx::query("DELETE FROM waits WHERE run_id = $1 AND idx = $2 AND item = $3")
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
    );
    Ok(())
}

/// Makes the row wait under its next attempt, and says for what.
async fn wait_for(tx: &mut Tx, now: Micros, token: TaskToken, parking: &Parking, child: Option<RunId>) -> Result<()> {
    let key = token.key;
    within!(
        tx,
        sqlx::query(sql!(
            "UPDATE task_runs SET state = {task.waiting}, attempt = attempt + 1, session = NULL, claim = NULL, \
             started_at = $5, due_at = $4 \
             WHERE run_id = $1 AND idx = $2 AND item = $3"
        ),)
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(parking.due_at.unwrap_or(NEVER))
        .bind(now)
    );
    forget_wait(tx, key).await?;
    within!(
        tx,
        sqlx::query(
            "INSERT INTO waits (run_id, idx, item, kind, attempt, namespace, event, key, child, body, \
             due_at, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(parking.kind.code())
        .bind(token.attempt + 1)
        .bind(parking.event.as_ref().map(|event| event.0.as_str()))
        .bind(parking.event.as_ref().map(|event| event.1.as_str()))
        .bind(parking.key.as_deref())
        .bind(child)
        .bind(parking.body.as_deref())
        .bind(parking.due_at)
        .bind(now)
    );
    Ok(())
}

async fn progress(tx: &mut Tx, now: Micros, run: &LockedRun) -> Result<()> {
    within!(tx, sqlx::query("UPDATE runs SET progress_at = $2 WHERE id = $1").bind(run.id).bind(now));
    Ok(())
}

/// Writes the values of an expansion; those of an earlier one are gone.
async fn write_items(tx: &mut Tx, token: TaskToken, values: &[String]) -> Result<()> {
    let (run, index) = (token.key.run, token.key.index);
    within!(tx, sqlx::query("DELETE FROM items WHERE run_id = $1 AND idx = $2").bind(run).bind(index));
    let numbers: Vec<i32> = (0..values.len() as i32).collect();
    match tx {
        Tx::Postgres(tx) => {
            sqlx::query("INSERT INTO items (run_id, idx, item, value) SELECT $1, $2, u.i, u.v FROM unnest($3::integer[], $4::text[]) AS u(i, v)")
                .bind(run)
                .bind(index)
                .bind(numbers)
                .bind(values)
                .execute(&mut **tx)
                .await?;
        }
        Tx::Sqlite(tx) => {
            let all = serde_json::Value::from(values);
            sqlx::query("INSERT INTO items (run_id, idx, item, value) SELECT $1, $2, key, value FROM json_each($3)")
                .bind(run)
                .bind(index)
                .bind(all.to_string())
                .execute(tx.connection().await?)
                .await?;
        }
    }
    Ok(())
}
