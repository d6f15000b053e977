//! The hot units on PostgreSQL: one function call each (see `migrations/postgres`).

pub(crate) mod exchange;
pub(crate) mod fires;
pub(crate) mod limits;
pub(crate) mod runs;
pub(crate) mod settle;
pub(crate) mod transaction;
pub(crate) mod warm;

use mainspring_core::TaskKey;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::runs::exchange::{Claimed, TaskToken};

/// Whether the term is held; it is for the rest of the transaction then.
pub(crate) async fn hold_term(connection: &mut PgConnection, name: &str, epoch: i64, id: Uuid) -> Result<bool> {
    let held: Option<(i64,)> =
        sqlx::query_as("SELECT epoch FROM terms WHERE name = $1 AND epoch = $2 AND term_id = $3 FOR KEY SHARE")
            .bind(name)
            .bind(epoch)
            .bind(id)
            .fetch_optional(connection)
            .await?;
    Ok(held.is_some())
}

/// An answer row of `exchange_v1` and `settle_v1`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct AnswerRow {
    pub(crate) kind: i16,
    run_id: Option<Uuid>,
    idx: Option<i32>,
    item: Option<i32>,
    attempt: Option<i32>,
    failures: Option<i16>,
    generation: Option<i16>,
    version: Option<i64>,
    session: Option<i64>,
    route: Option<i32>,
    rank: Option<i16>,
    due_at: Option<i64>,
}

impl AnswerRow {
    pub(crate) fn claimed(&self) -> Claimed {
        Claimed {
            token: TaskToken {
                key: TaskKey {
                    run: self.run_id.unwrap_or_default(),
                    index: self.idx.unwrap_or(0),
                    item: self.item.unwrap_or(-1),
                },
                session: self.session.unwrap_or(0),
                attempt: self.attempt.unwrap_or(0),
            },
            version: self.version.unwrap_or(0),
            route: self.route.unwrap_or(0),
            rank: self.rank.unwrap_or(0),
            due_at: self.due_at.unwrap_or(0),
            failures: self.failures.unwrap_or(0),
            generation: self.generation.unwrap_or(0),
        }
    }
}
