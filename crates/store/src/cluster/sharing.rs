//! Requests of idle workers for a share of what others hold and have not begun.

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::state::TaskState;

use crate::db::{Db, Store, write};
use crate::error::Result;

#[boxed]
impl Store {
    /// Asks the worker with the largest backlog on these routes for half of it. `None` if none has more than it can begin,
    /// or all that have are asked already. A request that was not seen to for a while is replaced.
    pub async fn ask_to_share(&self, now: Micros, thief: i64, routes: &[i32]) -> Result<Option<i64>> {
        let row: Option<(i64,)> = match &*self.db {
            Db::Postgres(pg) => {
                sqlx::query_as(
                    "INSERT INTO steal_requests (victim, thief, wanted, created_at) \
                     SELECT s.id, $1, (s.backlog + 1) / 2, $2 FROM sessions s \
                     WHERE NOT s.dead AND s.remote AND s.backlog > 0 AND s.id <> $1 \
                       AND NOT EXISTS (SELECT 1 FROM steal_requests q WHERE q.victim = s.id) \
                       AND EXISTS (SELECT 1 FROM task_runs t WHERE t.session = s.id AND t.state = $3 AND t.route = ANY ($4)) \
                     ORDER BY s.backlog DESC, s.id LIMIT 1 ON CONFLICT DO NOTHING RETURNING victim",
                )
                .bind(thief)
                .bind(now)
                .bind(TaskState::Running.code())
                .bind(routes)
                .fetch_optional(&pg.pool)
                .await?
            }
            Db::Sqlite(sqlite) => {
                let mut writer = sqlite.writer().await?;
                sqlx::query_as(
                    "INSERT INTO steal_requests (victim, thief, wanted, created_at) \
                     SELECT s.id, $1, (s.backlog + 1) / 2, $2 FROM sessions s \
                     WHERE NOT s.dead AND s.remote AND s.backlog > 0 AND s.id <> $1 \
                       AND NOT EXISTS (SELECT 1 FROM steal_requests q WHERE q.victim = s.id) \
                       AND EXISTS (SELECT 1 FROM task_runs t WHERE t.session = s.id AND t.state = $3 \
                                   AND t.route IN (SELECT value FROM json_each($4))) \
                     ORDER BY s.backlog DESC, s.id LIMIT 1 ON CONFLICT DO NOTHING RETURNING victim",
                )
                .bind(thief)
                .bind(now)
                .bind(TaskState::Running.code())
                .bind(serde_json::to_string(routes).unwrap_or_default())
                .fetch_optional(writer.connection())
                .await?
            }
        };
        Ok(row.map(|(victim,)| victim))
    }

    /// Takes the requests to these sessions: who is asked for how much. Those to sessions that are dead go too.
    pub async fn take_share_requests(&self, victims: &[i64]) -> Result<Vec<(i64, i32)>> {
        let victims = serde_json::to_string(victims).unwrap_or_default();
        let sql = match &*self.db {
            Db::Postgres(_) => {
                "DELETE FROM steal_requests WHERE victim IN (SELECT value::bigint FROM json_array_elements_text($1::json)) \
                 OR NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = victim AND NOT s.dead) RETURNING victim, wanted"
            }
            Db::Sqlite(_) => {
                "DELETE FROM steal_requests WHERE victim IN (SELECT value FROM json_each($1)) \
                 OR NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = victim AND NOT s.dead) RETURNING victim, wanted"
            }
        };
        Ok(write!(self, |conn| sqlx::query_as(sql).bind(victims).fetch_all(conn).await?))
    }
}
