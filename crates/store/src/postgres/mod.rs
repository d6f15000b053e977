//! The hot units on PostgreSQL: one function call each (see `sql/postgres/functions`).

pub(crate) mod exchange;
pub(crate) mod fires;
pub(crate) mod functions;
pub(crate) mod limits;
pub(crate) mod runs;
pub(crate) mod settle;
pub(crate) mod submit;
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

/// The kinds of answer rows, for the functions that give them: `{answer.claimed}`.
pub(crate) const ANSWERS: &[(&str, i16)] = &[
    ("claimed", answer::CLAIMED),
    ("decide", answer::DECIDE),
    ("run_ended", answer::RUN_ENDED),
    ("fenced", answer::FENCED),
    ("cancel", answer::CANCEL),
    ("left", answer::LEFT),
    ("session_dead", answer::SESSION_DEAD),
    ("not_applied", answer::NOT_APPLIED),
];

pub(crate) mod answer {
    pub(crate) const CLAIMED: i16 = 1;
    pub(crate) const DECIDE: i16 = 2;
    /// Its state is in the column of the index, whether a parent waits in that of the item, whether it is followed in that
    /// of the attempt.
    pub(crate) const RUN_ENDED: i16 = 3;
    pub(crate) const FENCED: i16 = 4;
    pub(crate) const CANCEL: i16 = 5;
    /// Something of what was made is left for others to start or to decide.
    pub(crate) const LEFT: i16 = 6;
    pub(crate) const SESSION_DEAD: i16 = 8;
    /// The guard of the lane did not move.
    pub(crate) const NOT_APPLIED: i16 = 9;
}

/// An answer row of `exchange_v1`, `settle_v1` and `start_runs_v1`.
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
