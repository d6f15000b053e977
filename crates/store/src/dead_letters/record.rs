//! Changing the record: closing an entry, editing it, making one by hand, forgetting old ones.

use std::collections::HashSet;

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::{Reason, Resolution};
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, RunId, TaskKey};
use uuid::Uuid;

use super::new_id;
use crate::db::{Store, Tx, read, within, write};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::over_rows::{fetch_over_rows, over_rows};
use crate::runs::operate::Operator;

/// An entry that a person or a duty makes. JSON as text.
#[derive(Debug, Clone)]
pub struct NewLetter {
    pub id: Uuid,
    pub run: RunId,
    pub task: Option<TaskKey>,
    pub version: i64,
    pub reason: Reason,
    pub original_state: String,
    pub error_type: Option<String>,
    pub error_message: Option<String>,
    pub total_attempts: i32,
    pub last_attempt_at: Option<Micros>,
    pub metadata: Option<String>,
    pub snapshot: Option<String>,
}

/// What is edited of an entry; `None` leaves it as it is.
#[derive(Debug, Clone, Default)]
pub struct LetterPatch {
    pub status: Option<Resolution>,
    pub notes: Option<String>,
    pub resolved_by: Option<String>,
    pub acted_by: String,
    /// JSON.
    pub metadata: Option<String>,
}

#[boxed]
impl Store {
    /// Makes an entry. `None` if one of the same task run, or of the same run, is pending already.
    pub async fn add_letter(&self, now: Micros, letter: &NewLetter) -> Result<Option<Uuid>> {
        let mut tx = self.begin().await?;
        let made = insert(&mut tx, now, letter).await?;
        tx.commit().await?;
        Ok(made.then_some(letter.id))
    }

    /// Closes a pending entry without touching its run; false if it is closed already.
    pub async fn close_letter(&self, now: Micros, id: Uuid, status: Resolution, operator: &Operator) -> Result<bool> {
        let mut tx = self.begin().await?;
        let closed = close_pending(&mut tx, now, id, status, operator).await?;
        tx.commit().await?;
        Ok(closed)
    }

    /// Edits the record of an entry, closed or not. Never touches its run.
    pub async fn patch_letter(&self, now: Micros, id: Uuid, patch: &LetterPatch) -> Result<()> {
        let closes = patch.status.filter(|status| status.is_closed());
        let changed = write!(
            self,
            sqlx::query(
                "UPDATE dead_letters SET status = coalesce($2, status), notes = coalesce($3, notes), \
                 resolved_by = CASE WHEN $8 THEN NULL WHEN CAST($4 AS text) IS NOT NULL THEN $4 \
                    WHEN $9 AND status = $10 THEN $5 ELSE resolved_by END, \
                 acted_by = CASE WHEN CAST($2 AS smallint) IS NOT NULL THEN $5 ELSE acted_by END, \
                 metadata = coalesce($6, metadata), \
                 resolved_at = CASE WHEN $8 THEN NULL WHEN $9 AND status = $10 THEN $7 ELSE resolved_at END, updated_at = $7 \
                 WHERE id = $1"
            )
            .bind(id)
            .bind(patch.status.map(Resolution::code))
            .bind(&patch.notes)
            .bind(&patch.resolved_by)
            .bind(&patch.acted_by)
            .bind(&patch.metadata)
            .bind(now)
            .bind(patch.status == Some(Resolution::Pending))
            .bind(closes.is_some())
            .bind(Resolution::Pending.code())
        );
        match changed {
            0 => Err(Error::not_found(format!("dead letter {id}"))),
            _ => Ok(()),
        }
    }

    /// Forgets entries that were closed before `before`.
    pub async fn forget_letters(&self, before: Micros) -> Result<u64> {
        Ok(write!(
            self,
            sqlx::query(sql!("DELETE FROM dead_letters WHERE status <> {letter.pending} AND resolved_at < $1"))
                .bind(before)
        ))
    }

    /// Routes whose tasks have been ready since before then: is there a worker to execute them?
    pub async fn routes_ready_since(&self, before: Micros) -> Result<Vec<i32>> {
        let rows: Vec<(i32,)> = read!(self, |conn| sqlx::query_as(sql!(
            "SELECT DISTINCT route FROM task_runs WHERE state = {task.ready} AND due_at < $1"
        ))
        .bind(before)
        .fetch_all(conn)
        .await?);
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Makes an entry for each task that has been ready on this route since before then, at most `limit`; how many were
    /// made. The tasks stay ready.
    pub async fn report_unserved(&self, now: Micros, route: i32, before: Micros, limit: i64) -> Result<u64> {
        let mut tx = self.begin().await?;
        let rows: Vec<(RunId, i32, i32, i64, i32, Micros)> = within!(tx, |conn| {
            sqlx::query_as(sql!(
            "SELECT t.run_id, t.idx, t.item, t.version, t.attempt, t.due_at FROM task_runs t \
             WHERE t.state = {task.ready} AND t.route = $1 AND t.due_at < $2 AND NOT EXISTS (SELECT 1 FROM dead_letters d \
             WHERE d.run_id = t.run_id AND d.idx = t.idx AND d.item = t.item AND d.status = {letter.pending}) LIMIT $3"
        ))
        .bind(route)
        .bind(before)
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        let mut made = 0;
        for (run, index, item, version, attempts, due_at) in rows {
            let minutes = (now - due_at) / 60_000_000;
            let letter = NewLetter {
                id: new_id(now),
                run,
                task: Some(TaskKey { run, index, item }),
                version,
                reason: Reason::WorkerUnavailable,
                original_state: TaskState::Ready.word().to_owned(),
                error_type: Some(Reason::WorkerUnavailable.word().to_owned()),
                error_message: Some(format!(
                    "ready for {minutes} minutes, and no live worker serves its queue and labels"
                )),
                total_attempts: attempts,
                last_attempt_at: None,
                metadata: None,
                snapshot: None,
            };
            made += u64::from(insert(&mut tx, now, &letter).await?);
        }
        tx.commit().await?;
        Ok(made)
    }

    /// Closes entries of tasks that no worker was there for and that have been claimed, or have ended, since.
    pub async fn close_served(&self, now: Micros) -> Result<u64> {
        Ok(write!(
            self,
            sqlx::query(sql!(
                "UPDATE dead_letters SET status = $1, resolved_by = 'system', resolved_at = $2, updated_at = $2, \
                 notes = 'a worker took it' WHERE status = {letter.pending} AND reason = $3 AND original_state = $4 AND NOT EXISTS ( \
                 SELECT 1 FROM task_runs t WHERE t.run_id = dead_letters.run_id AND t.idx = dead_letters.idx \
                 AND t.item = dead_letters.item AND t.state = $5)"
            ))
            .bind(Resolution::Resolved.code())
            .bind(now)
            .bind(Reason::WorkerUnavailable.code())
            .bind(TaskState::Ready.word())
            .bind(TaskState::Ready.code())
        ))
    }
}

/// Closes a pending entry; false if it is closed already.
pub(crate) async fn close_pending(
    tx: &mut Tx,
    now: Micros,
    id: Uuid,
    status: Resolution,
    operator: &Operator,
) -> Result<bool> {
    let changed = within!(
        tx,
        sqlx::query(
            "UPDATE dead_letters SET status = $2, resolved_by = $3, acted_by = $4, resolved_at = $5, updated_at = $5, \
             notes = coalesce($6, notes), metadata = coalesce($7, metadata) WHERE id = $1 AND status = $8"
        )
        .bind(id)
        .bind(status.code())
        .bind(&operator.by)
        .bind(&operator.token)
        .bind(now)
        .bind(&operator.reason)
        .bind(&operator.metadata)
        .bind(Resolution::Pending.code())
    );
    Ok(changed == 1)
}

/// Refuses unless this entry is pending. The caller holds the lock of its run, under which its actions close it.
pub(crate) async fn require_pending(tx: &mut Tx, id: Uuid) -> Result<()> {
    let found: Option<(i16,)> = within!(tx, |conn| sqlx::query_as("SELECT status FROM dead_letters WHERE id = $1")
        .bind(id)
        .fetch_optional(conn)
        .await?);
    match found {
        Some((status,)) if status == Resolution::Pending.code() => Ok(()),
        _ => Err(Error::Conflict(format!("dead letter {id} is closed already"))),
    }
}

/// Which of these entries are pending.
pub(crate) async fn pending_of(tx: &mut Tx, ids: &[Uuid]) -> Result<HashSet<Uuid>> {
    let rows: Vec<(Uuid,)> = fetch_over_rows!(tx, "id", ids, |values, id| _ = values.push_bind(*id), |query| _ = query
        .push(sql!("SELECT d.id FROM k CROSS JOIN dead_letters d WHERE d.id = k.id AND d.status = {letter.pending}")));
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// What closing an entry writes, before the condition.
macro_rules! closing {
    ($query:ident, $now:expr, $status:expr, $operator:expr) => {
        $query.push("UPDATE dead_letters SET status = ").push_bind($status.code());
        $query.push(", resolved_by = ").push_bind($operator.by.clone());
        $query.push(", acted_by = ").push_bind($operator.token.clone());
        $query.push(", resolved_at = ").push_bind($now).push(", updated_at = ").push_bind($now);
        $query.push(", notes = coalesce(").push_bind($operator.reason.clone()).push(", notes)");
        $query.push(", metadata = coalesce(").push_bind($operator.metadata.clone()).push(", metadata)");
    };
}

/// False if a pending one is in the way.
pub(crate) async fn insert(tx: &mut Tx, now: Micros, letter: &NewLetter) -> Result<bool> {
    let made = within!(
        tx,
        sqlx::query(
            "INSERT INTO dead_letters (id, run_id, idx, item, version, reason, original_state, error_type, error_message, \
             total_attempts, last_attempt_at, metadata, task_snapshot, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14) ON CONFLICT DO NOTHING"
        )
        .bind(letter.id)
        .bind(letter.run)
        .bind(letter.task.map(|task| task.index))
        .bind(letter.task.map(|task| task.item))
        .bind(letter.version)
        .bind(letter.reason.code())
        .bind(&letter.original_state)
        .bind(&letter.error_type)
        .bind(&letter.error_message)
        .bind(letter.total_attempts)
        .bind(letter.last_attempt_at)
        .bind(&letter.metadata)
        .bind(&letter.snapshot)
        .bind(now)
    );
    Ok(made == 1)
}

/// Makes many entries; the ids of those that no pending one is in the way of.
pub(crate) async fn insert_many(tx: &mut Tx, now: Micros, letters: &[&NewLetter]) -> Result<HashSet<Uuid>> {
    let made: Vec<(Uuid,)> = fetch_over_rows!(
        tx,
        "id, run_id, idx, item, version, reason, original_state, error_type, error_message, total_attempts, last_attempt_at, \
         metadata, task_snapshot",
        letters,
        |values, letter| {
            values.push_bind(letter.id).push_bind(letter.run).push_bind(letter.task.map(|task| task.index));
            values.push_bind(letter.task.map(|task| task.item)).push_bind(letter.version);
            values.push_bind(letter.reason.code()).push_bind(letter.original_state.clone());
            values.push_bind(letter.error_type.clone()).push_bind(letter.error_message.clone());
            values.push_bind(letter.total_attempts).push_bind(letter.last_attempt_at);
            values.push_bind(letter.metadata.clone()).push_bind(letter.snapshot.clone());
        },
        |query| {
            query.push(
                "INSERT INTO dead_letters (id, run_id, idx, item, version, reason, original_state, error_type, error_message, \
                 total_attempts, last_attempt_at, metadata, task_snapshot, created_at, updated_at) \
                 SELECT k.id, k.run_id, k.idx, k.item, k.version, k.reason, k.original_state, k.error_type, k.error_message, \
                 k.total_attempts, k.last_attempt_at, k.metadata, k.task_snapshot, ",
            );
            query
                .push_bind(now)
                .push(", ")
                .push_bind(now)
                .push(" FROM k WHERE true ON CONFLICT DO NOTHING RETURNING id");
        }
    );
    Ok(made.into_iter().map(|row| row.0).collect())
}

/// Closes the pending entries of a task, its items included unless one is named, or (`None`) of the run as a whole.
pub(crate) async fn close_matching(
    tx: &mut Tx,
    now: Micros,
    run: RunId,
    index: Option<i32>,
    item: Option<i32>,
    status: Resolution,
    operator: &Operator,
) -> Result<u64> {
    Ok(within!(
        tx,
        sqlx::query(
            "UPDATE dead_letters SET status = $4, resolved_by = $2, acted_by = $7, resolved_at = $3, updated_at = $3, \
             notes = coalesce($6, notes), metadata = coalesce($8, metadata) \
             WHERE run_id = $1 AND status = $9 AND (idx = $5 OR (idx IS NULL AND CAST($5 AS integer) IS NULL)) \
             AND (CAST($10 AS integer) IS NULL OR item = $10)",
        )
        .bind(run)
        .bind(&operator.by)
        .bind(now)
        .bind(status.code())
        .bind(index)
        .bind(&operator.reason)
        .bind(&operator.token)
        .bind(&operator.metadata)
        .bind(Resolution::Pending.code())
        .bind(item)
    ))
}

/// Closes the pending entry of a run that was given up as stale and goes on.
pub(crate) async fn close_stale(
    tx: &mut Tx,
    now: Micros,
    run: RunId,
    status: Resolution,
    operator: &Operator,
) -> Result<u64> {
    Ok(within!(
        tx,
        sqlx::query(
            "UPDATE dead_letters SET status = $4, resolved_by = $2, acted_by = $5, resolved_at = $3, updated_at = $3, \
             notes = coalesce($6, notes) WHERE run_id = $1 AND idx IS NULL AND status = $7 AND reason = $8",
        )
        .bind(run)
        .bind(&operator.by)
        .bind(now)
        .bind(status.code())
        .bind(&operator.token)
        .bind(&operator.reason)
        .bind(Resolution::Pending.code())
        .bind(Reason::StalenessTimeout.code())
    ))
}

/// Closes the pending entries of whole runs: of each every one, or (`false`) only that of a run that was given up as stale.
pub(crate) async fn close_of_runs(
    tx: &mut Tx,
    now: Micros,
    runs: &[(RunId, bool)],
    status: Resolution,
    operator: &Operator,
) -> Result<u64> {
    Ok(over_rows!(
        tx,
        "run_id, every_reason",
        runs,
        |values, run| _ = values.push_bind(run.0).push_bind(run.1),
        |query| {
            closing!(query, now, status, operator);
            query.push(sql!(
                " FROM k WHERE dead_letters.run_id = k.run_id AND idx IS NULL AND status = {letter.pending} \
                 AND (k.every_reason OR reason = {letter_reason.staleness_timeout}) \
                 AND dead_letters.run_id IN (SELECT k.run_id FROM k)"
            ));
        }
    ))
}

/// Closes the pending entries of tasks, their items included.
pub(crate) async fn close_of_tasks(
    tx: &mut Tx,
    now: Micros,
    tasks: &[(RunId, i32)],
    status: Resolution,
    operator: &Operator,
) -> Result<u64> {
    Ok(over_rows!(tx, "run_id, idx", tasks, |values, task| _ = values.push_bind(task.0).push_bind(task.1), |query| {
        closing!(query, now, status, operator);
        query.push(sql!(
            " WHERE status = {letter.pending} AND idx IS NOT NULL AND (run_id, idx) IN (SELECT k.run_id, k.idx FROM k)"
        ));
    }))
}
