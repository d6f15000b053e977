//! Executions of jobs: a run of the job's workflow and the one task of it.

use mainspring_boxed::boxed;
use mainspring_core::{Micros, RunId};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::jobs::JobRow;
use crate::db::{Store, read};
use crate::error::{Error, Result};
use crate::names::sql;

/// How an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionStatus {
    Pending,
    Running,
    Retrying,
    Waiting,
    Success,
    Failed,
    Cancelled,
}

impl ExecutionStatus {
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Running, Self::Retrying, Self::Waiting, Self::Success, Self::Failed, Self::Cancelled];

    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Waiting => "waiting",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// What is true of the run `r` and its live task row `t`.
    fn condition(self) -> &'static str {
        match self {
            Self::Pending => sql!(
                " AND r.state < {run.success} AND (t.state IS NULL OR t.state NOT IN ({task.running}, {task.retrying}, {task.waiting}))"
            ),
            Self::Running => sql!(" AND r.state < {run.success} AND t.state = {task.running}"),
            Self::Retrying => sql!(" AND r.state < {run.success} AND t.state = {task.retrying}"),
            Self::Waiting => sql!(" AND r.state < {run.success} AND t.state = {task.waiting}"),
            Self::Success => sql!(" AND r.state = {run.success}"),
            Self::Failed => sql!(" AND r.state = {run.failed}"),
            Self::Cancelled => sql!(" AND r.state = {run.cancelled}"),
        }
    }
}

/// Which executions of a job to list; newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExecutionFilter {
    pub status: Option<ExecutionStatus>,
    /// Only those older than this one.
    pub before: Option<RunId>,
    pub limit: i64,
    pub offset: i64,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ExecutionRow {
    pub run: RunId,
    pub job_id: Uuid,
    pub namespace: String,
    pub run_state: i16,
    pub task_state: Option<i16>,
    pub attempt: i32,
    #[sqlx(rename = "trigger")]
    pub started_by: Option<String>,
    pub created_at: Micros,
    pub run_finished_at: Option<Micros>,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
    pub due_at: Option<Micros>,
    pub error_kind: Option<String>,
    pub error: Option<String>,
    pub detail: Option<String>,
    pub output: Option<String>,
    pub worker: Option<String>,
}

const EXECUTIONS: &str = "SELECT r.id AS run, j.id AS job_id, j.namespace, r.state AS run_state, coalesce(h.state, t.state) AS task_state, \
     coalesce(h.attempt, t.attempt, 0) AS attempt, d.trigger, r.created_at, r.finished_at AS run_finished_at, \
     coalesce(h.started_at, t.started_at) AS started_at, h.finished_at, t.due_at, h.error_kind, h.error, h.detail, h.output, s.worker \
     FROM runs r JOIN jobs j ON j.workflow_id = r.workflow_id \
     LEFT JOIN history h ON h.run_id = r.id AND h.idx = 0 AND h.item = -1 \
     LEFT JOIN task_runs t ON t.run_id = r.id AND t.idx = 0 AND t.item = -1 \
     LEFT JOIN run_details d ON d.run_id = r.id \
     LEFT JOIN sessions s ON s.id = coalesce(h.session, t.session)";

#[boxed]
impl Store {
    /// Executions of a job, newest first.
    pub async fn executions(&self, job: &JobRow, filter: ExecutionFilter) -> Result<Vec<ExecutionRow>> {
        let of_status = filter.status.map_or("", ExecutionStatus::condition);
        let sql = AssertSqlSafe(format!(
            "{EXECUTIONS} WHERE r.workflow_id = $1 AND r.id < $2{of_status} ORDER BY r.id DESC LIMIT $3 OFFSET $4"
        ));
        Ok(read!(self, |conn| sqlx::query_as(sql)
            .bind(job.workflow_id)
            .bind(filter.before.unwrap_or(Uuid::max()))
            .bind(filter.limit)
            .bind(filter.offset)
            .fetch_all(conn)
            .await?))
    }

    /// How many executions of a job there are, counted up to `most` by the database.
    pub async fn count_executions(&self, job: &JobRow, status: Option<ExecutionStatus>, most: i64) -> Result<i64> {
        let of_status = status.map_or("", ExecutionStatus::condition);
        let sql = AssertSqlSafe(format!(
            "SELECT count(*) FROM (SELECT 1 FROM runs r LEFT JOIN task_runs t ON t.run_id = r.id AND t.idx = 0 AND t.item = -1 \
             WHERE r.workflow_id = $1{of_status} LIMIT $2) c"
        ));
        let (count,): (i64,) =
            read!(self, |conn| sqlx::query_as(sql).bind(job.workflow_id).bind(most).fetch_one(conn).await?);
        Ok(count)
    }

    pub async fn execution(&self, run: RunId) -> Result<ExecutionRow> {
        let sql = AssertSqlSafe(format!("{EXECUTIONS} WHERE r.id = $1"));
        let row = read!(self, |conn| sqlx::query_as(sql).bind(run).fetch_optional(conn).await?);
        row.ok_or_else(|| Error::not_found(format!("execution {run}")))
    }
}
