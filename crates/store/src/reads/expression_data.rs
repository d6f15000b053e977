//! The data that expressions of tasks read.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::state::TaskState;
use mainspring_core::{RunId, TaskKey};
use serde_json::Value;

use super::rows::json;
use crate::db::{Acquired, Store};
use crate::error::{Error, Result};
use crate::reads::clauses::hex_ids;

/// What expressions look at, by run and by (run, task).
#[derive(Debug, Clone, Default)]
pub struct ExpressionData {
    pub inputs: HashMap<RunId, Value>,
    /// What started runs.
    pub triggers: HashMap<RunId, Value>,
    pub tasks: HashMap<(RunId, i32), (TaskState, i32, Option<Value>)>,
    /// The values of items.
    pub items: HashMap<TaskKey, Value>,
}

#[derive(sqlx::FromRow)]
struct ExpressionRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    state: i16,
    attempt: i32,
    body: Option<String>,
}

#[boxed]
impl Store {
    /// What expressions of some task runs look at: the inputs of `runs`, and how the tasks named by `upstream` ended.
    /// One round trip.
    pub async fn expression_data(
        &self,
        runs: &[RunId],
        upstream: &[(RunId, i32)],
        items: &[TaskKey],
    ) -> Result<ExpressionData> {
        let upstream_runs: Vec<RunId> = upstream.iter().map(|key| key.0).collect();
        let upstream_indexes: Vec<i32> = upstream.iter().map(|key| key.1).collect();
        let item_runs: Vec<RunId> = items.iter().map(|key| key.run).collect();
        let item_indexes: Vec<i32> = items.iter().map(|key| key.index).collect();
        let item_numbers: Vec<i32> = items.iter().map(|key| key.item).collect();
        let rows: Vec<ExpressionRow> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as(
                    "SELECT run_id, -1 AS idx, -1 AS item, 0::smallint AS state, 0 AS attempt, inputs AS body FROM run_details WHERE run_id = ANY ($1) AND inputs IS NOT NULL \
                     UNION ALL SELECT run_id, -2, -1, 0::smallint, 0, trigger FROM run_details WHERE run_id = ANY ($1) AND trigger IS NOT NULL \
                     UNION ALL SELECT h.run_id, h.idx, -1, h.state, h.attempt, h.output \
                     FROM unnest($2::uuid[], $3::integer[]) AS k(run, idx) JOIN history h ON h.run_id = k.run AND h.idx = k.idx AND h.item = -1 \
                     UNION ALL SELECT i.run_id, i.idx, i.item, 0::smallint, 0, i.value \
                     FROM unnest($4::uuid[], $5::integer[], $6::integer[]) AS k(run, idx, item) JOIN items i ON i.run_id = k.run AND i.idx = k.idx AND i.item = k.item",
                )
                .bind(runs)
                .bind(upstream_runs)
                .bind(upstream_indexes)
                .bind(item_runs)
                .bind(item_indexes)
                .bind(item_numbers)
                .fetch_all(pg.connection())
                .await?
            }
            Acquired::Sqlite(sqlite) => {
                let keys: Vec<(String, i32)> = upstream.iter().map(|key| (key.0.simple().to_string(), key.1)).collect();
                let items: Vec<(String, i32, i32)> =
                    items.iter().map(|key| (key.run.simple().to_string(), key.index, key.item)).collect();
                sqlx::query_as(
                    "SELECT d.run_id, -1 AS idx, -1 AS item, 0 AS state, 0 AS attempt, d.inputs AS body FROM json_each($1) j CROSS JOIN run_details d ON d.run_id = unhex(j.value) \
                     WHERE d.inputs IS NOT NULL \
                     UNION ALL SELECT d.run_id, -2, -1, 0, 0, d.trigger FROM json_each($1) j CROSS JOIN run_details d ON d.run_id = unhex(j.value) \
                     WHERE d.trigger IS NOT NULL UNION ALL SELECT h.run_id, h.idx, -1, h.state, h.attempt, h.output \
                     FROM json_each($2) k CROSS JOIN history h ON h.run_id = unhex(k.value ->> 0) AND h.idx = (k.value ->> 1) AND h.item = -1 \
                     UNION ALL SELECT i.run_id, i.idx, i.item, 0, 0, i.value \
                     FROM json_each($3) k CROSS JOIN items i ON i.run_id = unhex(k.value ->> 0) AND i.idx = (k.value ->> 1) AND i.item = (k.value ->> 2)",
                )
                .bind(hex_ids(runs))
                .bind(serde_json::to_string(&keys).unwrap_or_default())
                .bind(serde_json::to_string(&items).unwrap_or_default())
                .fetch_all(sqlite.connection().await?)
                .await?
            }
        };
        ExpressionData::of(rows)
    }
}

impl ExpressionData {
    fn of(rows: Vec<ExpressionRow>) -> Result<Self> {
        let mut data = Self::default();
        for row in rows {
            let body = json(row.body, "history", "output", row.run_id)?;
            if row.idx == -2 {
                data.triggers.insert(row.run_id, body.unwrap_or_default());
            } else if row.idx < 0 {
                data.inputs.insert(row.run_id, body.unwrap_or_default());
            } else if row.item >= 0 {
                let key = TaskKey { run: row.run_id, index: row.idx, item: row.item };
                data.items.insert(key, body.unwrap_or_default());
            } else {
                let state = TaskState::try_from(row.state)
                    .map_err(|error| Error::bad_row("history", "state", row.run_id, error))?;
                data.tasks.insert((row.run_id, row.idx), (state, row.attempt, body));
            }
        }
        Ok(data)
    }
}
