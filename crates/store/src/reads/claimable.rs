//! What waits to be claimed, for the loops that announce it.

use mainspring_boxed::boxed;
use mainspring_core::{RunId, TaskKey};

use crate::db::{Store, read};
use crate::error::Result;
use crate::names::sql;

#[boxed]
impl Store {
    /// The first claimable task runs of a route, in the order in which they are claimed, and how many attempts each has had. A
    /// hint: they may be claimed at once.
    pub async fn claimable(&self, route: i32, limit: i64) -> Result<Vec<(TaskKey, i32)>> {
        let rows: Vec<(RunId, i32, i32, i32)> = read!(self, |conn| sqlx::query_as(sql!(
            "SELECT run_id, idx, item, attempt FROM task_runs WHERE state = {task.ready} AND route = $1 \
             ORDER BY rank, due_at LIMIT $2"
        ))
        .bind(route)
        .bind(limit)
        .fetch_all(conn)
        .await?);
        Ok(rows.into_iter().map(|(run, index, item, attempt)| (TaskKey { run, index, item }, attempt)).collect())
    }
}
