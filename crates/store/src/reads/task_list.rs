//! Task runs across runs, and what stands in the way of one of them.

use std::collections::{HashMap, HashSet};

use mainspring_boxed::boxed;
use mainspring_core::staleness::Phase;
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, TaskKey};
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::cluster::sessions::SessionRow;
use crate::db::{Acquired, Store, read};
use crate::error::Result;
use crate::names::sql;
use crate::reads::clauses::{hex_ids, in_namespaces};
use crate::reads::rows::{TaskRow, TaskRunRow};
use crate::runs::limits::LimitRow;

/// Which task runs to list; those of the newest runs first, within a run in the order of its tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskRunFilter {
    /// As people see it.
    pub state: Option<TaskState>,
    pub run: Option<Uuid>,
    pub workflow: Option<Uuid>,
    /// `None` is all of them.
    pub namespaces: Option<Vec<String>>,
    /// The name of the worker that executes or executed it.
    pub worker: Option<String>,
    pub queue: Option<String>,
    /// Of runs made since then.
    pub since: Option<Micros>,
    /// Of runs made before then.
    pub until: Option<Micros>,
    /// Only those behind this one: the cursor.
    pub after: Option<TaskKey>,
    pub limit: i64,
}

#[derive(sqlx::FromRow)]
struct Listed {
    #[sqlx(flatten)]
    task: TaskRow,
    version: i64,
}

impl TaskRunFilter {
    /// Whether live rows can match, and which of their states.
    fn live(&self) -> Option<Vec<i16>> {
        match self.state {
            None => Some(Vec::new()),
            Some(state) if state.is_terminal() => None,
            Some(wanted) => Some(
                TaskState::ALL
                    .iter()
                    .filter(|state| !state.is_terminal() && state.shown() == wanted)
                    .map(|state| state.code())
                    .collect(),
            ),
        }
    }

    /// Whether ended rows can match.
    fn ended(&self) -> bool {
        self.state.is_none_or(TaskState::is_terminal)
    }
}

/// Ids of runs carry the time at which they were made: the least one of a time.
pub(crate) fn first_id(at: Micros) -> Uuid {
    let millis = u128::try_from(at / 1_000).unwrap_or(0).min((1 << 48) - 1);
    Uuid::from_u128(millis << 80)
}

const LIVE: &str = "SELECT t.run_id, t.idx, t.item, t.state, t.generation, t.attempt, t.failures, t.max_failures, t.lost, t.session, t.due_at, t.started_at, \
    CAST(NULL AS bigint) AS finished_at, CAST(NULL AS bigint) AS seq, CAST(NULL AS integer) AS exit_code, CAST(NULL AS text) AS error_kind, \
    CAST(NULL AS text) AS error, CAST(NULL AS text) AS detail, CAST(NULL AS text) AS output, r.version \
    FROM task_runs t JOIN runs r ON r.id = t.run_id JOIN workflows w ON w.id = r.workflow_id WHERE 1 = 1";
const ENDED: &str = "SELECT t.run_id, t.idx, t.item, t.state, t.generation, t.attempt, t.failures, CAST(NULL AS smallint) AS max_failures, t.lost, t.session, \
    CAST(NULL AS bigint) AS due_at, t.started_at, t.finished_at, t.seq, t.exit_code, t.error_kind, t.error, t.detail, t.output, r.version \
    FROM history t JOIN runs r ON r.id = t.run_id JOIN workflows w ON w.id = r.workflow_id WHERE 1 = 1";

macro_rules! filtered {
    ($database:ty, $select:expr, $states:expr, $filter:expr) => {{
        let (states, filter): (&[i16], &TaskRunFilter) = ($states, $filter);
        let mut query = QueryBuilder::<$database>::new($select);
        if !states.is_empty() {
            query.push(" AND t.state IN (");
            let mut list = query.separated(", ");
            for state in states {
                list.push_bind(*state);
            }
            query.push(")");
        }
        if let Some(run) = filter.run {
            query.push(" AND t.run_id = ").push_bind(run);
        }
        if let Some(workflow) = filter.workflow {
            query.push(" AND r.workflow_id = ").push_bind(workflow);
        }
        in_namespaces!(query, &filter.namespaces);
        if let Some(worker) = &filter.worker {
            query.push(" AND t.session IN (SELECT id FROM sessions WHERE worker = ").push_bind(worker).push(")");
        }
        if let Some(queue) = &filter.queue {
            query
                .push(
                    " AND EXISTS (SELECT 1 FROM version_tasks vt JOIN routes o ON o.id = vt.route \
                     WHERE vt.version = r.version AND vt.idx = t.idx AND o.queue = ",
                )
                .push_bind(queue)
                .push(")");
        }
        if let Some(since) = filter.since {
            query.push(" AND t.run_id >= ").push_bind(first_id(since));
        }
        if let Some(until) = filter.until {
            query.push(" AND t.run_id < ").push_bind(first_id(until));
        }
        if let Some(after) = filter.after {
            query.push(" AND (t.run_id < ").push_bind(after.run).push(" OR t.run_id = ").push_bind(after.run);
            query.push(" AND (t.idx, t.item) > (").push_bind(after.index).push(", ").push_bind(after.item).push("))");
        }
        query.push(" ORDER BY t.run_id DESC, t.idx, t.item LIMIT ").push_bind(filter.limit);
        query
    }};
}

#[boxed]
impl Store {
    /// Task runs with the version that each is of.
    pub async fn list_task_runs(&self, filter: &TaskRunFilter) -> Result<Vec<(TaskRunRow, i64)>> {
        let mut all: Vec<(TaskRunRow, i64)> = Vec::new();
        // Live ones first: what ends in between appears in both, and the ended one wins.
        if let Some(states) = filter.live() {
            all.extend(self.listed(LIVE, &states, filter).await?);
        }
        if filter.ended() {
            let states: Vec<i16> = filter.state.iter().map(|state| state.code()).collect();
            let ended = self.listed(ENDED, &states, filter).await?;
            let over: HashSet<TaskKey> = ended.iter().map(|row| row.0.key).collect();
            all.retain(|row| !over.contains(&row.0.key));
            all.extend(ended);
        }
        all.sort_by(|(one, _), (other, _)| {
            let order = |row: &TaskRunRow| (row.key.index, row.key.item);
            other.key.run.cmp(&one.key.run).then_with(|| order(one).cmp(&order(other)))
        });
        all.truncate(usize::try_from(filter.limit).unwrap_or(0));
        Ok(all)
    }

    async fn listed(
        &self,
        select: &'static str,
        states: &[i16],
        filter: &TaskRunFilter,
    ) -> Result<Vec<(TaskRunRow, i64)>> {
        let rows: Vec<Listed> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                filtered!(sqlx::Postgres, select, states, filter).build_query_as().fetch_all(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                filtered!(sqlx::Sqlite, select, states, filter)
                    .build_query_as()
                    .fetch_all(sqlite.connection().await?)
                    .await?
            }
        };
        rows.into_iter().map(|row| Ok((TaskRunRow::try_from(row.task)?, row.version))).collect()
    }

    /// The concurrency limit that a run waits for, if it does.
    pub async fn run_waits_for(&self, run: Uuid) -> Result<Option<LimitRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT l.id, l.kind, l.key, l.capacity, l.held FROM runs r JOIN limits l ON l.id = r.waits_for WHERE r.id = $1"
        )
        .bind(run)
        .fetch_optional(conn)
        .await?
        }))
    }

    /// In which phase open runs are; those without a live task run are missing.
    pub async fn phases(&self, runs: &[Uuid]) -> Result<HashMap<Uuid, Phase>> {
        let rows: Vec<(Uuid, i32)> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as(
                    "SELECT run_id, max(CASE state WHEN 2 THEN 2 WHEN 3 THEN 1 ELSE 0 END) FROM task_runs WHERE run_id = ANY ($1) GROUP BY run_id",
                )
                .bind(runs)
                .fetch_all(pg.connection())
                .await?
            }
            Acquired::Sqlite(sqlite) => {
                sqlx::query_as(
                    "SELECT t.run_id, max(CASE t.state WHEN 2 THEN 2 WHEN 3 THEN 1 ELSE 0 END) \
                     FROM json_each($1) j CROSS JOIN task_runs t ON t.run_id = unhex(j.value) GROUP BY t.run_id",
                )
                .bind(hex_ids(runs))
                .fetch_all(sqlite.connection().await?)
                .await?
            }
        };
        let phase = |code| match code {
            2 => Phase::StepsInProcess,
            1 => Phase::WaitingForRetry,
            _ => Phase::WaitingForDependencies,
        };
        Ok(rows.into_iter().map(|(run, code)| (run, phase(code))).collect())
    }

    /// How many task runs of these runs have ended; runs without any are missing.
    pub async fn ended_counts(&self, runs: &[Uuid]) -> Result<HashMap<Uuid, i64>> {
        let rows: Vec<(Uuid, i64)> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as("SELECT run_id, count(*) FROM history WHERE run_id = ANY ($1) GROUP BY run_id")
                    .bind(runs)
                    .fetch_all(pg.connection())
                    .await?
            }
            Acquired::Sqlite(sqlite) => {
                sqlx::query_as(
                    "SELECT h.run_id, count(*) FROM json_each($1) j CROSS JOIN history h ON h.run_id = unhex(j.value) GROUP BY h.run_id",
                )
                .bind(hex_ids(runs))
                .fetch_all(sqlite.connection().await?)
                .await?
            }
        };
        Ok(rows.into_iter().collect())
    }

    /// Sessions, the newest first: the live ones, and with `ended` those that are over.
    pub async fn sessions(&self, ended: bool, limit: i64) -> Result<Vec<SessionRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT id, node, worker, hostname, queues, labels, slots, function_slots, remote_slots, remote, version, draining, beat, dead, created_at, beat_at FROM sessions \
             WHERE (NOT dead OR $1) ORDER BY dead, id DESC LIMIT $2"
        )
        .bind(ended)
        .bind(limit)
        .fetch_all(conn)
        .await?
        }))
    }

    /// How many task runs each of these sessions executes.
    pub async fn running_by_session(&self) -> Result<Vec<(i64, i64)>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT session, count(*) FROM task_runs WHERE session IS NOT NULL AND state = {task.running} GROUP BY session")
        )
        .fetch_all(conn)
        .await?
        }))
    }

    /// The names of the workers behind sessions.
    pub async fn workers_of(&self, sessions: &[i64]) -> Result<Vec<(i64, String)>> {
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        Ok(match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as("SELECT id, worker FROM sessions WHERE id = ANY ($1)")
                    .bind(sessions)
                    .fetch_all(pg.connection())
                    .await?
            }
            Acquired::Sqlite(sqlite) => {
                sqlx::query_as("SELECT id, worker FROM sessions WHERE id IN (SELECT value FROM json_each($1))")
                    .bind(serde_json::to_string(sessions).unwrap_or_default())
                    .fetch_all(sqlite.connection().await?)
                    .await?
            }
        })
    }

    /// How many task runs are ready for each queue of each namespace.
    pub async fn ready_by_queue(&self) -> Result<Vec<(String, String, i64)>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            sql!("SELECT o.namespace, o.queue, count(*) FROM task_runs t JOIN routes o ON o.id = t.route WHERE t.state = {task.ready} \
             GROUP BY o.namespace, o.queue ORDER BY o.namespace, o.queue")
        )
        .fetch_all(conn)
        .await?
        }))
    }
}
