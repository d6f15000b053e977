//! Jobs of the scheduler, their executions, and the functions that they can name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::name::Name;
use crate::runs::{LogLevel, LogStream};
use crate::words::closed_set;

closed_set! {
    /// What fires a job.
    JobType {
        Cron = "cron",
        OneTime = "one_time",
        Recurring = "recurring",
        Dependent = "dependent",
    }
}

closed_set! {
    /// Of a job.
    JobStatus {
        Active = "active",
        Paused = "paused",
        Completed = "completed",
        Cancelled = "cancelled",
    }
}

closed_set! {
    /// Of an execution.
    ExecutionStatus {
        Pending = "pending",
        Running = "running",
        Retrying = "retrying",
        Waiting = "waiting",
        Success = "success",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

/// A job.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Job {
    pub id: Uuid,
    /// Its name in addresses.
    pub name: String,
    /// Its name as it was given.
    pub title: String,
    pub description: Option<String>,
    /// cron, one_time, recurring or dependent
    pub r#type: JobType,
    /// active, paused, completed or cancelled
    pub status: JobStatus,
    /// The cron expression, the instant, the interval, or the workflow it follows
    pub schedule: String,
    pub timezone: String,
    pub next_run: Option<String>,
    pub last_run: Option<String>,
    pub start_date: Option<String>,
    pub end_date: Option<String>,
    pub max_executions: Option<u64>,
    pub handler_name: String,
    /// function, agent, workflow or shell
    pub handler_type: String,
    #[schema(value_type = Object)]
    pub payload: Value,
    pub max_retries: u32,
    /// Before the first retry; it doubles with every failure
    pub retry_delay_ms: u64,
    /// What the delay never exceeds
    #[serde(default)]
    pub max_retry_delay_ms: u64,
    pub timeout_ms: u64,
    /// low, medium, high, critical, or a number from 0 to 1000
    pub priority: Value,
    /// How many executions may go on at once; null is unlimited
    pub concurrency: Option<u32>,
    /// Whether a fire beyond that waits its turn (true) or is left out
    pub allow_overlap: bool,
    pub executions_count: i64,
    pub success_count: i64,
    pub failure_count: i64,
    pub avg_duration_ms: Option<i64>,
    pub tags: Vec<String>,
    #[schema(value_type = Object)]
    pub metadata: Value,
    pub namespace: String,
    pub created_by: String,
    pub created_at: String,
    pub updated_at: String,
    pub completed_at: Option<String>,
    pub cancelled_at: Option<String>,
    /// Why it cannot fire
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A duration as text (`15m`) or in milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Every {
    Text(String),
    Milliseconds(u64),
}

/// A job to be made. Which of `schedule`, `execute_at`, `every`, `job` and `workflow` belongs to it is said by the path,
/// or by `type` where several are made at once.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Any printable name
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(alias = "platform_id")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// cron, one_time, recurring or dependent
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// A cron expression
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// An instant
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execute_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// The id or the name of the job it follows
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The name of the workflow it follows
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Which ends it follows: success (default), failed, cancelled
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_executions: Option<u64>,
    #[serde(default)]
    pub handler_name: String,
    /// Put it in the place of a job of that name; otherwise a name that is taken is refused.
    #[serde(default)]
    pub replace: bool,
    /// function (default), agent, workflow, or shell: then `payload` is `{"run": "df -h"}` and `handler_name` may be left out
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_type: Option<String>,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<u64>,
    /// What the delay, which doubles with every failure, never exceeds; 30 minutes unless given
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retry_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// low, medium, high, critical, or a number from 0 to 1000
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_overlap: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

/// Several jobs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJobs {
    pub jobs: Vec<NewJob>,
}

/// The jobs that were made, in the order in which they were asked for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MadeJobs {
    pub items: Vec<Job>,
}

/// Another schedule.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// A cron expression, an instant or an interval, whichever the job goes by
    #[serde(alias = "execute_at", alias = "every")]
    pub schedule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

/// An empty object, or no body.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}

/// The statistics of a job.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobStats {
    pub job_id: Uuid,
    pub status: JobStatus,
    pub executions_count: i64,
    pub success_count: i64,
    pub failure_count: i64,
    pub avg_duration_ms: Option<i64>,
    pub last_run: Option<String>,
    pub next_run: Option<String>,
}

/// One execution of a job.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Execution {
    pub id: Uuid,
    pub job_id: Uuid,
    /// pending, running, retrying, waiting, success, failed or cancelled
    pub status: ExecutionStatus,
    pub scheduled_at: String,
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    pub duration_ms: Option<i64>,
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    pub error: Option<String>,
    pub error_stack: Option<String>,
    pub retry_count: i32,
    pub max_retries: u32,
    pub next_retry_at: Option<String>,
    pub worker_id: Option<String>,
    /// What started it
    #[schema(value_type = Object)]
    pub metadata: Value,
    pub trace_id: Option<String>,
    pub span_id: Option<String>,
    pub parent_span_id: Option<String>,
}

/// One line that an execution left.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionLog {
    pub id: String,
    pub execution_id: Uuid,
    pub timestamp: String,
    /// info, or error for what was written to the error stream
    pub level: LogLevel,
    pub message: String,
    /// Which attempt it was
    #[schema(value_type = Object)]
    pub context: Value,
    pub stream: LogStream,
}

/// All jobs, added up.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SchedulerStats {
    pub total_jobs: i64,
    pub jobs_by_status: BTreeMap<String, i64>,
    pub jobs_by_type: BTreeMap<String, i64>,
    pub executions_count: i64,
    pub success_count: i64,
    pub failure_count: i64,
    pub avg_duration_ms: Option<i64>,
}

/// A function that jobs and tasks can name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Handler {
    pub name: String,
    pub r#type: String,
    pub description: Option<String>,
    pub timeout_ms: Option<u64>,
    pub built_in: bool,
}
