//! Named locks with a fencing value: what must not run twice at the same time, but is not a unit of the store.
//!
//! As with terms, nothing here compares clocks. A waiting process measures by itself how long the holder's beat stood
//! still, and takes the lock over from exactly the state that it saw.

use mainspring_boxed::boxed;
use uuid::Uuid;

use crate::db::{Store, read, write};
use crate::error::Result;

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct LockRow {
    pub name: String,
    /// Rises with every holder: it distinguishes the writes of a later holder from those of an earlier one.
    pub fence: i64,
    pub holder: Uuid,
    pub holder_name: String,
    /// How long its beat may stand still.
    pub ttl_ms: i64,
    pub beat: i64,
    pub released: bool,
}

const COLUMNS: &str = "name, fence, holder, holder_name, ttl_ms, beat, released";

#[boxed]
impl Store {
    pub async fn lock_row(&self, name: &str) -> Result<Option<LockRow>> {
        let sql = sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM locks WHERE name = $1"));
        Ok(read!(self, |conn| sqlx::query_as(sql).bind(name).fetch_optional(conn).await?))
    }

    /// Takes the lock from exactly the state that was `seen`; `None` if another process was faster.
    pub async fn take_lock(
        &self,
        name: &str,
        holder: Uuid,
        holder_name: &str,
        ttl_ms: i64,
        seen: Option<&LockRow>,
    ) -> Result<Option<LockRow>> {
        let sql = sqlx::AssertSqlSafe(match seen {
            None => format!(
                "INSERT INTO locks (name, fence, holder, holder_name, ttl_ms, beat, released) \
                 VALUES ($1, 1, $2, $3, $4, 0, FALSE) ON CONFLICT DO NOTHING RETURNING {COLUMNS}"
            ),
            Some(_) => format!(
                "UPDATE locks SET fence = fence + 1, holder = $2, holder_name = $3, ttl_ms = $4, beat = 0, \
                 released = FALSE WHERE name = $1 AND fence = $5 AND beat = $6 RETURNING {COLUMNS}"
            ),
        });
        Ok(write!(self, |conn| {
            let query = sqlx::query_as(sql).bind(name).bind(holder).bind(holder_name).bind(ttl_ms);
            let query = match seen {
                None => query,
                Some(seen) => query.bind(seen.fence).bind(seen.beat),
            };
            query.fetch_optional(conn).await?
        }))
    }

    /// The holder says that it still needs the lock; false if it was taken over.
    pub async fn beat_lock(&self, name: &str, fence: i64, holder: Uuid) -> Result<bool> {
        let sql = "UPDATE locks SET beat = beat + 1 WHERE name = $1 AND fence = $2 AND holder = $3 AND NOT released";
        Ok(write!(self, sqlx::query(sql).bind(name).bind(fence).bind(holder)) == 1)
    }

    /// Gives the lock up, so that another process takes it at once. The row stays: its fencing value must rise.
    pub async fn release_lock(&self, name: &str, fence: i64, holder: Uuid) -> Result<()> {
        let sql = "UPDATE locks SET released = TRUE, beat = beat + 1 WHERE name = $1 AND fence = $2 AND holder = $3";
        write!(self, sqlx::query(sql).bind(name).bind(fence).bind(holder));
        Ok(())
    }
}
