//! Sessions of remote workers: registered over the network, carried by one node at a time, with a guard for their exchanges.

use mainspring_boxed::boxed;
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, RunId, TaskKey};
use uuid::Uuid;

use crate::db::{Db, Store, read, write};
use crate::error::Result;
use crate::runs::exchange::{Claimed, TaskToken};

/// A remote worker that registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRemoteSession {
    pub node: Uuid,
    pub worker: String,
    pub hostname: String,
    /// Joined by commas; empty means all.
    pub queues: String,
    pub labels: String,
    /// Joined by commas; `None` means all.
    pub namespaces: Option<String>,
    /// Processes, functions, remote tasks.
    pub slots: [i32; 3],
    /// Joined by commas.
    pub handlers: String,
    pub version: String,
    pub token_hash: Vec<u8>,
}

/// A live session of a remote worker, as any node needs it to carry it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct RemoteSessionRow {
    pub id: i64,
    pub worker: String,
    pub queues: String,
    pub labels: String,
    pub namespaces: Option<String>,
    pub slots: i32,
    pub function_slots: i32,
    pub remote_slots: i32,
    pub token_hash: Vec<u8>,
    pub draining: bool,
    pub dead: bool,
}

/// One exchange of a remote worker, at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerGuard {
    pub session: i64,
    pub seq: i64,
    pub node: Uuid,
    /// How many attempts the worker has and has not begun.
    pub backlog: i32,
}

/// What the guard of a remote worker's exchange says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeGuard {
    /// The next one, or the last one again: its answer was lost, or another node had begun it.
    Passed {
        /// Another node has carried the session since this one last did, if it ever did.
        moved: bool,
    },
    /// Neither; this was the last one.
    OutOfOrder { last: i64 },
    /// The session is dead, or there is none.
    Dead,
}

#[boxed]
impl Store {
    pub async fn open_remote_session(&self, now: Micros, session: &NewRemoteSession) -> Result<i64> {
        let (id,): (i64,) = write!(self, |conn| sqlx::query_as(
            "INSERT INTO sessions (node, worker, hostname, queues, labels, slots, remote, created_at, beat_at, \
             namespaces, function_slots, remote_slots, handlers, version, token_hash) \
             VALUES ($1, $2, $3, $4, $5, $6, TRUE, $7, $7, $8, $9, $10, $11, $12, $13) RETURNING id"
        )
        .bind(session.node)
        .bind(&session.worker)
        .bind(&session.hostname)
        .bind(&session.queues)
        .bind(&session.labels)
        .bind(session.slots[0])
        .bind(now)
        .bind(&session.namespaces)
        .bind(session.slots[1])
        .bind(session.slots[2])
        .bind(&session.handlers)
        .bind(&session.version)
        .bind(&session.token_hash)
        .fetch_one(conn)
        .await?);
        Ok(id)
    }

    pub async fn remote_session(&self, id: i64) -> Result<Option<RemoteSessionRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT id, worker, queues, labels, namespaces, slots, function_slots, remote_slots, token_hash, draining, dead \
             FROM sessions WHERE id = $1 AND remote AND token_hash IS NOT NULL"
        )
        .bind(id)
        .fetch_optional(conn)
        .await?
        }))
    }

    /// How many live sessions other than this one have the same worker id.
    pub async fn namesakes(&self, worker: &str, session: i64) -> Result<i64> {
        let (count,): (i64,) = read!(self, |conn| sqlx::query_as(
            "SELECT count(*) FROM sessions WHERE NOT dead AND worker = $1 AND id <> $2"
        )
        .bind(worker)
        .bind(session)
        .fetch_one(conn)
        .await?);
        Ok(count)
    }

    /// Moves the guard of a remote worker's exchanges, and the session to this node; that it came is a beat of its lease.
    /// Exchange n is begun only after n − 1; beginning it again is harmless, since results are fenced and claims are sent
    /// from what the worker holds.
    pub async fn guard_worker_exchange(&self, now: Micros, guard: WorkerGuard) -> Result<ExchangeGuard> {
        let id = guard.session;
        if let Some(before) = self.move_guard(now, guard).await? {
            return Ok(ExchangeGuard::Passed { moved: before != guard.node });
        }
        let row: Option<(i64, bool)> =
            write!(self, |conn| sqlx::query_as("SELECT seq, dead FROM sessions WHERE id = $1 AND remote")
                .bind(id)
                .fetch_optional(conn)
                .await?);
        Ok(match row {
            Some((last, false)) => ExchangeGuard::OutOfOrder { last },
            _ => ExchangeGuard::Dead,
        })
    }

    /// Passes the guard; returns the node that carried the session until now.
    async fn move_guard(&self, now: Micros, guard: WorkerGuard) -> Result<Option<Uuid>> {
        let before: Option<(Uuid,)> = match &*self.db {
            Db::Postgres(pg) => {
                sqlx::query_as(
                    "WITH before AS (SELECT id, node FROM sessions WHERE id = $1 FOR UPDATE) \
                     UPDATE sessions SET seq = $2, node = $3, beat = beat + 1, beat_at = $4, backlog = $5 FROM before \
                     WHERE sessions.id = before.id AND NOT dead AND remote AND seq IN ($2 - 1, $2) RETURNING before.node",
                )
                .bind(guard.session)
                .bind(guard.seq)
                .bind(guard.node)
                .bind(now)
                .bind(guard.backlog)
                .fetch_optional(&pg.pool)
                .await?
            }
            Db::Sqlite(sqlite) => {
                // The writer is held over both: no other statement comes in between.
                let mut writer = sqlite.writer().await?;
                let before = sqlx::query_as("SELECT node FROM sessions WHERE id = $1")
                    .bind(guard.session)
                    .fetch_optional(writer.connection())
                    .await?;
                let passed = sqlx::query(
                    "UPDATE sessions SET seq = $2, node = $3, beat = beat + 1, beat_at = $4, backlog = $5 \
                     WHERE id = $1 AND NOT dead AND remote AND seq IN ($2 - 1, $2)",
                )
                .bind(guard.session)
                .bind(guard.seq)
                .bind(guard.node)
                .bind(now)
                .bind(guard.backlog)
                .execute(writer.connection())
                .await?;
                before.filter(|_| passed.rows_affected() > 0)
            }
        };
        Ok(before.map(|(node,)| node))
    }

    /// Renews the lease of the node's own session, and of the remote ones that it has heard from. Returns every session of
    /// the node that was renewed: its id, whether it takes no more work, whether it is a remote one.
    pub async fn renew(&self, now: Micros, node: Uuid, in_contact: &[i64]) -> Result<Vec<(i64, bool, bool)>> {
        let rows = match &*self.db {
            Db::Postgres(pg) => {
                sqlx::query_as(
                    "UPDATE sessions SET beat = beat + 1, beat_at = $2 \
                     WHERE node = $1 AND NOT dead AND (NOT remote OR id = ANY ($3)) RETURNING id, draining, remote",
                )
                .bind(node)
                .bind(now)
                .bind(in_contact)
                .fetch_all(&pg.pool)
                .await?
            }
            Db::Sqlite(sqlite) => {
                let mut writer = sqlite.writer().await?;
                sqlx::query_as(
                    "UPDATE sessions SET beat = beat + 1, beat_at = $2 \
                     WHERE node = $1 AND NOT dead AND (NOT remote OR id IN (SELECT value FROM json_each($3))) \
                     RETURNING id, draining, remote",
                )
                .bind(node)
                .bind(now)
                .bind(serde_json::to_string(in_contact).unwrap_or_default())
                .fetch_all(writer.connection())
                .await?
            }
        };
        Ok(rows)
    }

    /// Everything that a session is to execute now.
    pub async fn claims_of(&self, session: i64) -> Result<Vec<Claimed>> {
        let rows: Vec<ClaimRow> = read!(self, |conn| sqlx::query_as(
            "SELECT run_id, idx, item, attempt, failures, generation, version, route, rank, due_at FROM task_runs \
             WHERE session = $1 AND state = $2 ORDER BY run_id, idx, item"
        )
        .bind(session)
        .bind(TaskState::Running.code())
        .fetch_all(conn)
        .await?);
        Ok(rows.into_iter().map(|row| row.claimed(session)).collect())
    }

    /// Whether a result of this attempt was applied, under exactly this session.
    pub async fn was_applied(&self, token: TaskToken) -> Result<bool> {
        let (applied,): (bool,) = read!(self, |conn| {
            sqlx::query_as(
            "SELECT EXISTS (SELECT 1 FROM history WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND session = $5) \
             OR EXISTS (SELECT 1 FROM attempts WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 AND session = $5)"
        )
        .bind(token.key.run)
        .bind(token.key.index)
        .bind(token.key.item)
        .bind(token.attempt)
        .bind(token.session)
        .fetch_one(conn)
        .await?
        });
        Ok(applied)
    }

    /// How many lines of an attempt are stored, where chunks are numbered by their first line.
    pub async fn log_end(&self, key: TaskKey, attempt: i32) -> Result<i64> {
        let row: Option<(i32, String)> = read!(self, |conn| {
            sqlx::query_as(
            "SELECT chunk, lines FROM logs WHERE run_id = $1 AND idx = $2 AND item = $3 AND attempt = $4 ORDER BY chunk DESC LIMIT 1"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .bind(attempt)
        .fetch_optional(conn)
        .await?
        });
        let Some((chunk, text)) = row else { return Ok(0) };
        let lines: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
        Ok(i64::from(chunk) - 1 + lines.len() as i64)
    }
}

#[derive(sqlx::FromRow)]
struct ClaimRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    attempt: i32,
    failures: i16,
    generation: i16,
    version: i64,
    route: i32,
    rank: i16,
    due_at: Micros,
}

impl ClaimRow {
    fn claimed(self, session: i64) -> Claimed {
        let key = TaskKey { run: self.run_id, index: self.idx, item: self.item };
        Claimed {
            token: TaskToken { key, session, attempt: self.attempt },
            version: self.version,
            route: self.route,
            rank: self.rank,
            due_at: self.due_at,
            failures: self.failures,
            generation: self.generation,
        }
    }
}
