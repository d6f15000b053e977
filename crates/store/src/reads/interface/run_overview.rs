//! One run as a whole: where each task stands and when, without what it was given and what it left.

use mainspring_boxed::boxed;
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, RunId, TaskKey};
use sqlx::AssertSqlSafe;

use crate::db::{Db, Store, read};
use crate::error::{Error, Result};
use crate::reads::clauses::hex_ids;

/// A task of a workflow; items of a `foreach` have numbers from 0.
const NO_ITEM: i32 = -1;

/// Where a task run stands and when it began and ended.
#[derive(Debug, Clone, Copy)]
pub struct TaskMoment {
    pub run: RunId,
    pub index: i32,
    pub state: TaskState,
    pub attempt: i32,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
}

#[derive(sqlx::FromRow)]
struct MomentRow {
    run_id: RunId,
    idx: i32,
    state: i16,
    attempt: i32,
    started_at: Option<Micros>,
    finished_at: Option<Micros>,
}

/// How many items of a task are in a state.
#[derive(Debug, Clone, Copy)]
pub struct ItemCount {
    pub index: i32,
    pub state: TaskState,
    pub count: i64,
}

/// An attempt that did not end its task run.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AttemptSpan {
    pub idx: i32,
    pub item: i32,
    pub attempt: i32,
    pub started_at: Option<Micros>,
    pub finished_at: Micros,
}

/// What a person did to a run.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ActionRow {
    pub idx: Option<i32>,
    pub item: Option<i32>,
    pub action: String,
    pub actor: String,
    pub reason: Option<String>,
    pub created_at: Micros,
}

const LIVE: &str = "SELECT run_id, idx, state, attempt, started_at, CAST(NULL AS bigint) AS finished_at FROM task_runs";
const ENDED: &str = "SELECT run_id, idx, state, attempt, started_at, finished_at FROM history";

#[boxed]
impl Store {
    /// The tasks of these runs, items left out; by run and task. What ended between the two reads counts as ended.
    pub async fn task_moments(&self, runs: &[RunId]) -> Result<Vec<TaskMoment>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = std::collections::BTreeMap::new();
        for source in [LIVE, ENDED] {
            for row in self.moments(source, runs).await? {
                let state = TaskState::try_from(row.state)
                    .map_err(|error| Error::bad_row("task_runs", "state", row.run_id, error))?;
                let moment = TaskMoment {
                    run: row.run_id,
                    index: row.idx,
                    state,
                    attempt: row.attempt,
                    started_at: row.started_at,
                    finished_at: row.finished_at,
                };
                found.insert((row.run_id, row.idx), moment);
            }
        }
        Ok(found.into_values().collect())
    }

    async fn moments(&self, source: &str, runs: &[RunId]) -> Result<Vec<MomentRow>> {
        let sql = |ids: &str| AssertSqlSafe(format!("{source} WHERE item = $1 AND run_id IN ({ids})"));
        Ok(match &*self.db {
            Db::Postgres(pg) => {
                let sql = sql("SELECT unnest($2::uuid[])");
                sqlx::query_as(sql).bind(NO_ITEM).bind(runs.to_vec()).fetch_all(&pg.pool).await?
            }
            Db::Sqlite(sqlite) => {
                let sql = sql("SELECT unhex(value) FROM json_each($2)");
                sqlx::query_as(sql).bind(NO_ITEM).bind(hex_ids(runs)).fetch_all(&sqlite.readers).await?
            }
        })
    }

    /// How the items of a run's tasks stand.
    pub async fn item_counts(&self, run: RunId) -> Result<Vec<ItemCount>> {
        let rows: Vec<(i32, i16, i64)> = read!(self, |conn| sqlx::query_as(
            "SELECT idx, state, count(*) FROM task_runs WHERE run_id = $1 AND item > $2 GROUP BY idx, state \
             UNION ALL SELECT idx, state, count(*) FROM history WHERE run_id = $1 AND item > $2 GROUP BY idx, state"
        )
        .bind(run)
        .bind(NO_ITEM)
        .fetch_all(conn)
        .await?);
        rows.into_iter()
            .map(|(index, state, count)| {
                let state =
                    TaskState::try_from(state).map_err(|error| Error::bad_row("history", "state", run, error))?;
                Ok(ItemCount { index, state, count })
            })
            .collect()
    }

    /// Attempts of a run's tasks that did not end them, the oldest first.
    pub async fn attempt_spans(&self, run: RunId, limit: i64) -> Result<Vec<AttemptSpan>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT idx, item, attempt, started_at, finished_at FROM attempts WHERE run_id = $1 ORDER BY seq LIMIT $2"
        )
        .bind(run)
        .bind(limit)
        .fetch_all(conn)
        .await?))
    }

    /// What people did to a run, the oldest first.
    pub async fn actions_of(&self, run: RunId, limit: i64) -> Result<Vec<ActionRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT idx, item, action, actor, reason, created_at FROM operator_actions WHERE run_id = $1 ORDER BY seq LIMIT $2"
        )
        .bind(run)
        .bind(limit)
        .fetch_all(conn)
        .await?
        }))
    }

    /// The pending dead letter of a task run.
    pub async fn pending_letter_of(&self, key: TaskKey) -> Result<Option<uuid::Uuid>> {
        let row: Option<(uuid::Uuid,)> = read!(self, |conn| sqlx::query_as(crate::names::sql!(
            "SELECT id FROM dead_letters WHERE run_id = $1 AND idx = $2 AND item = $3 AND status = {letter.pending}"
        ))
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .fetch_optional(conn)
        .await?);
        Ok(row.map(|row| row.0))
    }
}
