//! Runs, their task runs and attempts, as lists and pages show them.

use std::collections::HashMap;

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId, TaskKey};
use serde_json::Value;
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::db::{Acquired, Store, read};
use crate::error::{Error, Result};
use crate::names::sql;

#[derive(Debug, Clone)]
pub struct RunSummary {
    pub id: RunId,
    pub version: i64,
    pub version_number: i32,
    pub workflow_id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub state: RunState,
    pub priority: i16,
    pub generation: i16,
    pub open_tasks: i32,
    pub seq: i64,
    pub created_at: Micros,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
    pub cancelling: bool,
    pub timed_out: bool,
}

/// A run with what it was given.
#[derive(Debug, Clone)]
pub struct RunRow {
    pub summary: RunSummary,
    pub inputs: Option<Value>,
    pub outputs: Option<Value>,
    pub correlation_id: Option<String>,
    pub trigger: Option<Value>,
    /// The reason of the stop, and the operator.
    pub reason: Option<String>,
}

/// One task run, live or ended.
#[derive(Debug, Clone)]
pub struct TaskRunRow {
    pub key: TaskKey,
    pub state: TaskState,
    pub generation: i16,
    pub attempt: i32,
    pub failures: i16,
    pub max_failures: Option<i16>,
    pub lost: i16,
    pub session: Option<i64>,
    pub due_at: Option<Micros>,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
    pub seq: Option<i64>,
    pub exit_code: Option<i32>,
    pub error_kind: Option<String>,
    pub error: Option<String>,
    pub detail: Option<String>,
    pub output: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct AttemptRow {
    pub attempt: i32,
    /// 0 failed, 1 lost, 2 released.
    pub outcome: i16,
    pub session: Option<i64>,
    pub seq: i64,
    pub started_at: Option<Micros>,
    pub finished_at: Micros,
    pub exit_code: Option<i32>,
    pub error_kind: Option<String>,
    pub error: Option<String>,
    pub detail: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCount {
    pub state: RunState,
    pub runs: i64,
}

#[derive(sqlx::FromRow)]
pub(crate) struct SummaryRow {
    id: RunId,
    version: i64,
    number: i32,
    workflow_id: Uuid,
    namespace: String,
    name: String,
    state: i16,
    flags: i16,
    rank: i16,
    generation: i16,
    open: i32,
    seq: i64,
    created_at: Micros,
    started_at: Option<Micros>,
    finished_at: Option<Micros>,
}

impl TryFrom<SummaryRow> for RunSummary {
    type Error = Error;

    fn try_from(row: SummaryRow) -> Result<Self> {
        Ok(Self {
            id: row.id,
            version: row.version,
            version_number: row.number,
            workflow_id: row.workflow_id,
            namespace: row.namespace,
            workflow: row.name,
            state: RunState::try_from(row.state).map_err(|error| Error::bad_row("runs", "state", row.id, error))?,
            priority: mainspring_core::workflow::MAX_PRIORITY - row.rank,
            generation: row.generation,
            open_tasks: row.open,
            seq: row.seq,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            cancelling: row.flags & crate::runs::flags::RUN_CANCELLING != 0,
            timed_out: row.flags & crate::runs::flags::RUN_TIMED_OUT != 0,
        })
    }
}

#[derive(sqlx::FromRow)]
pub(crate) struct TaskRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    state: i16,
    generation: i16,
    attempt: i32,
    failures: i16,
    max_failures: Option<i16>,
    lost: i16,
    session: Option<i64>,
    due_at: Option<Micros>,
    started_at: Option<Micros>,
    finished_at: Option<Micros>,
    seq: Option<i64>,
    exit_code: Option<i32>,
    error_kind: Option<String>,
    error: Option<String>,
    detail: Option<String>,
    output: Option<String>,
}

impl TryFrom<TaskRow> for TaskRunRow {
    type Error = Error;

    fn try_from(row: TaskRow) -> Result<Self> {
        let key = TaskKey { run: row.run_id, index: row.idx, item: row.item };
        Ok(Self {
            key,
            state: TaskState::try_from(row.state).map_err(|error| Error::bad_row("task_runs", "state", key, error))?,
            generation: row.generation,
            attempt: row.attempt,
            failures: row.failures,
            max_failures: row.max_failures,
            lost: row.lost,
            session: row.session,
            due_at: row.due_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            seq: row.seq,
            exit_code: row.exit_code,
            error_kind: row.error_kind,
            error: row.error,
            detail: row.detail,
            output: json(row.output, "history", "output", key)?,
        })
    }
}

pub(super) fn json(
    text: Option<String>,
    table: &'static str,
    column: &'static str,
    id: impl ToString,
) -> Result<Option<Value>> {
    text.map(|text| serde_json::from_str(&text).map_err(|error| Error::bad_row(table, column, id, error))).transpose()
}

pub(crate) const SUMMARY: &str = "SELECT r.id, r.version, v.number, r.workflow_id, w.namespace, w.name, r.state, r.flags, r.rank, r.generation, r.open, r.seq, \
    r.created_at, r.started_at, r.finished_at FROM runs r JOIN versions v ON v.id = r.version JOIN workflows w ON w.id = r.workflow_id";

#[boxed]
impl Store {
    pub async fn run_summary(&self, id: RunId) -> Result<RunSummary> {
        let row: Option<SummaryRow> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                QueryBuilder::<sqlx::Postgres>::new(SUMMARY)
                    .push(" WHERE r.id = ")
                    .push_bind(id)
                    .build_query_as()
                    .fetch_optional(pg.connection())
                    .await?
            }
            Acquired::Sqlite(sqlite) => {
                QueryBuilder::<sqlx::Sqlite>::new(SUMMARY)
                    .push(" WHERE r.id = ")
                    .push_bind(id)
                    .build_query_as()
                    .fetch_optional(sqlite.connection().await?)
                    .await?
            }
        };
        row.ok_or_else(|| Error::not_found(format!("run {id}")))?.try_into()
    }

    pub async fn run(&self, id: RunId) -> Result<RunRow> {
        type Details = (Option<String>, Option<String>, Option<String>, Option<String>, Option<String>);
        let summary = self.run_summary(id).await?;
        let details: Option<Details> = read!(self, |conn| sqlx::query_as(
            "SELECT inputs, outputs, correlation_id, trigger, reason FROM run_details WHERE run_id = $1"
        )
        .bind(id)
        .fetch_optional(conn)
        .await?);
        let (inputs, outputs, correlation_id, trigger, reason) = details.unwrap_or_default();
        Ok(RunRow {
            summary,
            inputs: json(inputs, "run_details", "inputs", id)?,
            outputs: json(outputs, "run_details", "outputs", id)?,
            correlation_id,
            trigger: json(trigger, "run_details", "trigger", id)?,
            reason,
        })
    }

    /// How many dead letters of a run wait for a person.
    pub async fn pending_dead_letters(&self, run: RunId) -> Result<i64> {
        let (count,): (i64,) = read!(self, |conn| sqlx::query_as(sql!(
            "SELECT count(*) FROM dead_letters WHERE run_id = $1 AND status = {letter.pending}"
        ))
        .bind(run)
        .fetch_one(conn)
        .await?);
        Ok(count)
    }

    /// Ended task runs of one run, by index; all of them if none is named.
    pub async fn ended_tasks(&self, run: RunId, indexes: &[i32]) -> Result<Vec<TaskRunRow>> {
        const ENDED: &str = "SELECT run_id, idx, item, state, generation, attempt, failures, NULL AS max_failures, lost, session, NULL AS due_at, started_at, \
            finished_at, seq, exit_code, error_kind, error, detail, output FROM history WHERE run_id = ";
        let rows: Vec<TaskRow> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as(
                    "SELECT run_id, idx, item, state, generation, attempt, failures, NULL::smallint AS max_failures, lost, session, NULL::bigint AS due_at, \
                     started_at, finished_at, seq, exit_code, error_kind, error, detail, output FROM history \
                     WHERE run_id = $1 AND (cardinality($2::integer[]) = 0 OR idx = ANY ($2)) ORDER BY idx, item",
                )
                .bind(run)
                .bind(indexes)
                .fetch_all(pg.connection())
                .await?
            }
            Acquired::Sqlite(sqlite) => {
                let mut query = QueryBuilder::<sqlx::Sqlite>::new(ENDED);
                query.push_bind(run);
                if !indexes.is_empty() {
                    query.push(" AND idx IN (SELECT value FROM json_each(").push_bind(serde_json::to_string(indexes).unwrap_or_default()).push("))");
                }
                query.push(" ORDER BY idx, item");
                query.build_query_as().fetch_all(sqlite.connection().await?).await?
            }
        };
        rows.into_iter().map(TaskRunRow::try_from).collect()
    }

    /// Every task run of a run that exists as a row, live ones and ended ones, by index. Finalisers appear with their stage.
    pub async fn task_runs(&self, run: RunId) -> Result<Vec<TaskRunRow>> {
        self.task_runs_at(run, &[]).await
    }

    /// The task runs of a run with these indexes; all of them if the list is empty.
    pub async fn task_runs_at(&self, run: RunId, indexes: &[i32]) -> Result<Vec<TaskRunRow>> {
        let live: Vec<TaskRow> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as(
                    "SELECT run_id, idx, item, state, generation, attempt, failures, max_failures, lost, session, due_at, started_at, NULL::bigint AS finished_at, \
                     NULL::bigint AS seq, NULL::integer AS exit_code, NULL::text AS error_kind, NULL::text AS error, NULL::text AS detail, NULL::text AS output \
                     FROM task_runs WHERE run_id = $1 AND (cardinality($2::integer[]) = 0 OR idx = ANY ($2))",
                )
                .bind(run)
                .bind(indexes)
                .fetch_all(pg.connection())
                .await?
            }
            Acquired::Sqlite(sqlite) => {
                sqlx::query_as(
                    "SELECT run_id, idx, item, state, generation, attempt, failures, max_failures, lost, session, due_at, started_at, NULL AS finished_at, \
                     NULL AS seq, NULL AS exit_code, NULL AS error_kind, NULL AS error, NULL AS detail, NULL AS output FROM task_runs \
                     WHERE run_id = $1 AND ($2 = '[]' OR idx IN (SELECT value FROM json_each($2)))",
                )
                .bind(run)
                .bind(serde_json::to_string(indexes).unwrap_or_default())
                .fetch_all(sqlite.connection().await?)
                .await?
            }
        };
        let mut all = live.into_iter().map(TaskRunRow::try_from).collect::<Result<Vec<_>>>()?;
        // Read second: what ended in between appears in both, and the ended one wins.
        let ended = self.ended_tasks(run, indexes).await?;
        let over: std::collections::HashSet<TaskKey> = ended.iter().map(|row| row.key).collect();
        all.retain(|row| !over.contains(&row.key));
        all.extend(ended);
        all.sort_by_key(|row| row.key);
        Ok(all)
    }

    /// The attempts of a task run that did not end it.
    pub async fn attempts(&self, key: TaskKey) -> Result<Vec<AttemptRow>> {
        Ok(read!(self, |conn| {
            sqlx::query_as(
            "SELECT attempt, outcome, session, seq, started_at, finished_at, exit_code, error_kind, error, detail FROM attempts \
             WHERE run_id = $1 AND idx = $2 AND item = $3 ORDER BY attempt"
        )
        .bind(key.run)
        .bind(key.index)
        .bind(key.item)
        .fetch_all(conn)
        .await?
        }))
    }

    /// The attempts of all task runs of a run within a range of indexes, in one statement.
    pub async fn attempts_between(
        &self,
        run: RunId,
        first: i32,
        last: i32,
    ) -> Result<HashMap<TaskKey, Vec<AttemptRow>>> {
        #[derive(sqlx::FromRow)]
        struct Row {
            idx: i32,
            item: i32,
            #[sqlx(flatten)]
            attempt: AttemptRow,
        }
        let rows: Vec<Row> = read!(self, |conn| {
            sqlx::query_as(
                "SELECT idx, item, attempt, outcome, session, seq, started_at, finished_at, exit_code, error_kind, error, detail \
                 FROM attempts WHERE run_id = $1 AND idx BETWEEN $2 AND $3 ORDER BY idx, item, attempt",
            )
            .bind(run)
            .bind(first)
            .bind(last)
            .fetch_all(conn)
            .await?
        });
        let mut found: HashMap<TaskKey, Vec<AttemptRow>> = HashMap::new();
        for row in rows {
            found.entry(TaskKey { run, index: row.idx, item: row.item }).or_default().push(row.attempt);
        }
        Ok(found)
    }

    /// How many runs there are in each state.
    pub async fn run_counts(&self) -> Result<Vec<StatusCount>> {
        let rows: Vec<(i16, i64)> =
            read!(self, |conn| sqlx::query_as("SELECT state, count(*) FROM runs GROUP BY state ORDER BY state")
                .fetch_all(conn)
                .await?);
        status_counts(rows)
    }

    /// Counts runs by state in one namespace.
    pub async fn run_counts_in(&self, namespace: &str) -> Result<Vec<StatusCount>> {
        let rows: Vec<(i16, i64)> = read!(self, |conn| sqlx::query_as(
            "SELECT r.state, count(*) FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE w.namespace = $1 \
             GROUP BY r.state ORDER BY r.state"
        )
        .bind(namespace)
        .fetch_all(conn)
        .await?);
        status_counts(rows)
    }
}

fn status_counts(rows: Vec<(i16, i64)>) -> Result<Vec<StatusCount>> {
    rows.into_iter()
        .map(|(state, runs)| {
            let state = RunState::try_from(state).map_err(|error| Error::bad_row("runs", "state", state, error))?;
            Ok(StatusCount { state, runs })
        })
        .collect()
}
