//! Reads for operators beside lists: what started runs, and how the attempts before a repair ended.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::state::TaskState;
use mainspring_core::{RunId, TaskKey};
use serde_json::Value;

use crate::db::{Db, Store, read};
use crate::error::{Error, Result};
use crate::reads::clauses::hex_ids;
use crate::reads::rows::AttemptRow;

/// As `attempts.outcome` has it.
const FAILED_ATTEMPT: i16 = 0;

#[boxed]
impl Store {
    /// What started these runs; those without a trigger are missing.
    pub async fn run_triggers(&self, runs: &[RunId]) -> Result<HashMap<RunId, Value>> {
        let rows: Vec<(RunId, String)> = match &*self.db {
            Db::Postgres(pg) => {
                sqlx::query_as(
                    "SELECT run_id, trigger FROM run_details WHERE run_id = ANY ($1) AND trigger IS NOT NULL",
                )
                .bind(runs)
                .fetch_all(&pg.pool)
                .await?
            }
            Db::Sqlite(sqlite) => sqlx::query_as(
                "SELECT d.run_id, d.trigger FROM json_each($1) j CROSS JOIN run_details d ON d.run_id = unhex(j.value) \
                     WHERE d.trigger IS NOT NULL",
            )
            .bind(hex_ids(runs))
            .fetch_all(&sqlite.readers)
            .await?,
        };
        let read = |(run, text): (RunId, String)| match serde_json::from_str(&text) {
            Ok(trigger) => Ok((run, trigger)),
            Err(error) => Err(Error::bad_row("run_details", "trigger", run, error)),
        };
        rows.into_iter().map(read).collect()
    }

    /// The attempts of a task run that did not end it as it stands: those that were tried again, and the failures that a
    /// repair or a reopening took back.
    pub async fn earlier_attempts(&self, key: TaskKey) -> Result<Vec<AttemptRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
                "SELECT attempt, outcome, session, seq, started_at, finished_at, exit_code, error_kind, error, detail \
                 FROM attempts WHERE run_id = $1 AND idx = $2 AND item = $3 \
                 UNION ALL SELECT attempt, CAST($5 AS smallint), session, seq, started_at, finished_at, exit_code, \
                 error_kind, error, detail FROM history_superseded WHERE run_id = $1 AND idx = $2 AND item = $3 \
                 AND state = $4 AND attempt > 0 ORDER BY 1",
            )
            .bind(key.run)
            .bind(key.index)
            .bind(key.item)
            .bind(TaskState::Failed.code())
            .bind(FAILED_ATTEMPT)
            .fetch_all(conn)
            .await?
        }))
    }
}
