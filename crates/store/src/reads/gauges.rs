//! The values of gauges over the store.

use mainspring_boxed::boxed;
use mainspring_core::RunId;
use mainspring_core::dead_letter::Reason;
use mainspring_core::state::TaskState;

use crate::db::{Db, Store, read};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::reads::clauses::hex_ids;

const ENDS_WITHOUT_ATTEMPT: &str = sql!(
    "SELECT r.id, r.version, h.idx, h.state FROM runs r JOIN history h ON h.run_id = r.id AND h.generation = r.generation \
     WHERE h.attempt = 0 AND h.state IN ({task.upstream_failed}, {task.cancelled}, {task.skipped})"
);

#[boxed]
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

    /// The task runs of ended runs that were never executed: version, index, state.
    pub async fn ends_without_attempt(&self, runs: &[RunId]) -> Result<Vec<(i64, i32, TaskState)>> {
        let rows: Vec<(RunId, i64, i32, i16)> = match &*self.db {
            Db::Postgres(pg) => {
                let sql = sqlx::AssertSqlSafe(format!("{ENDS_WITHOUT_ATTEMPT} AND r.id = ANY ($1)"));
                sqlx::query_as(sql).bind(runs).fetch_all(&pg.pool).await?
            }
            Db::Sqlite(sqlite) => {
                let sql = format!("{ENDS_WITHOUT_ATTEMPT} AND r.id IN (SELECT unhex(k.value) FROM json_each($1) k)");
                sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(hex_ids(runs)).fetch_all(&sqlite.readers).await?
            }
        };
        rows.into_iter()
            .map(|(run, version, index, state)| {
                let state =
                    TaskState::try_from(state).map_err(|error| Error::bad_row("history", "state", run, error))?;
                Ok((version, index, state))
            })
            .collect()
    }
}
