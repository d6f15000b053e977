//! Looking at entries: one, many, and what to look at first.

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::{Reason, Resolution};
use mainspring_core::{Micros, RunId, TaskKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::QueryBuilder;
use uuid::Uuid;

use crate::db::{Acquired, Store, read};
use crate::error::{Error, Result};
use crate::names::sql;

/// One entry.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    pub id: Uuid,
    pub run: RunId,
    /// `None` for an entry of the whole run.
    pub task: Option<TaskKey>,
    pub version: i64,
    pub namespace: String,
    pub workflow_id: Option<Uuid>,
    pub workflow: String,
    pub task_name: Option<String>,
    pub reason: Reason,
    pub status: Resolution,
    pub original_state: String,
    pub error_type: Option<String>,
    pub error_message: Option<String>,
    pub total_attempts: i32,
    pub last_attempt_at: Option<Micros>,
    pub fingerprint: Option<String>,
    pub notes: Option<String>,
    pub resolved_by: Option<String>,
    /// Whose token it was.
    pub acted_by: Option<String>,
    pub resolved_at: Option<Micros>,
    pub metadata: Option<Value>,
    pub created_at: Micros,
    pub updated_at: Micros,
    /// Only where one entry is read, like the three below.
    pub stack_trace: Option<String>,
    pub task_config: Option<Value>,
    pub execution_context: Option<Value>,
    pub task_snapshot: Option<Value>,
    pub is_captured: bool,
    /// Whether its run is still there.
    pub has_run: bool,
}

/// Which entries; newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LetterFilter {
    #[serde(default)]
    pub status: Option<Resolution>,
    #[serde(default)]
    pub reason: Option<Reason>,
    /// Of this workflow, by its id.
    #[serde(default)]
    pub workflow: Option<Uuid>,
    /// The name of their task, items without their number.
    #[serde(default)]
    pub task: Option<String>,
    #[serde(default)]
    pub run: Option<RunId>,
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Only these; none means all.
    #[serde(default)]
    pub ids: Vec<Uuid>,
    #[serde(default)]
    pub since: Option<Micros>,
    #[serde(default)]
    pub until: Option<Micros>,
    /// `None` is all of them.
    #[serde(skip)]
    pub namespaces: Option<Vec<String>>,
    /// Only older ones: the cursor.
    #[serde(skip)]
    pub before: Option<Uuid>,
    #[serde(skip)]
    pub offset: i64,
    #[serde(skip)]
    pub limit: i64,
}

/// An entry in the order of what to look at first.
#[derive(Debug, Clone)]
pub struct Queued {
    pub letter: DeadLetter,
    pub score: f64,
    pub waited: Micros,
}

#[derive(sqlx::FromRow)]
pub(super) struct LetterRow {
    id: Uuid,
    run_id: RunId,
    idx: Option<i32>,
    item: Option<i32>,
    version: i64,
    namespace: Option<String>,
    workflow_id: Option<Uuid>,
    workflow: Option<String>,
    task_name: Option<String>,
    reason: i16,
    status: i16,
    original_state: String,
    error_type: Option<String>,
    error_message: Option<String>,
    total_attempts: i32,
    last_attempt_at: Option<Micros>,
    fingerprint: Option<String>,
    notes: Option<String>,
    resolved_by: Option<String>,
    acted_by: Option<String>,
    resolved_at: Option<Micros>,
    metadata: Option<String>,
    created_at: Micros,
    updated_at: Micros,
    captured_at: Option<Micros>,
    stack_trace: Option<String>,
    task_config: Option<String>,
    execution_context: Option<String>,
    task_snapshot: Option<String>,
    has_run: bool,
}

impl TryFrom<LetterRow> for DeadLetter {
    type Error = Error;

    fn try_from(row: LetterRow) -> Result<Self> {
        let bad = |column: &'static str, error: &dyn ToString| {
            Error::bad_row("dead_letters", column, row.id, error.to_string())
        };
        let json = |column: &'static str, text: &Option<String>| -> Result<Option<Value>> {
            text.as_deref().map(|text| serde_json::from_str(text).map_err(|error| bad(column, &error))).transpose()
        };
        Ok(Self {
            id: row.id,
            run: row.run_id,
            task: row.idx.map(|index| TaskKey { run: row.run_id, index, item: row.item.unwrap_or(-1) }),
            version: row.version,
            reason: Reason::try_from(row.reason).map_err(|error| bad("reason", &error))?,
            status: Resolution::try_from(row.status).map_err(|error| bad("status", &error))?,
            metadata: json("metadata", &row.metadata)?,
            task_config: json("task_config", &row.task_config)?,
            execution_context: json("execution_context", &row.execution_context)?,
            task_snapshot: json("task_snapshot", &row.task_snapshot)?,
            namespace: row.namespace.unwrap_or_default(),
            workflow_id: row.workflow_id,
            workflow: row.workflow.unwrap_or_default(),
            task_name: row.task_name,
            original_state: row.original_state,
            error_type: row.error_type,
            error_message: row.error_message,
            total_attempts: row.total_attempts,
            last_attempt_at: row.last_attempt_at,
            fingerprint: row.fingerprint,
            notes: row.notes,
            resolved_by: row.resolved_by,
            acted_by: row.acted_by,
            resolved_at: row.resolved_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
            stack_trace: row.stack_trace,
            is_captured: row.captured_at.is_some(),
            has_run: row.has_run,
        })
    }
}

/// What lists show. The fields of an entry that was not captured yet come from its version.
const COLUMNS: &str = "SELECT d.id, d.run_id, d.idx, d.item, d.version, coalesce(d.namespace, w.namespace) AS namespace, \
    coalesce(d.workflow_id, w.id) AS workflow_id, coalesce(d.workflow, w.name) AS workflow, d.task_name, d.reason, d.status, d.original_state, \
    d.error_type, d.error_message, d.total_attempts, d.last_attempt_at, d.fingerprint, d.notes, d.resolved_by, d.acted_by, d.resolved_at, \
    d.metadata, d.created_at, d.updated_at, d.captured_at";
const SHORT: &str = ", CAST(NULL AS text) AS stack_trace, CAST(NULL AS text) AS task_config, CAST(NULL AS text) AS execution_context, \
    CAST(NULL AS text) AS task_snapshot, TRUE AS has_run";
const FULL: &str = ", d.stack_trace, d.task_config, d.execution_context, d.task_snapshot, \
    EXISTS (SELECT 1 FROM runs r WHERE r.id = d.run_id) AS has_run";
pub(super) const FROM: &str = " FROM dead_letters d LEFT JOIN versions v ON v.id = d.version LEFT JOIN workflows w ON w.id = v.workflow_id WHERE 1 = 1";
/// What to look at first: the base of each reason plus the hours that the entry has waited.
const SCORE: &str = sql!(
    " ORDER BY CASE d.reason WHEN {letter_reason.staleness_timeout} THEN 10 WHEN {letter_reason.max_retries_exceeded} THEN 20 \
     WHEN {letter_reason.worker_unavailable} THEN 30 WHEN {letter_reason.manual_dlq} THEN 50 ELSE 40 END * 3600000000 \
     - d.created_at DESC, d.id"
);

/// The conditions of a filter.
macro_rules! narrowed {
    ($query:expr, $filter:expr) => {{
        let filter: &$crate::dead_letters::LetterFilter = $filter;
        if let Some(status) = filter.status {
            $query.push(" AND d.status = ").push_bind(status.code());
        }
        if let Some(reason) = filter.reason {
            $query.push(" AND d.reason = ").push_bind(reason.code());
        }
        if let Some(workflow) = filter.workflow {
            $query.push(" AND coalesce(d.workflow_id, w.id) = ").push_bind(workflow);
        }
        if let Some(task) = &filter.task {
            let item = format!("{task}[");
            let length = i32::try_from(item.chars().count()).unwrap_or(i32::MAX);
            $query.push(" AND (d.task_name = ").push_bind(task.clone());
            $query.push(" OR substr(d.task_name, 1, ").push_bind(length).push(") = ").push_bind(item).push(")");
        }
        if let Some(run) = filter.run {
            $query.push(" AND d.run_id = ").push_bind(run);
        }
        if let Some(fingerprint) = &filter.fingerprint {
            $query.push(" AND d.fingerprint = ").push_bind(fingerprint.clone());
        }
        if !filter.ids.is_empty() {
            let mut ids = $query.push(" AND d.id IN (").separated(", ");
            for id in &filter.ids {
                ids.push_bind(*id);
            }
            $query.push(")");
        }
        if let Some(since) = filter.since {
            $query.push(" AND d.created_at >= ").push_bind(since);
        }
        if let Some(until) = filter.until {
            $query.push(" AND d.created_at < ").push_bind(until);
        }
        if let Some(namespaces) = &filter.namespaces {
            $query.push(" AND coalesce(d.namespace, w.namespace) IN (SELECT NULL");
            for namespace in namespaces {
                $query.push(" UNION ALL SELECT ").push_bind(namespace.clone());
            }
            $query.push(")");
        }
        if let Some(before) = filter.before {
            $query.push(" AND d.id < ").push_bind(before);
        }
    }};
}
pub(super) use narrowed;

macro_rules! listed {
    ($database:ty, $filter:expr, $tail:expr) => {{
        let mut query = QueryBuilder::<$database>::new(COLUMNS);
        query.push(SHORT).push(FROM);
        narrowed!(query, $filter);
        query.push($tail);
        query.push(" LIMIT ").push_bind($filter.limit).push(" OFFSET ").push_bind($filter.offset);
        query
    }};
}

#[boxed]
impl Store {
    /// Entries, newest first, without what only one of them is shown with.
    pub async fn letters(&self, filter: &LetterFilter) -> Result<Vec<DeadLetter>> {
        self.listed_letters(filter, " ORDER BY d.id DESC").await
    }

    /// Pending entries, what to look at first coming first.
    pub async fn letter_queue(&self, now: Micros, filter: &LetterFilter) -> Result<Vec<Queued>> {
        let filter = LetterFilter { status: Some(Resolution::Pending), ..filter.clone() };
        let letters = self.listed_letters(&filter, SCORE).await?;
        Ok(letters
            .into_iter()
            .map(|letter| {
                let waited = (now - letter.created_at).max(0);
                Queued { score: letter.reason.score(waited), waited, letter }
            })
            .collect())
    }

    async fn listed_letters(&self, filter: &LetterFilter, order: &str) -> Result<Vec<DeadLetter>> {
        let rows: Vec<LetterRow> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                listed!(sqlx::Postgres, filter, order).build_query_as().fetch_all(pg.connection()).await?
            }
            Acquired::Sqlite(sqlite) => {
                listed!(sqlx::Sqlite, filter, order).build_query_as().fetch_all(sqlite.connection().await?).await?
            }
        };
        rows.into_iter().map(DeadLetter::try_from).collect()
    }

    /// How many entries a filter finds, counted up to `most`.
    pub async fn count_letters(&self, filter: &LetterFilter, most: i64) -> Result<i64> {
        macro_rules! counted {
            ($database:ty) => {{
                let mut query = QueryBuilder::<$database>::new("SELECT count(*) FROM (SELECT d.id");
                query.push(FROM);
                narrowed!(query, filter);
                query.push(" LIMIT ").push_bind(most).push(") c");
                query
            }};
        }
        let (count,): (i64,) = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => counted!(sqlx::Postgres).build_query_as().fetch_one(pg.connection()).await?,
            Acquired::Sqlite(sqlite) => {
                counted!(sqlx::Sqlite).build_query_as().fetch_one(sqlite.connection().await?).await?
            }
        };
        Ok(count)
    }

    /// One entry with everything that is known of it.
    pub async fn letter(&self, id: Uuid) -> Result<DeadLetter> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS}{FULL}{FROM} AND d.id = $1"));
        let row: Option<LetterRow> = read!(self, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("dead letter {id}")))?.try_into()
    }

    /// The newest entry of a run, or of one of its task runs; a pending one before all others.
    pub async fn letter_of(&self, run: RunId, task: Option<TaskKey>) -> Result<Option<DeadLetter>> {
        let found: Option<(Uuid,)> = read!(self, |conn| {
            sqlx::query_as(sql!(
            "SELECT id FROM dead_letters WHERE run_id = $1 AND (CAST($2 AS integer) IS NULL OR (idx = $2 AND item = $3)) \
             ORDER BY CASE WHEN status = {letter.pending} THEN 0 ELSE 1 END, id DESC LIMIT 1"
        ))
        .bind(run)
        .bind(task.map(|task| task.index))
        .bind(task.map(|task| task.item))
        .fetch_optional(conn)
        .await?
        });
        match found {
            None => Ok(None),
            Some((id,)) => self.letter(id).await.map(Some),
        }
    }
}
