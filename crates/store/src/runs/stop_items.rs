//! Calls off the items of a task after one of them failed.

use mainspring_boxed::boxed;
use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;
use mainspring_core::{Micros, TaskKey};

use crate::db::{Store, within};
use crate::error::Result;
use crate::names::sql;
use crate::runs::live_row::{LiveRow, live_columns};
use crate::runs::locked::lock_run;
use crate::runs::settle::settle;

#[boxed]
impl Store {
    /// Ends the other items of the task that no worker executes and no node decides, and asks those that run to stop. Items that have
    /// ended are left alone, so that doing it twice changes nothing.
    pub async fn stop_items(&self, now: Micros, failed: TaskKey) -> Result<()> {
        let mut tx = self.begin().await?;
        lock_run(&mut tx, failed.run).await?;
        let why = format!("item {} failed", failed.item);
        let rows: Vec<LiveRow> = within!(tx, |conn| {
            sqlx::query_as(sql!(concat!(
                "DELETE FROM task_runs WHERE run_id = $1 AND idx = $2 AND item >= 0 AND item <> $3 \
                 AND state <> {task.running} AND NOT (state = {task.deciding} AND session IS NOT NULL) \
                 RETURNING ",
                live_columns!()
            )))
            .bind(failed.run)
            .bind(failed.index)
            .bind(failed.item)
            .fetch_all(conn)
            .await?
        });
        if !rows.is_empty() {
            let reason = Failure { kind: "cancelled".into(), message: why.clone(), ..Failure::default() };
            let ended_rows =
                rows.iter().map(|row| row.ended(now, TaskState::Cancelled, Some(reason.clone()))).collect();
            settle(&mut tx, now, ended_rows, Vec::new()).await?;
        }
        within!(
            tx,
            sqlx::query(sql!(
                "INSERT INTO cancel_requests (session, run_id, idx, item, attempt, reason) \
                 SELECT session, run_id, idx, item, attempt, $4 FROM task_runs \
                 WHERE run_id = $1 AND idx = $2 AND item >= 0 AND item <> $3 AND state = {task.running} ON CONFLICT DO NOTHING"
            ))
            .bind(failed.run)
            .bind(failed.index)
            .bind(failed.item)
            .bind(&why)
        );
        tx.commit().await
    }
}
