//! What an entry is completed with right after it was written: names, configuration, context, snapshot, fingerprint.

use mainspring_core::{Micros, RunId, TaskKey};
use uuid::Uuid;

use crate::db::{Store, read, within};
use crate::error::{Error, Result};
use crate::events::notifications::{self, NewNotification};

/// How many chunks of a log are looked at for its end; each holds up to a few hundred lines.
const CHUNKS: i64 = 4;

/// An entry that is to be completed, with what its run was given.
#[derive(Debug, Clone)]
pub struct Uncaptured {
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

impl From<Row> for Uncaptured {
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

impl Store {
    /// Entries that were not completed yet, oldest first.
    pub async fn uncaptured_letters(&self, limit: i64) -> Result<Vec<Uncaptured>> {
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
        Ok(rows.into_iter().map(Uncaptured::from).collect())
    }

    /// The end of what an attempt printed; `None` if that is nothing.
    pub async fn log_tail(&self, key: TaskKey, attempt: i32) -> Result<Option<String>> {
        let chunks: Vec<(String,)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT lines FROM logs WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 ORDER BY chunk DESC LIMIT $5"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(attempt)
        .bind(CHUNKS)
        .fetch_all(conn)
        .await?
        });
        let mut text = String::new();
        for (lines,) in chunks.iter().rev() {
            let lines: Vec<(i64, i16, String)> =
                serde_json::from_str(lines).map_err(|error| Error::bad_row("logs", "lines", key, error))?;
            for (_, _, line) in lines {
                text.push_str(&line);
                text.push('\n');
            }
        }
        Ok((!text.is_empty()).then_some(text))
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
        let mut done = Vec::with_capacity(captured.len());
        for one in captured {
            let changed = within!(
                tx,
                sqlx::query(
                    "UPDATE dead_letters SET namespace = $2, workflow_id = $3, workflow = $4, task_name = $5, \
                     fingerprint = $6, stack_trace = coalesce($7, stack_trace), task_config = $8, \
                     execution_context = $9, task_snapshot = coalesce(task_snapshot, $10), captured_at = $11 \
                     WHERE id = $1 AND captured_at IS NULL"
                )
                .bind(one.id)
                .bind(&one.namespace)
                .bind(one.workflow_id)
                .bind(&one.workflow)
                .bind(&one.task_name)
                .bind(&one.fingerprint)
                .bind(&one.stack_trace)
                .bind(&one.task_config)
                .bind(&one.execution_context)
                .bind(&one.task_snapshot)
                .bind(now)
            );
            if changed == 1 {
                done.push(one.id);
            }
        }
        for message in messages {
            notifications::add(&mut tx, now, message).await?;
        }
        tx.commit().await?;
        Ok(done)
    }
}
