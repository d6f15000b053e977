//! What an entry is completed with right after it was written: names, configuration, context, snapshot, fingerprint.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId, TaskKey};
use uuid::Uuid;

use crate::db::{Store, read};
use crate::error::{Error, Result};
use crate::events::notifications::{self, NewNotification};
use crate::over_rows::{fetch_over_rows, read_over_rows};

/// How many chunks of a log are looked at for its end; each holds up to a few hundred lines.
const CHUNKS: i64 = 4;

/// An entry that is to be completed, with what its run was given.
#[derive(Debug, Clone)]
pub struct IncompleteEntry {
    pub id: Uuid,
    pub run: RunId,
    pub task: Option<TaskKey>,
    pub version: i64,
    pub reason: i16,
    pub original_state: String,
    pub error_type: Option<String>,
    pub error_message: Option<String>,
    pub stack_trace: Option<String>,
    pub total_attempts: i32,
    pub last_attempt_at: Option<Micros>,
    pub created_at: Micros,
    /// Of its run, if that is there: inputs, trigger and correlation id.
    pub inputs: Option<String>,
    pub trigger: Option<String>,
    pub correlation_id: Option<String>,
    pub run_created_at: Option<Micros>,
    pub run_state: Option<i16>,
    pub rank: Option<i16>,
}

/// What completes an entry. JSON as text.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    pub id: Uuid,
    pub namespace: String,
    pub workflow_id: Uuid,
    pub workflow: String,
    pub task_name: Option<String>,
    pub fingerprint: String,
    pub stack_trace: Option<String>,
    pub task_config: Option<String>,
    pub execution_context: Option<String>,
    pub task_snapshot: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    run_id: RunId,
    idx: Option<i32>,
    item: Option<i32>,
    version: i64,
    reason: i16,
    original_state: String,
    error_type: Option<String>,
    error_message: Option<String>,
    stack_trace: Option<String>,
    total_attempts: i32,
    last_attempt_at: Option<Micros>,
    created_at: Micros,
    inputs: Option<String>,
    origin: Option<String>,
    correlation_id: Option<String>,
    run_created_at: Option<Micros>,
    run_state: Option<i16>,
    rank: Option<i16>,
}

#[derive(sqlx::FromRow)]
struct LogRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    lines: String,
}

impl From<Row> for IncompleteEntry {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            run: row.run_id,
            task: row.idx.map(|index| TaskKey { run: row.run_id, index, item: row.item.unwrap_or(-1) }),
            version: row.version,
            reason: row.reason,
            original_state: row.original_state,
            error_type: row.error_type,
            error_message: row.error_message,
            stack_trace: row.stack_trace,
            total_attempts: row.total_attempts,
            last_attempt_at: row.last_attempt_at,
            created_at: row.created_at,
            inputs: row.inputs,
            trigger: row.origin,
            correlation_id: row.correlation_id,
            run_created_at: row.run_created_at,
            run_state: row.run_state,
            rank: row.rank,
        }
    }
}

#[boxed]
impl Store {
    /// Entries that were not completed yet, oldest first.
    pub async fn uncaptured_letters(&self, limit: i64) -> Result<Vec<IncompleteEntry>> {
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT d.id, d.run_id, d.idx, d.item, d.version, d.reason, d.original_state, d.error_type, d.error_message, d.stack_trace, \
             d.total_attempts, d.last_attempt_at, d.created_at, x.inputs, x.trigger AS origin, x.correlation_id, \
             r.created_at AS run_created_at, r.state AS run_state, r.rank \
             FROM dead_letters d LEFT JOIN runs r ON r.id = d.run_id LEFT JOIN run_details x ON x.run_id = d.run_id \
             WHERE d.captured_at IS NULL ORDER BY d.id LIMIT $1"
        )
        .bind(limit)
        .fetch_all(conn)
        .await?
        });
        Ok(rows.into_iter().map(IncompleteEntry::from).collect())
    }

    /// The ends of what attempts printed, of those that printed something.
    pub async fn log_tails(&self, attempts: &[(TaskKey, i32)]) -> Result<HashMap<TaskKey, String>> {
        let chunks: Vec<LogRow> = read_over_rows!(
            self,
            "run_id, idx, item, attempt",
            attempts,
            |values, (key, attempt)| {
                values.push_bind(key.run).push_bind(key.index).push_bind(key.item).push_bind(*attempt);
            },
            |query| {
                query.push(
                    "SELECT l.run_id, l.idx, l.item, l.lines FROM k CROSS JOIN logs l WHERE l.run_id = k.run_id AND l.idx = k.idx \
                     AND l.item = k.item AND l.attempt = k.attempt AND l.chunk > (SELECT max(m.chunk) FROM logs m \
                     WHERE m.run_id = k.run_id AND m.idx = k.idx AND m.item = k.item AND m.attempt = k.attempt) - ",
                );
                query.push_bind(CHUNKS).push(" ORDER BY l.run_id, l.idx, l.item, l.chunk");
            }
        );
        let mut tails: HashMap<TaskKey, String> = HashMap::new();
        for chunk in chunks {
            let key = TaskKey { run: chunk.run_id, index: chunk.idx, item: chunk.item };
            let lines: Vec<(i64, i16, String)> =
                serde_json::from_str(&chunk.lines).map_err(|error| Error::bad_row("logs", "lines", key, error))?;
            let text = tails.entry(key).or_default();
            for (_, _, line) in lines {
                text.push_str(&line);
                text.push('\n');
            }
        }
        Ok(tails)
    }

    /// Completes entries, and leaves their notifications in the outbox; returns those that were not complete before, so
    /// that each is logged once.
    pub async fn capture_letters(
        &self,
        now: Micros,
        captured: &[Captured],
        messages: &[NewNotification],
    ) -> Result<Vec<Uuid>> {
        let mut tx = self.begin().await?;
        let done: Vec<(Uuid,)> = fetch_over_rows!(
            tx,
            "id, namespace, workflow_id, workflow, task_name, fingerprint, stack_trace, task_config, execution_context, task_snapshot",
            captured,
            |values, one| {
                values.push_bind(one.id).push_bind(one.namespace.clone()).push_bind(one.workflow_id);
                values.push_bind(one.workflow.clone()).push_bind(one.task_name.clone());
                values.push_bind(one.fingerprint.clone()).push_bind(one.stack_trace.clone());
                values.push_bind(one.task_config.clone()).push_bind(one.execution_context.clone());
                values.push_bind(one.task_snapshot.clone());
            },
            |query| {
                query.push(
                    "UPDATE dead_letters SET namespace = k.namespace, workflow_id = k.workflow_id, workflow = k.workflow, \
                     task_name = k.task_name, fingerprint = k.fingerprint, stack_trace = coalesce(k.stack_trace, dead_letters.stack_trace), \
                     task_config = k.task_config, execution_context = k.execution_context, \
                     task_snapshot = coalesce(dead_letters.task_snapshot, k.task_snapshot), captured_at = ",
                );
                query.push_bind(now).push(
                    " FROM k WHERE dead_letters.id = k.id AND dead_letters.captured_at IS NULL \
                     AND dead_letters.id IN (SELECT k.id FROM k) RETURNING dead_letters.id",
                );
            }
        );
        for message in messages {
            notifications::add(&mut tx, now, message).await?;
        }
        tx.commit().await?;
        Ok(done.into_iter().map(|row| row.0).collect())
    }
}
