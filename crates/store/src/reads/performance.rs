//! How long runs took, for the built-in function that collects metrics.

use mainspring_boxed::boxed;
use mainspring_core::Micros;

use crate::db::{Store, read};
use crate::error::Result;

/// The runs of a namespace that ended within a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunDurations {
    pub runs: i64,
    pub average_ms: Option<i64>,
    pub longest_ms: Option<i64>,
}

#[boxed]
impl Store {
    /// Counts and measures the runs of a namespace that ended at or after `since`.
    pub async fn run_durations(&self, namespace: &str, since: Micros) -> Result<RunDurations> {
        let (runs, average, longest): (i64, Option<i64>, Option<i64>) = read!(self, |conn| sqlx::query_as(
            "SELECT count(*), CAST(avg(r.finished_at - r.started_at) AS bigint), max(r.finished_at - r.started_at) \
             FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE w.namespace = $1 AND r.finished_at >= $2"
        )
        .bind(namespace)
        .bind(since)
        .fetch_one(conn)
        .await?);
        let ms = |micros: Option<i64>| micros.map(|micros| micros / 1_000);
        Ok(RunDurations { runs, average_ms: ms(average), longest_ms: ms(longest) })
    }
}
