//! Forgetting sessions that nothing names any more.

use mainspring_boxed::boxed;
use mainspring_core::Micros;

use crate::db::{Store, read, write};
use crate::error::Result;

/// How many sessions one statement deletes.
const SESSIONS_AT_ONCE: i64 = 1_000;

#[boxed]
impl Store {
    /// Forgets a chunk of the sessions that ended before this time; how many. Lists and histories of runs show a worker by its
    /// session: one that a run may name stays. A run names no session that ended before it was made, and ids of runs grow with
    /// time, so the oldest run says which may go. `margin` is how far clocks of nodes may be apart.
    pub async fn forget_sessions(&self, before: Micros, margin: Micros) -> Result<u64> {
        let oldest: Option<(Micros,)> = read!(self, |conn| {
            sqlx::query_as("SELECT created_at FROM runs ORDER BY id LIMIT 1").fetch_optional(conn).await?
        });
        let before = oldest.map_or(before, |(created,)| before.min(created - margin));
        Ok(write!(
            self,
            sqlx::query(
                "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE dead AND ended_at < $1 AND NOT EXISTS \
                 (SELECT 1 FROM task_runs t WHERE t.session = sessions.id) ORDER BY id LIMIT $2)"
            )
            .bind(before)
            .bind(SESSIONS_AT_ONCE)
        ))
    }
}
