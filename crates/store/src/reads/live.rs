//! What subscribers of many runs read.
//!
//! New runs and what people did are found by ids that carry their time; nothing here looks through what merely exists. That
//! a run went on is announced by the node that moved it: a hint, never repeated, so a reader that must not miss an end looks again
//! at the runs it knows to be open.

use mainspring_boxed::boxed;
use mainspring_core::{RunId, TaskKey};
use uuid::Uuid;

use crate::db::{Db, Store, read};
use crate::error::Result;
use crate::reads::clauses::hex_ids;
use crate::reads::rows::{RunSummary, SUMMARY, SummaryRow};

#[boxed]
impl Store {
    /// Ids of runs made after this one, the oldest first.
    pub async fn runs_made_after(&self, id: RunId, limit: i64) -> Result<Vec<RunId>> {
        let rows: Vec<(RunId,)> =
            read!(self, |conn| sqlx::query_as("SELECT id FROM runs WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(id)
                .bind(limit)
                .fetch_all(conn)
                .await?);
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// What people did after this action: its id, and the run it was done to.
    pub async fn actions_after(&self, id: Uuid, limit: i64) -> Result<Vec<(Uuid, RunId)>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT id, run_id FROM operator_actions WHERE id > $1 ORDER BY id LIMIT $2"
        )
        .bind(id)
        .bind(limit)
        .fetch_all(conn)
        .await?))
    }

    /// These runs; those that do not exist are missing.
    pub async fn run_summaries(&self, runs: &[RunId]) -> Result<Vec<RunSummary>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<SummaryRow> = match &*self.db {
            Db::Postgres(pg) => {
                let sql = sqlx::AssertSqlSafe(format!("{SUMMARY} WHERE r.id = ANY ($1)"));
                sqlx::query_as(sql).bind(runs).fetch_all(&pg.pool).await?
            }
            Db::Sqlite(sqlite) => {
                let sql = format!("{SUMMARY} WHERE r.id IN (SELECT unhex(k.value) FROM json_each($1) k)");
                sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(hex_ids(runs)).fetch_all(&sqlite.readers).await?
            }
        };
        rows.into_iter().map(RunSummary::try_from).collect()
    }

    /// Whether a task run has ended, and its latest attempt; `None` if there is none of that key.
    pub async fn task_run_attempt(&self, key: TaskKey) -> Result<Option<(bool, i32)>> {
        let row: Option<(i32, i32)> = read!(self, |conn| sqlx::query_as(
            "SELECT 1, attempt FROM history WHERE run_id = $1 AND idx = $2 AND item = $3 \
             UNION ALL SELECT 0, attempt FROM task_runs WHERE run_id = $1 AND idx = $2 AND item = $3"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .fetch_optional(conn)
        .await?);
        Ok(row.map(|(ended, attempt)| (ended == 1, attempt)))
    }
}
