//! Forgetting: whole runs, oldest first, in small transactions.

use mainspring_core::{Micros, RunId};
use sqlx::AssertSqlSafe;

use crate::db::{Db, Store, read, within};
use crate::error::Result;

const RUNS_PER_PURGE: i64 = 200;
const DAY_MICROS: i64 = 86_400_000_000;

/// Everything a run leaves behind, children first.
const TABLES: &[&str] = &["logs", "attempts", "history", "history_superseded", "operator_actions", "run_details", "cancel_requests", "continuations"];

impl Store {
    /// Deletes runs that ended before `before`, and everything of theirs but pending dead letters. Returns how many; call
    /// again until it is 0.
    pub async fn purge_runs(&self, before: Micros) -> Result<u64> {
        let old: Vec<(RunId,)> = read!(self, |conn| sqlx::query_as(
            "SELECT r.id FROM runs r WHERE r.state >= 3 AND r.finished_at < $1 \
             AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.run_id = r.id AND d.status = 0) ORDER BY r.id LIMIT $2"
        )
        .bind(before)
        .bind(RUNS_PER_PURGE)
        .fetch_all(conn)
        .await?);
        let mut purged = 0;
        for (id,) in old {
            let mut tx = self.begin().await?;
            // The state again, under the row's lock: it may have been reopened.
            let gone = within!(tx, |conn| sqlx::query("DELETE FROM runs WHERE id = $1 AND state >= 3 AND finished_at < $2")
                .bind(id)
                .bind(before)
                .execute(conn)
                .await?
                .rows_affected());
            if gone == 1 {
                for table in TABLES {
                    let sql = AssertSqlSafe(format!("DELETE FROM {table} WHERE run_id = $1"));
                    within!(tx, |conn| sqlx::query(sql).bind(id).execute(conn).await?.rows_affected());
                }
                within!(tx, |conn| sqlx::query("DELETE FROM dead_letters WHERE run_id = $1 AND status <> 0").bind(id).execute(conn).await?.rows_affected());
                within!(tx, |conn| sqlx::query("DELETE FROM submissions WHERE run_id = $1").bind(id).execute(conn).await?.rows_affected());
            }
            tx.commit().await?;
            purged += gone;
        }
        Ok(purged)
    }

    /// Makes the partitions of `history` for this month and the next two (PostgreSQL). Rows for which there is none land
    /// in the default partition, so being late loses nothing.
    pub async fn ensure_history_partitions(&self, now: Micros) -> Result<()> {
        let Db::Postgres(pg) = &*self.db else { return Ok(()) };
        let (mut year, mut month) = month_of(now);
        for _ in 0..3 {
            let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            let sql = format!(
                "CREATE TABLE IF NOT EXISTS history_{year:04}_{month:02} PARTITION OF history FOR VALUES FROM ('{}') TO ('{}')",
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

/// Days since the epoch → (year, month), by the civil-from-days algorithm.
fn month_of(at: Micros) -> (i64, i64) {
    let days = at.div_euclid(DAY_MICROS) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month)
}

/// The smallest UUID v7 of a month.
fn first_id(year: i64, month: i64) -> String {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let millis = (era * 146_097 + day_of_era - 719_468) * 86_400_000;
    let hex = format!("{millis:012x}");
    format!("{}-{}-0000-0000-000000000000", &hex[..8], &hex[8..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_and_their_first_ids() {
        assert_eq!(month_of(0), (1970, 1));
        assert_eq!(month_of(1_582_934_400_000_000), (2020, 2));
        assert_eq!(month_of(1_583_020_800_000_000), (2020, 3));
        assert_eq!(first_id(1970, 1), "00000000-0000-0000-0000-000000000000");
        // 2020-03-01T00:00:00Z is 1583020800000 ms.
        assert_eq!(first_id(2020, 3), format!("{}-{}-0000-0000-000000000000", &format!("{:012x}", 1_583_020_800_000i64)[..8], &format!("{:012x}", 1_583_020_800_000i64)[8..]));
    }
}
