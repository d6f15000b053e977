//! A few connections that callers pass on directly instead of returning them to the pool.
//!
//! The pool takes the connection that rested longest and asks it for a sign of life whenever it is given back. For a unit
//! of one statement both are dear: the plans and the memory of a backend that has just done the same are warm, those of
//! the next one are not.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgPool, Postgres};

use crate::db::{PING_TIMEOUT, TRUSTED_FOR};
use crate::error::Result;
use crate::postgres::transaction;

/// Enough for callers that submit at the same time without waiting; other callers use the pool.
const AT_MOST: usize = 2;

/// A connection, and since when it is not used.
#[derive(Debug)]
struct IdleConnection {
    connection: PoolConnection<Postgres>,
    since: Instant,
}

#[derive(Debug)]
pub(crate) struct Warm {
    /// The one used last is on top. `None` when the store is being closed.
    stack: Mutex<Option<Vec<IdleConnection>>>,
    size: usize,
}

impl Warm {
    /// A small pool keeps all of its connections to itself.
    pub(crate) fn new(pool_size: u32) -> Self {
        Self { stack: Mutex::new(Some(Vec::new())), size: AT_MOST.min(pool_size as usize / 4) }
    }

    /// How many it keeps at most.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The connection used last, or one of the pool.
    pub(crate) async fn take(&self, pool: &PgPool) -> Result<PoolConnection<Postgres>> {
        while let Some(IdleConnection { mut connection, since }) = self.pop() {
            if since.elapsed() < TRUSTED_FOR {
                return Ok(connection);
            }
            match tokio::time::timeout(PING_TIMEOUT, connection.ping()).await {
                Ok(Ok(())) => return Ok(connection),
                // From before an outage.
                _ => drop(connection.detach()),
            }
        }
        transaction::acquire(pool).await
    }

    fn pop(&self) -> Option<IdleConnection> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(Vec::pop)
    }

    /// Takes a connection back after a call that succeeded. After any other call the pool gets it, and tests it before its next use.
    pub(crate) fn keep(&self, connection: PoolConnection<Postgres>) {
        let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stack) = stack.as_mut().filter(|stack| stack.len() < self.size) {
            stack.push(IdleConnection { connection, since: Instant::now() });
        }
    }

    /// Gives everything to the pool, which waits for it when it is closed.
    pub(crate) fn close(&self) {
        *self.stack.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        // Going back to the pool would need a runtime, and there may be none any more.
        let stack = self.stack.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        stack.into_iter().flatten().for_each(|rested| drop(rested.connection.detach()));
    }
}
