//! Worker sessions: beats, the mark of death, and the return of the claims of dead sessions.

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::cluster::terms::{self, Term};
use crate::db::{Store, Tx, locking, read, within, write};
use crate::error::Result;
use crate::names::sql;
use crate::runs::flags::{HAS_DEPENDENTS, NOT_RETRYABLE, startable};
use crate::runs::limits::hand_on;
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::locked::{LockedRun, lock_run};
use crate::runs::operate::stopped;
use crate::runs::settle::settle;

/// How many rows of a dead session one transaction returns.
const ROWS_PER_REAP: i64 = 500;

/// Run, index of the task, item.
type RowKey = (RunId, i32, i32);

#[derive(Debug, Clone)]
pub struct NewSession {
    pub node: Uuid,
    pub worker: String,
    pub hostname: String,
    pub queues: String,
    pub labels: String,
    /// Processes.
    pub slots: i32,
    pub function_slots: i32,
    pub remote: bool,
    /// Of the program.
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct SessionRow {
    pub id: i64,
    pub node: Uuid,
    pub worker: String,
    pub hostname: String,
    pub queues: String,
    pub labels: String,
    pub slots: i32,
    pub function_slots: i32,
    pub remote_slots: i32,
    pub remote: bool,
    pub version: String,
    pub draining: bool,
    pub beat: i64,
    pub dead: bool,
    pub created_at: Micros,
    pub beat_at: Micros,
}

impl SessionRow {
    /// Whether it executes anything: a node without the role of a worker has a session too.
    pub fn executes(&self) -> bool {
        self.slots > 0 || self.function_slots > 0 || self.remote_slots > 0
    }
}

#[boxed]
impl Store {
    pub async fn open_session(&self, now: Micros, session: &NewSession) -> Result<i64> {
        let (id,): (i64,) = write!(self, |conn| {
            sqlx::query_as(
            "INSERT INTO sessions (node, worker, hostname, queues, labels, slots, remote, created_at, beat_at, function_slots, version) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10) RETURNING id"
        )
        .bind(session.node)
        .bind(&session.worker)
        .bind(&session.hostname)
        .bind(&session.queues)
        .bind(&session.labels)
        .bind(session.slots)
        .bind(session.remote)
        .bind(now)
        .bind(session.function_slots)
        .bind(&session.version)
        .fetch_one(conn)
        .await?
        });
        Ok(id)
    }

    /// Renews the sessions that a node opened for itself; returns those that are still alive.
    pub async fn renew_sessions(&self, now: Micros, node: Uuid) -> Result<Vec<i64>> {
        Ok(self.renew(now, node, &[]).await?.into_iter().map(|row| row.0).collect())
    }

    /// Says that a session takes no more work.
    pub async fn drain_session(&self, id: i64) -> Result<()> {
        write!(self, sqlx::query("UPDATE sessions SET draining = TRUE WHERE id = $1").bind(id));
        Ok(())
    }

    /// Ends a session whose work was handed back; whatever it still holds is returned.
    pub async fn end_session(&self, now: Micros, id: i64) -> Result<u64> {
        self.reap(now, id, None, None).await
    }

    pub async fn live_sessions(&self) -> Result<Vec<SessionRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT id, node, worker, hostname, queues, labels, slots, function_slots, remote_slots, remote, version, draining, beat, dead, created_at, beat_at FROM sessions WHERE NOT dead ORDER BY id"
        )
        .fetch_all(conn)
        .await?
        }))
    }

    /// Marks a session dead if its beat is still the one that was `seen` standing still, and returns its rows.
    /// The mark waits for exchanges that hold the session; the rows are read in a later statement, so that none claimed
    /// meanwhile is orphaned.
    pub async fn reap_session(&self, now: Micros, id: i64, seen: i64, term: &Term) -> Result<u64> {
        self.reap(now, id, Some(seen), Some(term)).await
    }

    async fn reap(&self, now: Micros, id: i64, seen: Option<i64>, term: Option<&Term>) -> Result<u64> {
        let mut tx = self.begin().await?;
        if let Some(term) = term
            && !terms::hold(&mut tx, term).await?
        {
            return Ok(0);
        }
        // Stronger than the update itself would lock: exchanges hold the session with a key share, which this waits for.
        let sql = locking!(tx, "SELECT beat FROM sessions WHERE id = $1 AND NOT dead", "FOR UPDATE");
        let found: Option<(i64,)> = within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        if found.is_none_or(|(beat,)| seen.is_some_and(|seen| seen != beat)) {
            return Ok(0);
        }
        within!(tx, sqlx::query("UPDATE sessions SET dead = TRUE, ended_at = $2 WHERE id = $1").bind(id).bind(now));
        let mut returned = return_rows(&mut tx, now, id).await?;
        tx.commit().await?;
        while returned > 0 && returned % ROWS_PER_REAP as u64 == 0 {
            let mut tx = self.begin().await?;
            if let Some(term) = term
                && !terms::hold(&mut tx, term).await?
            {
                // The sweep of the current leader returns the rest.
                break;
            }
            let more = return_rows(&mut tx, now, id).await?;
            tx.commit().await?;
            if more == 0 {
                break;
            }
            returned += more;
        }
        Ok(returned)
    }

    /// Returns every claimed row whose session is not live: what a crash between mark and return left behind. A row that cannot
    /// be returned keeps no other from it.
    pub async fn sweep_claims(&self, now: Micros, term: &Term) -> Result<u64> {
        let dead: Vec<(i64,)> = read!(self, |conn| sqlx::query_as(
            "SELECT DISTINCT t.session FROM task_runs t LEFT JOIN sessions s ON s.id = t.session AND NOT s.dead \
             WHERE t.session IS NOT NULL AND s.id IS NULL"
        )
        .fetch_all(conn)
        .await?);
        let mut returned = 0;
        for (session,) in dead {
            loop {
                match self.sweep_rows(now, session, None, term).await {
                    Ok(None) => return Ok(returned),
                    Ok(Some(more)) => {
                        returned += more;
                        if more < ROWS_PER_REAP as u64 {
                            break;
                        }
                    }
                    Err(error) if error.is_transient() => return Err(error),
                    Err(_) => {
                        returned += self.sweep_one_by_one(now, session, term).await?;
                        break;
                    }
                }
            }
        }
        Ok(returned)
    }

    /// Returns rows of a dead session, or only the one with this key; `None` if the term is over.
    async fn sweep_rows(&self, now: Micros, session: i64, only: Option<RowKey>, term: &Term) -> Result<Option<u64>> {
        let mut tx = self.begin().await?;
        if !terms::hold(&mut tx, term).await? {
            return Ok(None);
        }
        let returned = match only {
            None => return_rows(&mut tx, now, session).await?,
            Some(key) => return_row(&mut tx, now, session, key).await?,
        };
        tx.commit().await?;
        Ok(Some(returned))
    }

    /// Returns the rows of a dead session, some of which fail, each in a transaction of its own.
    async fn sweep_one_by_one(&self, now: Micros, session: i64, term: &Term) -> Result<u64> {
        let keys: Vec<RowKey> = read!(self, |conn| sqlx::query_as(
            "SELECT run_id, idx, item FROM task_runs WHERE session = $1 ORDER BY run_id, idx, item"
        )
        .bind(session)
        .fetch_all(conn)
        .await?);
        let mut returned = 0;
        for key in keys {
            match self.sweep_rows(now, session, Some(key), term).await {
                Ok(None) => break,
                Ok(Some(more)) => returned += more,
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    let (run, index, item) = key;
                    tracing::warn!(
                        %error, session, %run, index, item,
                        "a claim of a dead session cannot be returned; it is tried again, others go on"
                    );
                }
            }
        }
        Ok(returned)
    }

    /// SQLite only, while holding the server's lock file: every session of an earlier server is over.
    pub async fn bury_local_sessions(&self, now: Micros, own_node: Uuid) -> Result<u64> {
        let old: Vec<(i64,)> =
            read!(self, |conn| sqlx::query_as("SELECT id FROM sessions WHERE NOT dead AND NOT remote AND node <> $1")
                .bind(own_node)
                .fetch_all(conn)
                .await?);
        let mut returned = 0;
        for (session,) in old {
            returned += self.end_session(now, session).await?;
        }
        Ok(returned)
    }
}

/// Returns up to [`ROWS_PER_REAP`] rows of a dead session. Own rows are locked first, their runs after.
async fn return_rows(tx: &mut Tx, now: Micros, session: i64) -> Result<u64> {
    let sql = locking!(
        tx,
        concat!("SELECT ", live_columns!(), " FROM task_runs WHERE session = $1 ORDER BY run_id, idx, item LIMIT $2"),
        "FOR UPDATE"
    );
    let rows: Vec<LiveRow> =
        within!(tx, |conn| sqlx::query_as(sql).bind(session).bind(ROWS_PER_REAP).fetch_all(conn).await?);
    return_these(tx, now, &rows).await?;
    within!(tx, sqlx::query("DELETE FROM cancel_requests WHERE session = $1").bind(session));
    Ok(rows.len() as u64)
}

/// Returns one row of a dead session, unless that has returned already.
async fn return_row(tx: &mut Tx, now: Micros, session: i64, (run, idx, item): RowKey) -> Result<u64> {
    let sql = locking!(
        tx,
        concat!(
            "SELECT ",
            live_columns!(),
            " FROM task_runs WHERE run_id = $1 AND idx = $2 AND item = $3 AND session = $4"
        ),
        "FOR UPDATE"
    );
    let rows: Vec<LiveRow> =
        within!(tx, |conn| sqlx::query_as(sql).bind(run).bind(idx).bind(item).bind(session).fetch_all(conn).await?);
    return_these(tx, now, &rows).await?;
    Ok(rows.len() as u64)
}

/// Returns rows that are locked, in order of their runs.
async fn return_these(tx: &mut Tx, now: Micros, rows: &[LiveRow]) -> Result<()> {
    let mut ended_rows = Vec::new();
    let mut released = Vec::new();
    let mut run: Option<LockedRun> = None;
    for row in rows {
        if run.as_ref().is_none_or(|run| run.id != row.run_id) {
            run = Some(lock_run(tx, row.run_id).await?);
        }
        let Some(run) = run.as_mut() else { continue };
        let why = if run.is_stopped() { Some(stopped(tx, row.run_id).await?) } else { None };
        match fate(row, why) {
            LostRowOutcome::Undecided => {
                // One of a run that was paused meanwhile is decided when that goes on.
                let state = if run.state == RunState::Running { TaskState::Deciding } else { TaskState::Held };
                within!(
                    tx,
                    sqlx::query(
                        "UPDATE task_runs SET state = $5, session = NULL, claim = NULL, due_at = $4 WHERE run_id = \
                         $1 AND idx = $2 AND item = $3"
                    )
                    .bind(row.run_id)
                    .bind(row.idx)
                    .bind(row.item)
                    .bind(now)
                    .bind(state.code())
                );
            }
            LostRowOutcome::Retry => {
                give_back(tx, now, row, run).await?;
                released.extend(row.held_pool());
            }
            LostRowOutcome::Ends(state, failure) => {
                row.delete(tx).await?;
                let mut ended = row.ended(now, state, failure);
                ended.lost += 1;
                if state == TaskState::Cancelled {
                    // Everything that depended on it was cancelled with the run.
                    ended.flags &= !HAS_DEPENDENTS;
                }
                ended_rows.push(ended);
            }
        }
    }
    if !ended_rows.is_empty() {
        settle(tx, now, ended_rows, Vec::new()).await?;
    }
    hand_on(tx, now, &released, &[], &[]).await
}

enum LostRowOutcome {
    Undecided,
    Retry,
    Ends(TaskState, Option<Failure>),
}

/// What becomes of a row whose worker was lost. `stopped` says why its run was stopped, if it was.
fn fate(row: &LiveRow, stopped: Option<Failure>) -> LostRowOutcome {
    if row.state == TaskState::Deciding.code() {
        return LostRowOutcome::Undecided;
    }
    if stopped.is_some() {
        return LostRowOutcome::Ends(TaskState::Cancelled, stopped);
    }
    if row.flags & NOT_RETRYABLE != 0 {
        let failure = failure("worker_unavailable", "the worker was lost and the task is not retryable");
        return LostRowOutcome::Ends(TaskState::Failed, Some(failure));
    }
    if row.lost + 1 > row.max_lost {
        let failure = failure("poison_pill", &format!("{} workers were lost while they executed it", row.lost + 1));
        return LostRowOutcome::Ends(TaskState::Failed, Some(failure));
    }
    LostRowOutcome::Retry
}

fn failure(kind: &str, message: &str) -> Failure {
    Failure { kind: kind.to_owned(), message: message.to_owned(), ..Failure::default() }
}

/// A lost attempt: recorded, and the row is claimable again. It costs nothing of the retry budget.
async fn give_back(tx: &mut Tx, now: Micros, row: &LiveRow, run: &mut LockedRun) -> Result<()> {
    run.seq += 1;
    within!(
        tx,
        sqlx::query("UPDATE runs SET seq = $2, progress_at = $3 WHERE id = $1").bind(run.id).bind(run.seq).bind(now)
    );
    within!(
        tx,
        sqlx::query(sql!(
            "INSERT INTO attempts (run_id, idx, item, attempt, outcome, session, seq, started_at, \
             finished_at, error_kind, error) \
             VALUES ($1, $2, $3, $4, {attempt.lost}, $5, $6, $7, $8, 'lost', 'the worker was lost')"
        ))
        .bind(row.run_id)
        .bind(row.idx)
        .bind(row.item)
        .bind(row.attempt)
        .bind(row.session)
        .bind(run.seq)
        .bind(row.started_at)
        .bind(now)
    );
    let state = startable(run.state == RunState::Running, 0, row.pool);
    within!(
        tx,
        sqlx::query(
            "UPDATE task_runs SET state = $4, lost = lost + 1, due_at = $5, session = NULL, claim = NULL, \
             started_at = NULL \
             WHERE run_id = $1 AND idx = $2 AND item = $3"
        )
        .bind(row.run_id)
        .bind(row.idx)
        .bind(row.item)
        .bind(state.code())
        .bind(now)
    );
    Ok(())
}
