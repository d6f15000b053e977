//! What gauges show of the store.

use mainspring_core::dead_letter::Reason;

use crate::db::{Store, read};
use crate::error::Result;
use crate::names::sql;

impl Store {
    /// How many dead letters are pending, by reason; a reason without any is there with 0.
    pub async fn dead_letters_by_reason(&self) -> Result<Vec<(String, u64)>> {
        let rows: Vec<(i16, i64)> = read!(self, |conn| sqlx::query_as(sql!(
            "SELECT reason, count(*) FROM dead_letters WHERE status = {letter.pending} GROUP BY reason"
        ))
        .fetch_all(conn)
        .await?);
        let count = |reason: Reason| rows.iter().find(|(code, _)| *code == reason.code()).map_or(0, |row| row.1);
        let counted = |reason: &Reason| (reason.word().to_owned(), u64::try_from(count(*reason)).unwrap_or(0));
        Ok(Reason::ALL.iter().map(counted).collect())
    }
}
