//! Looks at the database past every proxy, however often it is restarted meanwhile.

use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, FromRow, PgConnection};

const BETWEEN_LOOKS: Duration = Duration::from_millis(15);

/// A connection that is made anew when it breaks.
#[derive(Debug)]
pub(super) struct Looking {
    url: String,
    connection: Option<PgConnection>,
}

/// An attempt that a worker executes: run, task, item, number.
pub(super) type Running = (String, i32, i32, i32);

impl Looking {
    pub(super) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), connection: None }
    }

    /// The rows of a text, or nothing if the database is away.
    pub(super) async fn rows<R>(&mut self, sql: &str) -> Option<Vec<R>>
    where
        R: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        if self.connection.is_none() {
            self.connection = PgConnection::connect(&self.url).await.ok();
        }
        let connection = self.connection.as_mut()?;
        match sqlx::query_as(AssertSqlSafe(sql.to_owned())).fetch_all(connection).await {
            Ok(rows) => Some(rows),
            Err(_) => {
                self.connection = None;
                None
            }
        }
    }

    pub(super) async fn number(&mut self, sql: &str) -> Option<i64> {
        self.rows::<(i64,)>(sql).await?.first().map(|row| row.0)
    }

    /// How long it takes from `since` until the text finds a row, at most that long.
    pub(super) async fn until_found(&mut self, since: Instant, sql: &str, most: Duration) -> Option<Duration> {
        while since.elapsed() < most {
            if self.rows::<(i32,)>(sql).await.is_some_and(|rows| !rows.is_empty()) {
                return Some(since.elapsed());
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        None
    }

    /// The name of the leader and its epoch.
    pub(super) async fn leader(&mut self) -> Option<(String, i64)> {
        let sql = "SELECT m.name, t.epoch FROM terms t JOIN members m ON m.node = t.node WHERE NOT t.released";
        self.rows(sql).await?.pop()
    }

    /// What a worker executes, as far as it is of interest.
    pub(super) async fn running(&mut self, worker: &str) -> Vec<Running> {
        let sql = format!(
            "SELECT t.run_id::text, t.idx, t.item, t.attempt FROM task_runs t JOIN sessions s ON s.id = t.session \
             JOIN runs r ON r.id = t.run_id WHERE t.state = 2 AND NOT s.dead AND s.worker = '{worker}' AND r.state = 1 AND r.flags & 12 = 0 \
             LIMIT 3"
        );
        self.rows(&sql).await.unwrap_or_default()
    }
}

/// Finds a row once a later attempt of this has been claimed.
pub(super) fn claimed_again((run, index, item, attempt): &Running) -> String {
    let same = format!("run_id = '{run}' AND idx = {index} AND item = {item} AND attempt > {attempt}");
    format!("SELECT 1 FROM task_runs WHERE {same} AND state = 2 UNION ALL SELECT 1 FROM history WHERE {same}")
}
