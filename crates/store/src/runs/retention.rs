//! Deletes old fires in small transactions, and old months of the history.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::time::{month_of, month_start};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Db, Store, read, write};
use crate::error::Result;
use crate::schedules::fires::NO_BACKFILL;

/// How many instants of a trigger one transaction forgets.
const FIRES_PER_STEP: i64 = 1_000;

#[boxed]
impl Store {
    /// Every workflow: its id, namespace and name.
    pub async fn workflow_names(&self) -> Result<Vec<(Uuid, String, String)>> {
        Ok(read!(self, |conn| sqlx::query_as("SELECT id, namespace, name FROM workflows ORDER BY id")
            .fetch_all(conn)
            .await?))
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

/// The smallest UUID v7 of a month.
fn first_id(year: i64, month: i64) -> String {
    let hex = format!("{:012x}", month_start(year, month) / 1_000);
    format!("{}-{}-0000-0000-000000000000", &hex[..8], &hex[8..])
}
