//! Runs, task runs, their logs and files, and what is done to whole runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::name::Name;
use crate::words::closed_set;

closed_set! {
    /// Of a run.
    RunStatus {
        Pending = "pending",
        Running = "running",
        Paused = "paused",
        Success = "success",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

closed_set! {
    /// Of a run that has not ended.
    OpenRunStatus {
        Pending = "pending",
        Running = "running",
        Paused = "paused",
    }
}

closed_set! {
    /// What an open run does.
    RunPhase {
        WaitingForDependencies = "waiting_for_dependencies",
        WaitingForRetry = "waiting_for_retry",
        StepsInProcess = "steps_in_process",
    }
}

closed_set! {
    /// Of a task run.
    TaskStatus {
        Pending = "pending",
        Ready = "ready",
        Running = "running",
        Retrying = "retrying",
        Waiting = "waiting",
        Success = "success",
        Failed = "failed",
        Skipped = "skipped",
        UpstreamFailed = "upstream_failed",
        Cancelled = "cancelled",
        ResolvedManually = "resolved_manually",
    }
}

closed_set! {
    /// How an attempt ended that did not end its task run.
    AttemptOutcome {
        Failed = "failed",
        Lost = "lost",
        Released = "released",
    }
}

closed_set! {
    /// Where a line was written to.
    LogStream {
        Stdout = "stdout",
        Stderr = "stderr",
        System = "system",
    }
}

closed_set! {
    /// `error` for what was written to the error stream.
    LogLevel {
        Info = "info",
        Error = "error",
    }
}

closed_set! {
    /// The states of task runs in the words of `/v1/tasks`.
    StepState {
        Pending = "pending",
        Enqueued = "enqueued",
        InProgress = "in_progress",
        WaitingForRetry = "waiting_for_retry",
        Complete = "complete",
        Error = "error",
        ResolvedManually = "resolved_manually",
        Cancelled = "cancelled",
    }
}

/// One execution of a workflow version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Run {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    #[schema(value_type = String, format = "uuid")]
    pub workflow_id: Uuid,
    pub workflow: String,
    pub namespace: String,
    pub version: i32,
    /// `pending`, `running`, `paused`, `success`, `failed` or `cancelled`.
    pub status: RunStatus,
    /// While it is open: `waiting_for_dependencies`, `waiting_for_retry` or `steps_in_process`.
    pub phase: Option<RunPhase>,
    /// Whether it is being cancelled.
    pub cancelling: bool,
    /// Whether its timeout has passed.
    pub timed_out: bool,
    pub priority: i16,
    /// How often it was reopened.
    pub generation: i16,
    /// How far it is, with `include=progress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    /// Only where one run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// Only where one run is shown, once it has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// What started it; where one run is shown, or with `include=trigger`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Value>,
    /// Why it was stopped, and by whom; only where one run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many task runs are done again; only where it was reopened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reopened_tasks: Option<usize>,
    pub created_at: String,
    pub started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

/// Task runs of a run, items of a `foreach` included. More may come: finalisers count once their part begins.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    pub ended: i64,
    pub total: i64,
}

/// One task within one run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TaskRun {
    /// `{run}.{index}[.{item}]`
    pub id: String,
    #[schema(value_type = String, format = "uuid")]
    pub workflow_run_id: Uuid,
    /// The task's name, `name[index]` for an item.
    pub task_id: String,
    /// Of an item of `foreach` or `matrix`: its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
    pub status: TaskStatus,
    /// The same as `status`.
    pub current_state: TaskStatus,
    /// The number of the newest attempt, over all reopenings.
    pub attempt: i32,
    pub max_attempts: i32,
    /// How many attempts there were.
    pub attempts: i32,
    pub dependencies_satisfied: bool,
    pub retry_eligible: bool,
    pub ready_for_execution: bool,
    pub last_failure_at: Option<String>,
    pub next_retry_at: Option<String>,
    /// Why it does not run, in words.
    pub blocked_by: Vec<String>,
    /// The run that a `workflow` task started; only where one task run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub child_run_id: Option<Uuid>,
    /// Whether an earlier result stands for that of the newest attempt, of a task with `reuse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<CacheUse>,
    /// Whether the newest attempt was given files of an earlier one, of a task with `cache`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheUse>,
    /// What an approval asks, and who may answer; only where one task run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<AskedApproval>,
    pub started_at: Option<String>,
    pub last_attempted_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// How long the newest attempt has taken.
    pub duration_ms: Option<i64>,
    pub worker_id: Option<String>,
    pub output: Value,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
    pub error_stack: Option<String>,
    pub trace_id: Option<String>,
    pub span_id: Option<String>,
    pub parent_span_id: Option<String>,
    /// Attempts that did not end it; only where one task run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_history: Option<Vec<Attempt>>,
    /// Its log lines, with `include=logs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<Vec<LogEntry>>,
    /// The end of its log, with `include=log_tail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_tail: Option<Logs>,
    /// The dead letter that waits for a person, with `include=dead_letter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub dead_letter_id: Option<Uuid>,
}

/// What was looked for by a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CacheUse {
    pub key: String,
    /// Whether it was found.
    pub hit: bool,
    /// The run that it comes from, which may be forgotten already.
    #[schema(value_type = Option<String>, format = "uuid")]
    pub run_id: Option<Uuid>,
}

/// An attempt that did not end its task run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    pub attempt: i32,
    /// `failed`, `lost` or `released`.
    pub outcome: AttemptOutcome,
    pub started_at: Option<String>,
    pub finished_at: String,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
    pub error_stack: Option<String>,
}

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    pub attempt: i32,
    pub timestamp: String,
    /// `stdout`, `stderr` or `system`.
    pub stream: LogStream,
    /// `info`, `error` for what went to stderr.
    pub level: LogLevel,
    pub message: String,
    /// Its number within the log, from 1; only where lines were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Whether it holds what was searched; lines around it do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit: Option<bool>,
}

/// Some lines.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = LogLines)]
pub struct Logs {
    pub items: Vec<LogEntry>,
    /// `after` for what follows; the last place even if nothing follows yet.
    pub after: String,
    /// The same if more is stored already, else null.
    pub next: Option<String>,
    /// `before` for what precedes these lines, or null at the beginning; only with `tail` or `before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// A kept file.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    pub name: String,
    pub task_id: String,
    pub attempt: i32,
    pub bytes: i64,
    /// Of its content, in hexadecimal digits.
    pub sha256: String,
    pub executable: bool,
}

/// Which open runs to cancel. At least one of the filters must be given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelMany {
    /// The name of their workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// `pending`, `running` or `paused`; all of them unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<OpenRunStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Made at this time or later.
    #[schema(format = "date-time")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Made before this time.
    #[schema(format = "date-time")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Only tell what would be cancelled.
    #[serde(default)]
    pub dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was cancelled, or would be.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CancelledMany {
    pub dry_run: bool,
    /// How many runs were found, at most 1000.
    pub matched: usize,
    /// How many of them were cancelled.
    pub cancelled: usize,
    /// Whether there are more: repeat the call.
    pub more: bool,
    #[schema(value_type = Vec<String>)]
    pub runs: Vec<Uuid>,
}

/// Who acts, and why.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Why {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One task, or several.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// How a run is done again: from some tasks on in the same run, or as a new run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rerun {
    /// The task, or a list of tasks, with everything that depends on them. Without it a new run of the same version starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<OneOrMany>,
    /// Inputs of the new run that differ from those of the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A task that waits for a person to say yes or no.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// The id of the task run.
    pub id: String,
    #[schema(value_type = String, format = "uuid")]
    pub workflow_run_id: Uuid,
    pub task_id: String,
    pub workflow: String,
    pub namespace: String,
    /// What is asked.
    pub message: Option<String>,
    /// The roles that may answer; every role that may operate runs if it is empty.
    pub roles: Vec<String>,
    pub requested_at: String,
    /// Until when; without an answer the task then does what its workflow says.
    pub expires_at: Option<String>,
}

/// What a task that waits for an approval asks.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AskedApproval {
    pub message: Option<String>,
    pub roles: Vec<String>,
}

/// A task run in the form of `/v1/tasks/{id}/workflow_steps`: everything that a task run has, under more names.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// The run.
    #[schema(value_type = String, format = "uuid")]
    pub task_uuid: Uuid,
    /// The id of the task run.
    pub workflow_step_uuid: String,
    pub name: String,
    pub current_state: StepState,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
