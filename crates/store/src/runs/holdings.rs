//! The claims of sessions, and the reasons why some of them must stop.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, RunId, TaskKey};

use crate::db::{Store, read};
use crate::error::Result;
use crate::runs::exchange::{Claimed, Reply, TaskToken};

#[boxed]
impl Store {
    /// Why attempts of a session are to be killed.
    pub async fn cancel_reasons(&self, session: i64) -> Result<HashMap<TaskToken, String>> {
        let rows: Vec<(RunId, i32, i32, i32, Option<String>)> = read!(self, |conn| sqlx::query_as(
            "SELECT run_id, idx, item, attempt, reason FROM cancel_requests WHERE session = $1"
        )
        .bind(session)
        .fetch_all(conn)
        .await?);
        let token = |run, index, item, attempt| TaskToken { key: TaskKey { run, index, item }, session, attempt };
        let told = |(run, index, item, attempt, reason): (_, _, _, _, Option<String>)| {
            Some((token(run, index, item, attempt), reason?))
        };
        Ok(rows.into_iter().filter_map(told).collect())
    }

    /// What the exchange with this claim number took and still holds.
    pub(crate) async fn claimed_by(&self, claim: i64, sessions: &[i64]) -> Result<Reply> {
        let mut reply = Reply::default();
        for session in sessions {
            let rows: Vec<ClaimRow> = read!(self, |conn| {
                sqlx::query_as(
                "SELECT run_id, idx, item, state, attempt, failures, generation, version, route, rank, due_at FROM task_runs \
                 WHERE session = $1 AND claim = $2 ORDER BY run_id, idx, item"
            )
            .bind(session)
            .bind(claim)
            .fetch_all(conn)
            .await?
            });
            for row in rows {
                let claimed = Claimed {
                    token: TaskToken {
                        key: TaskKey { run: row.run_id, index: row.idx, item: row.item },
                        session: *session,
                        attempt: row.attempt,
                    },
                    version: row.version,
                    route: row.route,
                    rank: row.rank,
                    due_at: row.due_at,
                    failures: row.failures,
                    generation: row.generation,
                };
                if row.state == TaskState::Deciding.code() {
                    reply.to_decide.push(claimed);
                } else {
                    reply.claimed.push(claimed);
                }
            }
        }
        Ok(reply)
    }
}

#[derive(sqlx::FromRow)]
struct ClaimRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    state: i16,
    attempt: i32,
    failures: i16,
    generation: i16,
    version: i64,
    route: i32,
    rank: i16,
    due_at: Micros,
}
