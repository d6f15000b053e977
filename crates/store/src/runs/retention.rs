//! Forgetting: whole runs, oldest first, and what the clock noted of them, in small transactions.

use mainspring_boxed::boxed;
use mainspring_core::time::{month_of, month_start};
use mainspring_core::{Micros, RunId};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Db, Store, Tx, read, within, write};
use crate::error::Result;
use crate::names::sql;
use crate::runs::{artifacts, caches};
use crate::schedules::fires::NO_BACKFILL;

const RUNS_PER_PURGE: i64 = 200;
/// How many instants of a trigger one transaction forgets.
const FIRES_PER_STEP: i64 = 1_000;

/// Everything a run leaves behind, children first.
const TABLES: &[&str] = &[
    "logs",
    "attempts",
    "history",
    "history_superseded",
    "operator_actions",
    "run_transitions",
    "run_details",
    "cancel_requests",
    "unsuccessful_runs",
    "continuations",
    "starts",
    "waits",
    "items",
    "artifacts",
    "cache_uses",
    "task_overrides",
];

/// What was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    pub runs: u64,
    pub task_runs: u64,
    pub log_chunks: u64,
}

#[boxed]
impl Store {
    /// Deletes runs that ended before `before`, and everything of theirs but dead letters, in one namespace or in all. Runs
    /// with a pending dead letter stay; closed ones are forgotten by their own age. Call again until no run is deleted.
    pub async fn purge_runs(&self, before: Micros, namespace: Option<&str>) -> Result<Purged> {
        let old: Vec<(RunId,)> = read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT r.id FROM runs r WHERE r.state >= {run.success} AND r.finished_at < $1 \
             AND (CAST($3 AS text) IS NULL OR EXISTS (SELECT 1 FROM workflows w WHERE w.id = r.workflow_id AND w.namespace = $3)) \
             AND NOT EXISTS (SELECT 1 FROM run_ends e WHERE e.run_id = r.id) \
             AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.run_id = r.id AND d.status = {letter.pending}) ORDER BY r.id LIMIT $2")
        )
        .bind(before)
        .bind(RUNS_PER_PURGE)
        .bind(namespace)
        .fetch_all(conn)
        .await?
        });
        self.purge_each(old, before).await
    }

    /// The same for the runs of one workflow.
    pub async fn purge_runs_of(&self, workflow: Uuid, before: Micros) -> Result<Purged> {
        let old: Vec<(RunId,)> = read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT r.id FROM runs r WHERE r.workflow_id = $3 AND r.state >= {run.success} AND r.finished_at < $1 \
             AND NOT EXISTS (SELECT 1 FROM run_ends e WHERE e.run_id = r.id) \
             AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.run_id = r.id AND d.status = {letter.pending}) ORDER BY r.id LIMIT $2")
        )
        .bind(before)
        .bind(RUNS_PER_PURGE)
        .bind(workflow)
        .fetch_all(conn)
        .await?
        });
        self.purge_each(old, before).await
    }

    /// Every workflow: its id, namespace and name.
    pub async fn workflow_names(&self) -> Result<Vec<(Uuid, String, String)>> {
        Ok(read!(self, |conn| sqlx::query_as("SELECT id, namespace, name FROM workflows ORDER BY id")
            .fetch_all(conn)
            .await?))
    }

    async fn purge_each(&self, old: Vec<(RunId,)>, before: Micros) -> Result<Purged> {
        let mut purged = Purged::default();
        for (id,) in old {
            let mut tx = self.begin().await?;
            // The state again, under the row's lock: it may have been reopened.
            let gone = within!(
                tx,
                sqlx::query(sql!("DELETE FROM runs WHERE id = $1 AND state >= {run.success} AND finished_at < $2"))
                    .bind(id)
                    .bind(before)
            );
            if gone == 1 {
                let (task_runs, log_chunks) = forget(&mut tx, id).await?;
                purged.task_runs += task_runs;
                purged.log_chunks += log_chunks;
            }
            tx.commit().await?;
            purged.runs += gone;
        }
        Ok(purged)
    }

    /// Forgets what the clock noted before `before`, once the run that it started is gone too; how much that was. The
    /// newest row of each trigger stays, and so does what lies behind `covered_at`: by these nothing is fired twice. Rows of
    /// backfills stay with their backfill, which counts them.
    pub async fn forget_fires(&self, before: Micros) -> Result<u64> {
        let old: Vec<(Uuid, Micros, Micros)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT x.id, x.covered_at, x.latest FROM (SELECT t.id, t.covered_at, \
             (SELECT max(f.nominal_at) FROM fires f WHERE f.trigger_id = t.id AND f.backfill = $2) AS latest FROM triggers t) x \
             WHERE EXISTS (SELECT 1 FROM fires f WHERE f.trigger_id = x.id AND f.nominal_at < x.latest AND f.nominal_at < x.covered_at \
             AND f.nominal_at < $1 AND f.backfill = $2)"
        )
        .bind(before)
        .bind(NO_BACKFILL)
        .fetch_all(conn)
        .await?
        });
        let mut forgotten = 0;
        for (trigger, covered, latest) in old {
            let end = before.min(covered).min(latest);
            let mut from = Micros::MIN;
            while from < end {
                let until = self.step_of_fires(trigger, from).await?.unwrap_or(end).min(end);
                forgotten += self.forget_fires_between(trigger, from, until, before).await?;
                from = until;
            }
        }
        Ok(forgotten)
    }

    /// The instant up to which one step goes; `None` if fewer are left.
    async fn step_of_fires(&self, trigger: Uuid, from: Micros) -> Result<Option<Micros>> {
        let found: Option<(Micros,)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT nominal_at FROM fires WHERE trigger_id = $1 AND nominal_at > $2 ORDER BY nominal_at LIMIT 1 OFFSET $3"
        )
        .bind(trigger)
        .bind(from)
        .bind(FIRES_PER_STEP)
        .fetch_optional(conn)
        .await?
        });
        Ok(found.map(|(nominal,)| nominal))
    }

    async fn forget_fires_between(
        &self,
        trigger: Uuid,
        from: Micros,
        until: Micros,
        fired_before: Micros,
    ) -> Result<u64> {
        Ok(write!(
            self,
            sqlx::query(
                "DELETE FROM fires WHERE trigger_id = $1 AND nominal_at >= $2 AND nominal_at < $3 AND \
                 fired_at < $4 AND backfill = $5 \
                 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = fires.run_id)"
            )
            .bind(trigger)
            .bind(from)
            .bind(until)
            .bind(fired_before)
            .bind(NO_BACKFILL)
        ))
    }

    /// Deletes an ended run and everything of it, whatever waits for a person.
    pub(crate) async fn forget_run(&self, id: RunId) -> Result<()> {
        let mut tx = self.begin().await?;
        let gone = within!(tx, sqlx::query(sql!("DELETE FROM runs WHERE id = $1 AND state >= {run.success}")).bind(id));
        if gone == 1 {
            forget(&mut tx, id).await?;
            within!(tx, sqlx::query("DELETE FROM dead_letters WHERE run_id = $1").bind(id));
        }
        tx.commit().await
    }

    /// Makes the partitions of `history` for this month and the next two (PostgreSQL). Rows for which there is none land
    /// in the default partition, so being late loses nothing.
    pub async fn ensure_history_partitions(&self, now: Micros) -> Result<()> {
        let Db::Postgres(pg) = &*self.db else { return Ok(()) };
        let (mut year, mut month) = month_of(now);
        for _ in 0..3 {
            let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            let name = format!("history_{year:04}_{month:02}");
            // Asked for first: `IF NOT EXISTS` writes a notice into the log every time.
            let (is_there,): (bool,) =
                sqlx::query_as("SELECT to_regclass($1) IS NOT NULL").bind(&name).fetch_one(&pg.pool).await?;
            if is_there {
                (year, month) = (next_year, next_month);
                continue;
            }
            let sql = format!(
                "CREATE TABLE IF NOT EXISTS {name} PARTITION OF history FOR VALUES FROM ('{}') TO ('{}')",
                first_id(year, month),
                first_id(next_year, next_month)
            );
            if let Err(error) = sqlx::query(AssertSqlSafe(sql)).execute(&pg.pool).await {
                // Rows of that month are in the default partition already: they stay there.
                tracing::warn!(%error, year, month, "making a partition of the history");
            }
            (year, month) = (next_year, next_month);
        }
        Ok(())
    }
}

/// Deletes what a run left in other tables, dead letters apart; how many task runs and log chunks that were.
async fn forget(tx: &mut Tx, id: RunId) -> Result<(u64, u64)> {
    let (mut task_runs, mut log_chunks) = (0, 0);
    artifacts::give_up_objects(tx, id).await?;
    caches::keep_results(tx, id).await?;
    for table in TABLES {
        let sql = AssertSqlSafe(format!("DELETE FROM {table} WHERE run_id = $1"));
        let rows = within!(tx, sqlx::query(sql).bind(id));
        match *table {
            "history" => task_runs += rows,
            "logs" => log_chunks += rows,
            _ => {}
        }
    }
    within!(tx, sqlx::query("DELETE FROM submissions WHERE run_id = $1").bind(id));
    Ok((task_runs, log_chunks))
}

/// The smallest UUID v7 of a month.
fn first_id(year: i64, month: i64) -> String {
    let hex = format!("{:012x}", month_start(year, month) / 1_000);
    format!("{}-{}-0000-0000-000000000000", &hex[..8], &hex[8..])
}
