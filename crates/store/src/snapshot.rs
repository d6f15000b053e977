//! Holds an old snapshot on purpose, to measure what a dump or a long analytical query costs other transactions.

use mainspring_boxed::boxed;

use crate::db::{Db, Store};
use crate::error::Result;

/// Holds a snapshot until it is dropped.
#[derive(Debug)]
pub struct HeldSnapshot {
    _connection: Option<sqlx::PgConnection>,
}

#[boxed]
impl Store {
    /// Opens a repeatable-read transaction that has seen something and does nothing (PostgreSQL; SQLite has none to hold).
    pub async fn hold_snapshot(&self) -> Result<HeldSnapshot> {
        let Db::Postgres(pg) = &*self.db else { return Ok(HeldSnapshot { _connection: None }) };
        // Of its own: it must never come to the pool with an open transaction.
        let mut connection = pg.pool.acquire().await?.detach();
        for statement in [
            "SET idle_in_transaction_session_timeout = 0",
            "BEGIN ISOLATION LEVEL REPEATABLE READ",
            "SELECT count(*) FROM lanes",
        ] {
            sqlx::raw_sql(statement).execute(&mut connection).await?;
        }
        Ok(HeldSnapshot { _connection: Some(connection) })
    }
}
