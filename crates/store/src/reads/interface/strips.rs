//! The last runs of many workflows at once.

use mainspring_boxed::boxed;
use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId};
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::db::{Db, Store, read};
use crate::error::{Error, Result};

/// The most selects that SQLite joins into one.
const MOST_AT_ONCE: usize = 200;

/// A run as a cell of its workflow's strip.
#[derive(Debug, Clone)]
pub struct StripRun {
    pub workflow_id: Uuid,
    pub id: RunId,
    pub state: RunState,
    pub created_at: Micros,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
}

#[derive(sqlx::FromRow)]
struct Row {
    workflow_id: Uuid,
    id: RunId,
    state: i16,
    created_at: Micros,
    started_at: Option<Micros>,
    finished_at: Option<Micros>,
}

/// What a run was given, as the text of a JSON object.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct RecentInputsRow {
    pub run_id: RunId,
    pub created_at: Micros,
    pub inputs: Option<String>,
}

macro_rules! statement {
    ($database:ty, $workflows:expr, $each:expr) => {{
        let mut query = QueryBuilder::<$database>::new("");
        for (number, workflow) in $workflows.iter().enumerate() {
            let union = if number == 0 { "" } else { " UNION ALL " };
            query
                .push(union)
                .push("SELECT * FROM (SELECT workflow_id, id, state, created_at, started_at, finished_at FROM runs WHERE workflow_id = ")
                .push_bind(*workflow)
                .push(" ORDER BY id DESC LIMIT ")
                .push_bind($each)
                .push(") s")
                .push(number.to_string());
        }
        query
    }};
}

#[boxed]
impl Store {
    /// What the newest runs of a workflow were given, the newest first.
    pub async fn recent_inputs(&self, workflow: Uuid, limit: i64) -> Result<Vec<RecentInputsRow>> {
        Ok(read!(self, |conn| sqlx::query_as(
            "SELECT r.id AS run_id, r.created_at, d.inputs FROM runs r JOIN run_details d ON d.run_id = r.id \
             WHERE r.workflow_id = $1 AND d.inputs IS NOT NULL ORDER BY r.id DESC LIMIT $2"
        )
        .bind(workflow)
        .bind(limit)
        .fetch_all(conn)
        .await?))
    }

    /// The newest runs of each of these workflows, `each` of them, in one statement; the first 200 workflows.
    pub async fn strips(&self, workflows: &[Uuid], each: i64) -> Result<Vec<StripRun>> {
        let workflows = &workflows[..workflows.len().min(MOST_AT_ONCE)];
        if workflows.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = match &*self.db {
            Db::Postgres(pg) => {
                statement!(sqlx::Postgres, workflows, each).build_query_as().fetch_all(&pg.pool).await?
            }
            Db::Sqlite(sqlite) => {
                statement!(sqlx::Sqlite, workflows, each).build_query_as().fetch_all(&sqlite.readers).await?
            }
        };
        rows.into_iter()
            .map(|row| {
                let state =
                    RunState::try_from(row.state).map_err(|error| Error::bad_row("runs", "state", row.id, error))?;
                Ok(StripRun {
                    workflow_id: row.workflow_id,
                    id: row.id,
                    state,
                    created_at: row.created_at,
                    started_at: row.started_at,
                    finished_at: row.finished_at,
                })
            })
            .collect()
    }
}
