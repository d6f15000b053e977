//! What gauges show of the store.

use crate::db::{Store, read};
use crate::error::Result;

/// Reasons of dead letters by their number in the table.
const REASONS: [&str; 6] = [
    "staleness_timeout",
    "max_retries_exceeded",
    "dependency_cycle_detected",
    "worker_unavailable",
    "poison_pill",
    "manual_dlq",
];

impl Store {
    /// How many dead letters are pending, by reason; a reason without any is there with 0.
    pub async fn dead_letters_by_reason(&self) -> Result<Vec<(String, u64)>> {
        let rows: Vec<(i16, i64)> = read!(self, |conn| sqlx::query_as(
            "SELECT reason, count(*) FROM dead_letters WHERE resolved_at IS NULL AND status = $1 GROUP BY reason"
        )
        .bind(0_i16)
        .fetch_all(conn)
        .await?);
        let count = |number: usize| rows.iter().find(|(reason, _)| usize::try_from(*reason) == Ok(number));
        Ok(REASONS
            .iter()
            .enumerate()
            .map(|(number, name)| {
                ((*name).to_owned(), count(number).map_or(0, |(_, n)| u64::try_from(*n).unwrap_or(0)))
            })
            .collect())
    }
}
