//! What needs a person now, what runs, and what comes next.

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{bound, within};
use crate::db::{Store, read};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::waits::WaitKind;

/// How many open runs are looked through for those that the reader may see.
const MOST_OPEN: i64 = 10_000;

/// A dead letter that waits for a person.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct LetterRow {
    pub id: Uuid,
    pub run_id: RunId,
    pub idx: Option<i32>,
    pub item: Option<i32>,
    pub version: i64,
    pub error_type: Option<String>,
    pub error_message: Option<String>,
    pub fingerprint: Option<String>,
    pub created_at: Micros,
    pub namespace: String,
    pub workflow: String,
}

/// An open run, with when something last happened to it.
#[derive(Debug, Clone)]
pub struct OpenRunRow {
    pub id: RunId,
    pub namespace: String,
    pub workflow: String,
    pub version: i32,
    pub state: RunState,
    pub open_tasks: i32,
    pub failed_tasks: i32,
    pub created_at: Micros,
    pub started_at: Option<Micros>,
    pub progress_at: Micros,
}

#[derive(sqlx::FromRow)]
struct OpenRow {
    id: RunId,
    namespace: String,
    workflow: String,
    version: i32,
    state: i16,
    open_tasks: i32,
    failed_tasks: i32,
    created_at: Micros,
    started_at: Option<Micros>,
    progress_at: Micros,
}

/// A task run that waits for an approval.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ApprovalRow {
    pub run_id: RunId,
    pub idx: i32,
    pub item: i32,
    pub version: i64,
    pub body: Option<String>,
    pub created_at: Micros,
    pub due_at: Option<Micros>,
    pub namespace: String,
    pub workflow: String,
}

/// Task runs that workers could take now.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct QueueRow {
    pub namespace: String,
    pub queue: String,
    pub ready: i64,
    /// Since when the oldest of them has waited.
    pub oldest_at: Micros,
}

/// A schedule and when it fires next.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct UpcomingRow {
    pub id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub name: String,
    pub fire_at: Micros,
}

/// Instants of a schedule at which nothing was started though something should have been.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct MissedRow {
    pub id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub name: String,
    pub nominal_at: Micros,
    pub until_at: Option<Micros>,
    pub count: i64,
    pub reason: Option<String>,
}

#[boxed]
impl Store {
    /// The newest pending dead letters.
    pub async fn pending_letters(&self, namespaces: Option<&[String]>, limit: i64) -> Result<Vec<LetterRow>> {
        let sql = AssertSqlSafe(format!(
            "{} AND {} ORDER BY d.created_at DESC LIMIT $2",
            sql!(
                "SELECT d.id, d.run_id, d.idx, d.item, d.version, d.error_type, d.error_message, d.fingerprint, d.created_at, w.namespace, w.name AS workflow \
                 FROM dead_letters d JOIN runs r ON r.id = d.run_id JOIN workflows w ON w.id = r.workflow_id \
                 WHERE d.status = {letter.pending}"
            ),
            within(self.flavor(), "w.namespace")
        ));
        Ok(read!(self, |conn| sqlx::query_as(sql).bind(bound(namespaces)).bind(limit).fetch_all(conn).await?))
    }

    /// The newest open runs that have live rows. From each run the index leads to the next, past all other rows of it.
    pub async fn open_run_rows(&self, namespaces: Option<&[String]>, limit: i64) -> Result<Vec<OpenRunRow>> {
        // PostgreSQL takes no LIMIT inside a recursive term; there the outer one alone ends the walk.
        let most = match self.flavor() {
            crate::Flavor::Postgres => String::new(),
            crate::Flavor::Sqlite => format!("LIMIT {MOST_OPEN}"),
        };
        let sql = AssertSqlSafe(format!(
            "WITH RECURSIVE live (run_id) AS ( \
                 SELECT (SELECT t.run_id FROM task_runs t ORDER BY t.run_id DESC LIMIT 1) \
                 UNION ALL \
                 SELECT (SELECT t.run_id FROM task_runs t WHERE t.run_id < l.run_id ORDER BY t.run_id DESC LIMIT 1) \
                 FROM live l WHERE l.run_id IS NOT NULL {most} \
             ) \
             SELECT r.id, w.namespace, w.name AS workflow, v.number AS version, r.state, r.open AS open_tasks, r.failed AS failed_tasks, \
                 r.created_at, r.started_at, r.progress_at \
             FROM live l JOIN runs r ON r.id = l.run_id JOIN workflows w ON w.id = r.workflow_id JOIN versions v ON v.id = r.version \
             WHERE {} LIMIT $2",
            within(self.flavor(), "w.namespace")
        ));
        let rows: Vec<OpenRow> =
            read!(self, |conn| sqlx::query_as(sql).bind(bound(namespaces)).bind(limit).fetch_all(conn).await?);
        let mut rows = rows.into_iter().map(OpenRunRow::try_from).collect::<Result<Vec<_>>>()?;
        rows.sort_by_key(|row| std::cmp::Reverse(row.id));
        Ok(rows)
    }

    /// Open approvals, the oldest first.
    pub async fn asked_approvals(&self, namespaces: Option<&[String]>, limit: i64) -> Result<Vec<ApprovalRow>> {
        // The states are written out: only so is the index over rows that are due used.
        let waiting = TaskState::Waiting.code();
        let due = [TaskState::Retrying, TaskState::Waiting].map(|state| state.code().to_string());
        let sql = AssertSqlSafe(format!(
            "SELECT k.run_id, k.idx, k.item, r.version, k.body, k.created_at, k.due_at, w.namespace, w.name AS workflow \
             FROM task_runs t JOIN waits k ON k.run_id = t.run_id AND k.idx = t.idx AND k.item = t.item \
             JOIN runs r ON r.id = t.run_id JOIN workflows w ON w.id = r.workflow_id \
             WHERE t.state IN ({}) AND t.state = {waiting} AND k.kind = $2 AND k.outcome IS NULL AND {} \
             ORDER BY k.created_at LIMIT $3",
            due.join(", "),
            within(self.flavor(), "w.namespace")
        ));
        Ok(read!(self, |conn| sqlx::query_as(sql)
            .bind(bound(namespaces))
            .bind(WaitKind::Approval.code())
            .bind(limit)
            .fetch_all(conn)
            .await?))
    }

    /// What is ready, by queue.
    pub async fn queues(&self, namespaces: Option<&[String]>) -> Result<Vec<QueueRow>> {
        let sql = AssertSqlSafe(format!(
            "SELECT o.namespace, o.queue, count(*) AS ready, min(t.due_at) AS oldest_at \
             FROM task_runs t JOIN routes o ON o.id = t.route WHERE t.state = {} AND {} \
             GROUP BY o.namespace, o.queue ORDER BY min(t.due_at)",
            TaskState::Ready.code(),
            within(self.flavor(), "o.namespace")
        ));
        Ok(read!(self, |conn| sqlx::query_as(sql).bind(bound(namespaces)).fetch_all(conn).await?))
    }

    /// Which schedules fire next, the first one first.
    pub async fn upcoming_fires(&self, namespaces: Option<&[String]>, limit: i64) -> Result<Vec<UpcomingRow>> {
        let sql = AssertSqlSafe(format!(
            "SELECT t.id, t.namespace, w.name AS workflow, t.name, t.next_fire_at AS fire_at \
             FROM triggers t JOIN workflows w ON w.id = t.workflow_id \
             WHERE t.next_fire_at IS NOT NULL AND NOT t.paused AND t.present AND t.active AND {} \
             ORDER BY t.next_fire_at LIMIT $2",
            within(self.flavor(), "t.namespace")
        ));
        Ok(read!(self, |conn| sqlx::query_as(sql).bind(bound(namespaces)).bind(limit).fetch_all(conn).await?))
    }

    /// Fires since a time that were missed or failed, the latest first.
    pub async fn missed_fires(
        &self,
        namespaces: Option<&[String]>,
        since: Micros,
        limit: i64,
    ) -> Result<Vec<MissedRow>> {
        let sql = AssertSqlSafe(format!(
            "{} AND {} ORDER BY f.nominal_at DESC LIMIT $3",
            sql!(
                "SELECT t.id, t.namespace, w.name AS workflow, t.name, f.nominal_at, f.until_at, f.count, f.reason \
                 FROM triggers t JOIN fires f ON f.trigger_id = t.id AND f.nominal_at >= $2 \
                 JOIN workflows w ON w.id = t.workflow_id WHERE f.outcome IN ({fire.missed}, {fire.failed})"
            ),
            within(self.flavor(), "t.namespace")
        ));
        Ok(read!(self, |conn| sqlx::query_as(sql)
            .bind(bound(namespaces))
            .bind(since)
            .bind(limit)
            .fetch_all(conn)
            .await?))
    }
}

impl TryFrom<OpenRow> for OpenRunRow {
    type Error = Error;

    fn try_from(row: OpenRow) -> Result<Self> {
        let state = RunState::try_from(row.state).map_err(|error| Error::bad_row("runs", "state", row.id, error))?;
        Ok(Self {
            id: row.id,
            namespace: row.namespace,
            workflow: row.workflow,
            version: row.version,
            state,
            open_tasks: row.open_tasks,
            failed_tasks: row.failed_tasks,
            created_at: row.created_at,
            started_at: row.started_at,
            progress_at: row.progress_at,
        })
    }
}
