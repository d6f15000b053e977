//! Transactions that should have ended: connections that hold one and do nothing with it.

use std::time::Duration;

use anyhow::Context;
use sqlx::{Connection, PgConnection};

use crate::invariants::Violation;
use crate::wait::until;

/// A connection of a pool is rolled back at once; this is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is wrong if a transaction of the database outlives its statement although nothing is asked of it any more. SQLite
/// has one writer: the next write finds out.
pub async fn check(url: &str) -> anyhow::Result<Vec<Violation>> {
    if !url.starts_with("postgres") {
        return Ok(Vec::new());
    }
    let ended = until("no transaction is left open", PATIENCE, async || Ok(open(url).await?.is_empty().then_some(())));
    if ended.await.is_ok() {
        return Ok(Vec::new());
    }
    let violation = |subject| Violation { invariant: "no transaction is left open", subject };
    Ok(open(url).await?.into_iter().map(violation).collect())
}

/// Every connection that is idle inside a transaction, with what it did last.
pub async fn open(url: &str) -> anyhow::Result<Vec<String>> {
    let mut connection = PgConnection::connect(url).await.context("looking for open transactions")?;
    let rows: Vec<(String,)> = sqlx::query_as(
        "SELECT format('%s since %s: %s', pid, now() - xact_start, query) FROM pg_stat_activity \
         WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
    )
    .fetch_all(&mut connection)
    .await?;
    _ = connection.close().await;
    Ok(rows.into_iter().map(|row| row.0).collect())
}
