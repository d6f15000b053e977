//! A transaction that never leaves its connection half-way.
//!
//! A future can be dropped at any await, also while `BEGIN` is on its way: sqlx's own transaction takes that for one that
//! never began, and the connection goes back to the pool inside a transaction. This one is rolled back whenever it was
//! not seen to its end, and a connection whose state is unknown is closed.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};

use crate::error::{Error, Result};
use crate::unit::Joined;

/// A connection that does not roll back within this time is closed.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(5);
/// How many connections may turn out to be dead before a transaction is refused. `BEGIN` applies nothing, so it may be
/// repeated on another connection.
const BEGIN_ATTEMPTS: usize = 3;

/// Dropped without [`PgTx::commit`], it is rolled back before its connection is used again.
#[derive(Debug)]
pub(crate) struct PgTx {
    /// `None` once finished.
    connection: Option<PoolConnection<Postgres>>,
    /// The unit of a request that this is a step of.
    joined: Option<Box<Joined>>,
}

impl PgTx {
    pub(crate) async fn begin(pool: &PgPool) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match Self::begin_on(acquire(pool).await?).await {
                Err(Error::Unavailable(error)) if attempt < BEGIN_ATTEMPTS => {
                    tracing::debug!(%error, "a pooled connection was dead; another one is taken");
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Begins on a connection that is held already.
    pub(crate) async fn begin_on(connection: PoolConnection<Postgres>) -> Result<Self> {
        Self::begin_with(connection, "BEGIN").await
    }

    /// Begins a transaction whose locks others wait for: if it stalls, the database soon ends it.
    pub(crate) async fn begin_brief_on(connection: PoolConnection<Postgres>) -> Result<Self> {
        Self::begin_with(connection, "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '3s'").await
    }

    async fn begin_with(connection: PoolConnection<Postgres>, statements: &'static str) -> Result<Self> {
        // Before the first await: whatever is dropped from here on is rolled back.
        let mut tx = Self { connection: Some(connection), joined: None };
        match sqlx::raw_sql(statements).execute(&mut *tx).await {
            Ok(_) => Ok(tx),
            Err(error) => {
                tx.close();
                Err(error.into())
            }
        }
    }

    /// The same transaction as a step of a request's unit.
    pub(crate) fn lent(mut self, joined: Joined) -> Self {
        Self { connection: self.connection.take(), joined: Some(Box::new(joined)) }
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        if self.joined.is_none() {
            return self.commit_keeping().await.map(drop);
        }
        sqlx::raw_sql("RELEASE SAVEPOINT request_step").execute(&mut *self).await?;
        if let Some(joined) = &mut self.joined {
            joined.done();
        }
        Ok(())
    }

    /// The same, and gives the connection back for more.
    pub(crate) async fn commit_keeping(self) -> Result<PoolConnection<Postgres>> {
        self.end("COMMIT").await
    }

    /// Undoes it, and gives the connection back for more.
    pub(crate) async fn roll_back(self) -> Result<PoolConnection<Postgres>> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<PoolConnection<Postgres>> {
        match sqlx::raw_sql(statement).execute(&mut *self).await {
            Ok(_) => Ok(self.connection.take().expect("an unfinished transaction has a connection")),
            Err(error) => {
                self.close();
                Err(error.into())
            }
        }
    }

    /// Closes the connection: the server then rolls back whatever is open on it.
    fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

/// A connection of the pool. One that cannot be made refuses nothing that it was to carry, whatever the reason.
pub(crate) async fn acquire(pool: &PgPool) -> Result<PoolConnection<Postgres>> {
    pool.acquire().await.map_err(Error::Unavailable)
}

impl Deref for PgTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_deref().expect("an unfinished transaction has a connection")
    }
}

impl DerefMut for PgTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_deref_mut().expect("an unfinished transaction has a connection")
    }
}

impl Drop for PgTx {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if let Some(mut joined) = self.joined.take() {
            // Unless it was done, the request undoes this step before its next one.
            joined.give_back(Self { connection: Some(connection), joined: None });
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            drop(connection.detach());
            return;
        };
        runtime.spawn(async move {
            let rollback = sqlx::raw_sql("ROLLBACK").execute(&mut *connection);
            match tokio::time::timeout(ROLLBACK_TIMEOUT, rollback).await {
                // It goes back to the pool.
                Ok(Ok(_)) => {}
                _ => drop(connection.detach()),
            }
        });
    }
}

/// Whether a connection that comes back to the pool is outside a transaction; it is closed otherwise. The simple protocol
/// is needed: only there a statement outside a transaction begins at the same instant as the one it makes for itself.
pub(crate) async fn is_outside(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::Executor::fetch_one(connection, sqlx::raw_sql("SELECT now() = statement_timestamp()")).await?;
    let is_outside: bool = sqlx::Row::try_get(&row, 0)?;
    if !is_outside {
        tracing::error!("a connection came back inside a transaction and is closed");
    }
    Ok(is_outside)
}
