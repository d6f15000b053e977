//! Telling other processes that something may be claimable. A hint, never more: every node also looks by itself.

use mainspring_boxed::boxed;

use crate::db::{Db, Store};
use crate::error::Result;

const CHANNEL: &str = "mainspring_wake";

/// Hears the announcements of other processes.
#[derive(Debug)]
pub struct Listener {
    inner: Option<sqlx::postgres::PgListener>,
}

#[boxed]
impl Store {
    /// PostgreSQL: a NOTIFY of its own, never inside a unit, where it would cost throughput. SQLite: nothing to tell.
    /// `from` names the announcing process, so that it does not wake itself.
    pub async fn announce(&self, from: &str) -> Result<()> {
        self.notify(CHANNEL, from).await
    }

    pub(crate) async fn notify(&self, channel: &str, text: &str) -> Result<()> {
        if let Db::Postgres(pg) = &*self.db {
            // A hint need not survive a crash, so its commit does not wait for the disk.
            sqlx::query("SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)")
                .bind(channel)
                .bind(text)
                .execute(&pg.pool)
                .await?;
        }
        Ok(())
    }

    pub async fn listen(&self) -> Result<Listener> {
        self.listen_to(CHANNEL).await
    }

    pub(crate) async fn listen_to(&self, channel: &str) -> Result<Listener> {
        let inner = match &*self.db {
            Db::Postgres(pg) => {
                let mut listener = sqlx::postgres::PgListener::connect_with(&pg.pool).await?;
                listener.listen(channel).await?;
                Some(listener)
            }
            Db::Sqlite(_) => None,
        };
        Ok(Listener { inner })
    }
}

#[boxed]
impl Listener {
    /// Waits for the next announcement and returns its text (who announces, if it is a wake-up); never returns where there are none.
    pub async fn next_message(&mut self) -> Result<String> {
        match &mut self.inner {
            Some(listener) => Ok(listener.recv().await?.payload().to_owned()),
            None => std::future::pending().await,
        }
    }

    /// Whether announcements can arrive at all.
    pub fn hears(&self) -> bool {
        self.inner.is_some()
    }
}
