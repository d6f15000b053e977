//! Backfills: the nominal instants of a range, made up for some at a time.
//!
//! The rows in `fires` carry the backfill's id, so that an instant is made once per backfill. A step is a compare-and-swap
//! on the position, under the leader's term.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::cluster::terms::{self, Term};
use crate::db::{Acquired, Store, read, within};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::reads::clauses::hex_ids;
use crate::schedules::fire_unit;
use crate::schedules::fires::{self, Fired, NewFire};

const STATUSES: [&str; 3] = ["active", "done", "cancelled"];

/// The request for a backfill.
#[derive(Debug, Clone)]
pub struct NewBackfill {
    pub id: Uuid,
    pub trigger_id: Uuid,
    /// The first instant that belongs to it.
    pub from_at: Micros,
    /// The first that does not.
    pub to_at: Micros,
    /// How many of its runs may be open at the same time.
    pub max_parallel: i32,
    pub priority: i16,
    pub created_by: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillRow {
    pub id: Uuid,
    pub trigger_id: Uuid,
    /// Of its workflow.
    pub namespace: String,
    pub workflow: String,
    /// The trigger's name within the workflow.
    pub trigger: String,
    pub from_at: Micros,
    pub to_at: Micros,
    /// Every instant up to here is made.
    pub position_at: Micros,
    pub max_parallel: i32,
    pub priority: i16,
    /// `active`, `done` or `cancelled`.
    pub status: &'static str,
    pub created_by: String,
    pub created_at: Micros,
    pub finished_at: Option<Micros>,
    /// How many runs it has made.
    pub runs: i64,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    trigger_id: Uuid,
    namespace: String,
    workflow: String,
    trigger_name: String,
    from_at: Micros,
    to_at: Micros,
    position_at: Micros,
    max_parallel: i32,
    priority: i16,
    status: i16,
    created_by: String,
    created_at: Micros,
    finished_at: Option<Micros>,
    runs: i64,
}

impl From<Row> for BackfillRow {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            trigger_id: row.trigger_id,
            namespace: row.namespace,
            workflow: row.workflow,
            trigger: row.trigger_name,
            from_at: row.from_at,
            to_at: row.to_at,
            position_at: row.position_at,
            max_parallel: row.max_parallel,
            priority: row.priority,
            status: STATUSES.get(row.status as usize).copied().unwrap_or("cancelled"),
            created_by: row.created_by,
            created_at: row.created_at,
            finished_at: row.finished_at,
            runs: row.runs,
        }
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT b.id, b.trigger_id, t.namespace, w.name AS workflow, t.name AS trigger_name, b.from_at, b.to_at, b.position_at, ",
            "b.max_parallel, b.priority, b.status, b.created_by, b.created_at, b.finished_at, ",
            "(SELECT count(*) FROM fires f WHERE f.backfill = b.id AND f.backfill <> $1 AND f.outcome = 0) AS runs ",
            "FROM backfills b JOIN triggers t ON t.id = b.trigger_id JOIN workflows w ON w.id = t.workflow_id ",
            $rest
        )
    };
}

#[boxed]
impl Store {
    pub async fn insert_backfill(&self, now: Micros, new: &NewBackfill) -> Result<()> {
        let mut tx = self.begin().await?;
        within!(
            tx,
            sqlx::query(
                "INSERT INTO backfills (id, trigger_id, from_at, to_at, position_at, max_parallel, \
                 priority, created_by, created_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            )
            .bind(new.id)
            .bind(new.trigger_id)
            .bind(new.from_at)
            .bind(new.to_at)
            .bind(new.from_at.saturating_sub(1))
            .bind(new.max_parallel)
            .bind(new.priority)
            .bind(&new.created_by)
            .bind(now)
        );
        tx.commit().await
    }

    pub async fn backfill(&self, id: Uuid) -> Result<BackfillRow> {
        let row: Option<Row> = read!(self, |conn| sqlx::query_as(select!("WHERE b.id = $2"))
            .bind(fires::NO_BACKFILL)
            .bind(id)
            .fetch_optional(conn)
            .await?);
        row.map(BackfillRow::from).ok_or_else(|| Error::not_found(format!("backfill {id}")))
    }

    /// The backfills of a workflow, the newest first, those made before `before`.
    pub async fn backfills(&self, workflow_id: Uuid, before: Micros, limit: i64) -> Result<Vec<BackfillRow>> {
        let rows: Vec<Row> = read!(self, |conn| sqlx::query_as(select!(
            "WHERE t.workflow_id = $2 AND b.created_at < $3 ORDER BY b.created_at DESC, b.id DESC LIMIT $4"
        ))
        .bind(fires::NO_BACKFILL)
        .bind(workflow_id)
        .bind(before)
        .bind(limit)
        .fetch_all(conn)
        .await?);
        Ok(rows.into_iter().map(BackfillRow::from).collect())
    }

    /// Namespace and name of a workflow.
    pub async fn workflow_key(&self, id: Uuid) -> Result<(String, String)> {
        let found: Option<(String, String)> =
            read!(self, |conn| sqlx::query_as("SELECT namespace, name FROM workflows WHERE id = $1")
                .bind(id)
                .fetch_optional(conn)
                .await?);
        found.ok_or_else(|| Error::not_found(format!("workflow {id}")))
    }

    /// Those that have something left to do, the oldest first.
    pub async fn active_backfills(&self, limit: i64) -> Result<Vec<BackfillRow>> {
        let rows: Vec<Row> =
            read!(self, |conn| sqlx::query_as(select!("WHERE b.status = 0 ORDER BY b.created_at LIMIT $2"))
                .bind(fires::NO_BACKFILL)
                .bind(limit)
                .fetch_all(conn)
                .await?);
        Ok(rows.into_iter().map(BackfillRow::from).collect())
    }

    /// Makes no more runs of it; those that were made go on. False if it had ended before.
    pub async fn cancel_backfill(&self, now: Micros, id: Uuid) -> Result<bool> {
        let mut tx = self.begin().await?;
        let touched = within!(
            tx,
            sqlx::query("UPDATE backfills SET status = 2, finished_at = $2 WHERE id = $1 AND status = 0")
                .bind(id)
                .bind(now)
        );
        tx.commit().await?;
        if touched == 0 {
            self.backfill(id).await?;
        }
        Ok(touched == 1)
    }

    /// The runs of a backfill that have not ended.
    pub async fn open_backfill_runs(&self, id: Uuid) -> Result<Vec<RunId>> {
        let rows: Vec<(RunId,)> = read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT r.id FROM fires f JOIN runs r ON r.id = f.run_id WHERE f.backfill = $1 AND f.backfill <> $2 AND r.state < {run.success}")
        )
        .bind(id)
        .bind(fires::NO_BACKFILL)
        .fetch_all(conn)
        .await?
        });
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Those of these runs that have not ended.
    pub async fn unfinished_runs(&self, runs: &[RunId]) -> Result<Vec<RunId>> {
        let rows: Vec<(RunId,)> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as(sql!("SELECT id FROM runs WHERE id = ANY ($1) AND state < {run.success}"))
                    .bind(runs)
                    .fetch_all(pg.connection())
                    .await?
            }
            Acquired::Sqlite(sqlite) => {
                sqlx::query_as(
                    sql!("SELECT r.id FROM json_each($1) j CROSS JOIN runs r ON r.id = unhex(j.value) WHERE r.state < {run.success}"),
                )
                .bind(hex_ids(runs))
                .fetch_all(sqlite.connection().await?)
                .await?
            }
        };
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Makes the next runs of a backfill from exactly this position, as the leader of this term.
    pub async fn step_backfill(
        &self,
        (now, at): (Micros, Micros),
        term: &Term,
        backfill: &BackfillRow,
        fires: &[NewFire],
        position: Micros,
        done: bool,
    ) -> Result<Fired> {
        let mut tx = self.begin().await?;
        if !terms::hold(&mut tx, term).await? {
            return Ok(Fired::Deposed);
        }
        let touched = within!(
            tx,
            sqlx::query(
                "UPDATE backfills SET position_at = $3, status = CASE WHEN $4 THEN 1 ELSE 0 END, \
                 finished_at = CASE WHEN $4 THEN $5 END \
                 WHERE id = $1 AND position_at = $2 AND status = 0"
            )
            .bind(backfill.id)
            .bind(backfill.position_at)
            .bind(position)
            .bind(done)
            .bind(at)
        );
        if touched == 0 {
            return Ok(Fired::Stale);
        }
        let of: Vec<(Uuid, &NewFire)> = fires.iter().map(|fire| (backfill.trigger_id, fire)).collect();
        let created = fire_unit::make(&mut tx, now, at, backfill.id, &of).await?;
        tx.commit().await?;
        Ok(Fired::Done(created))
    }
}
