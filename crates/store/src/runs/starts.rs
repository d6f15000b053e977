//! Runs that start later. Until then such a run has no task runs and holds no slot: only a row here says when it begins.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};

use crate::db::{Store, Tx, locking, read, within};
use crate::error::{Error, Result};
use crate::runs::proceed::{CREATE, enqueue};

#[boxed]
impl Store {
    /// Lets runs begin whose time has come, at most `limit`; returns how many. `wall` is the time of day. Any node may do
    /// it at any time.
    pub async fn begin_due_runs(&self, now: Micros, wall: Micros, limit: i64) -> Result<u64> {
        let mut tx = self.begin().await?;
        let sql = locking!(
            tx,
            "SELECT run_id FROM starts WHERE due_at <= $1 ORDER BY due_at, run_id LIMIT $2",
            "FOR UPDATE SKIP LOCKED"
        );
        let due: Vec<(RunId,)> = within!(tx, |conn| sqlx::query_as(sql).bind(wall).bind(limit).fetch_all(conn).await?);
        for (run,) in &due {
            begin(&mut tx, now, *run).await?;
        }
        tx.commit().await?;
        Ok(due.len() as u64)
    }

    /// When a run begins that was put off; `None` if it was not, or has begun.
    pub async fn begins_at(&self, run: RunId) -> Result<Option<Micros>> {
        let row: Option<(Micros,)> = read!(self, |conn| sqlx::query_as("SELECT due_at FROM starts WHERE run_id = $1")
            .bind(run)
            .fetch_optional(conn)
            .await?);
        Ok(row.map(|row| row.0))
    }

    /// Since when a run hears events: since it was made, or since it began if it was put off.
    pub async fn hears_events_since(&self, run: RunId) -> Result<Micros> {
        let row: Option<(Micros,)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT coalesce(d.began_at, r.created_at) FROM runs r LEFT JOIN run_details d ON d.run_id = r.id WHERE r.id = $1"
        )
        .bind(run)
        .fetch_optional(conn)
        .await?
        });
        row.map(|row| row.0).ok_or_else(|| Error::not_found(format!("run {run}")))
    }

    /// The time of day at which the next run begins.
    pub async fn next_start(&self) -> Result<Option<Micros>> {
        let row: Option<(Micros,)> =
            read!(self, |conn| sqlx::query_as("SELECT due_at FROM starts ORDER BY due_at LIMIT 1")
                .fetch_optional(conn)
                .await?);
        Ok(row.map(|row| row.0))
    }
}

pub(crate) async fn put_off(tx: &mut Tx, run: RunId, until: Micros) -> Result<()> {
    within!(tx, sqlx::query("INSERT INTO starts (run_id, due_at) VALUES ($1, $2)").bind(run).bind(until));
    Ok(())
}

/// Has the rows of a run made that was put off. Nothing happens if it was not, or has begun.
pub(crate) async fn begin(tx: &mut Tx, now: Micros, run: RunId) -> Result<()> {
    let was_put_off = within!(tx, sqlx::query("DELETE FROM starts WHERE run_id = $1").bind(run));
    if was_put_off > 0 {
        within!(
            tx,
            sqlx::query(
                "INSERT INTO run_details (run_id, began_at) VALUES ($1, $2) ON CONFLICT (run_id) DO UPDATE SET \
                 began_at = excluded.began_at"
            )
            .bind(run)
            .bind(now)
        );
        enqueue(tx, now, run, CREATE).await?;
    }
    Ok(())
}
