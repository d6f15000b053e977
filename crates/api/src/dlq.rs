//! Dead letters, staleness, and what is done about them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// A task run, or a whole run, that needs a person. Lists leave out what is long: the stack trace, the configuration, the
/// context and the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DlqEntry {
    pub id: Uuid,
    /// `{run}.{index}[.{item}]`; missing for an entry of a whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_run_id: Option<String>,
    pub run_id: Uuid,
    pub workflow_id: Option<Uuid>,
    pub workflow: String,
    pub namespace: String,
    /// The task's name, `name[index]` for an item.
    pub task_name: Option<String>,
    pub original_state: String,
    /// `staleness_timeout`, `max_retries_exceeded`, `dependency_cycle_detected`, `worker_unavailable`, `poison_pill` or
    /// `manual_dlq`.
    pub dlq_reason: String,
    pub error_type: Option<String>,
    pub error_message: Option<String>,
    /// A stack trace, or the last log lines; at most 10,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
    pub last_attempt_at: Option<String>,
    pub total_attempts: i32,
    /// The task as its workflow has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_config: Option<Value>,
    /// What the run was given, and what the task's worker got: everything rendered, secrets left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_context: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_snapshot: Option<Value>,
    /// Entries of one cause share it.
    pub fingerprint: Option<String>,
    /// `pending`, `retried`, `skipped`, `resolved`, `permanent_failure` or `cancelled`.
    pub resolution_status: String,
    pub resolution_notes: Option<String>,
    pub resolved_at: Option<String>,
    pub resolved_by: Option<String>,
    /// Whose token it was, where that is another name.
    pub acted_by: Option<String>,
    /// Anything that people and programs noted.
    pub metadata: Option<Value>,
    pub dlq_timestamp: String,
    pub created_at: String,
    pub updated_at: String,
    pub links: DlqLinks,
    /// Other names of ids, under `/v1`.
    #[serde(flatten)]
    pub aliases: DlqAliases,
}

/// Where to look further.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DlqLinks {
    pub run: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
}

/// The names that users of `/v1` know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DlqAliases {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dlq_entry_uuid: Option<Uuid>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_uuid: Option<Uuid>,
    /// The task run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_step_uuid: Option<String>,
}

/// How many entries there are, in all and by reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DlqStats {
    pub pending_count: i64,
    pub retried_count: i64,
    pub skipped_count: i64,
    pub resolved_count: i64,
    pub permanent_failure_count: i64,
    pub cancelled_count: i64,
    pub oldest_pending_age_seconds: Option<f64>,
    pub by_reason: Vec<DlqReasonStats>,
}

/// The dashboard's line for a reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DlqReasonStats {
    pub dlq_reason: String,
    pub total_entries: i64,
    pub pending: i64,
    pub retried: i64,
    pub skipped: i64,
    pub manually_resolved: i64,
    pub permanent_failures: i64,
    pub cancelled: i64,
    pub oldest_entry: String,
    pub newest_entry: String,
    pub avg_resolution_time_minutes: Option<f64>,
}

/// An entry in the order of what to look at first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DlqQueueItem {
    pub dlq_entry_id: Uuid,
    pub run_id: Uuid,
    pub task_run_id: Option<String>,
    pub dlq_reason: String,
    /// The base of the reason (staleness 10, retries 20, no worker 30, cycle and poison pill 40, by hand 50) plus the hours
    /// that the entry has waited.
    pub priority_score: f64,
    pub minutes_in_dlq: f64,
    pub namespace: String,
    pub workflow: String,
    pub task_name: Option<String>,
    pub error_type: Option<String>,
    pub error_message: Option<String>,
    pub fingerprint: Option<String>,
    #[serde(flatten)]
    pub aliases: DlqAliases,
}

/// Entries of one cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DlqGroup {
    pub fingerprint: String,
    pub count: i64,
    pub first_seen: String,
    pub last_seen: String,
    pub namespace: String,
    pub workflow: String,
    pub workflow_id: Option<Uuid>,
    pub task_name: Option<String>,
    pub dlq_reason: String,
    pub error_type: Option<String>,
    /// With numbers, ids and paths left out.
    pub message: String,
    /// From the first entry of all groups that are shown until now.
    pub histogram: Vec<DlqBar>,
    /// The newest entries.
    pub samples: Vec<DlqEntry>,
}

/// One bar of a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DlqBar {
    pub from: String,
    pub count: i64,
}

/// How an open run does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StaleRun {
    pub run_id: Uuid,
    pub namespace: String,
    pub workflow: String,
    /// `waiting_for_dependencies`, `waiting_for_retry` or `steps_in_process`.
    pub current_state: String,
    pub time_in_state_minutes: f64,
    pub staleness_threshold_minutes: f64,
    pub threshold_percentage: f64,
    /// `healthy`, `warning` (from 80 %) or `stale` (from 100 %).
    pub health_status: String,
    pub priority: i16,
    /// The run, under `/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_uuid: Option<Uuid>,
}

/// Who acts, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DlqAct {
    #[serde(alias = "resolved_by")]
    pub by: Option<String>,
    #[serde(alias = "notes", alias = "resolution_notes")]
    pub reason: Option<String>,
    /// Anything; kept with the entry and the action.
    pub metadata: Option<Value>,
}

/// What is edited of the record. The run is never touched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DlqPatch {
    /// `pending`, `retried`, `skipped`, `resolved` (or `manually_resolved`), `permanent_failure` (or `permanent_failures`)
    /// or `cancelled`.
    #[serde(alias = "status")]
    pub resolution_status: Option<String>,
    #[serde(alias = "notes")]
    pub resolution_notes: Option<String>,
    #[serde(alias = "by")]
    pub resolved_by: Option<String>,
    /// Anything, at most 64 KiB.
    pub metadata: Option<Value>,
}

/// An entry that a person makes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DlqSend {
    /// The run; may be left out with `task_run_id`.
    pub run_id: Option<Uuid>,
    /// The task's name, `name[index]` or its task-run id; none is the whole run.
    #[serde(alias = "task_run_id", alias = "task_name")]
    pub task: Option<String>,
    /// Why it needs a person.
    #[serde(alias = "notes", alias = "error_message")]
    pub reason: Option<String>,
    #[serde(alias = "resolved_by")]
    pub by: Option<String>,
    pub metadata: Option<Value>,
}

/// Which pending entries a batch acts on. At least one of these must be given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DlqBatchFilter {
    pub namespace: Option<String>,
    /// By id or name.
    pub workflow: Option<String>,
    pub task: Option<String>,
    #[serde(alias = "dlq_reason")]
    pub reason: Option<String>,
    /// Of one cause.
    pub fingerprint: Option<String>,
    pub run_id: Option<Uuid>,
    pub ids: Vec<Uuid>,
    #[schema(format = "date-time")]
    pub since: Option<String>,
    #[schema(format = "date-time")]
    pub until: Option<String>,
    /// Everything that is pending and may be seen.
    pub all: bool,
}

/// One action on everything that a filter finds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DlqBatchRequest {
    #[serde(default)]
    pub filter: DlqBatchFilter,
    /// `retry`, `retry_as_new_run`, `skip`, `resolve`, `permanent_failure` or `cancel`.
    pub action: String,
    /// Only say what would be acted on.
    #[serde(default)]
    pub dry_run: bool,
    #[serde(default, alias = "resolved_by")]
    pub by: Option<String>,
    #[serde(default, alias = "notes")]
    pub reason: Option<String>,
}

/// How far a batch has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DlqBatch {
    /// Missing for a dry run, and where nothing was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    pub dry_run: bool,
    pub action: String,
    /// `would`, `running` or `done`.
    pub status: String,
    pub matched: i64,
    pub done: i64,
    pub failed: i64,
    /// What the first failure said.
    pub error: Option<String>,
    pub created_at: Option<String>,
    pub finished_at: Option<String>,
    /// Of a dry run: some of the entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<DlqEntry>,
}

/// Look for stale runs now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DetectRequest {
    /// Only say what would be given up.
    pub dry_run: bool,
    pub namespace: Option<String>,
    /// How many runs one transaction gives up: 1 to 1,000.
    pub batch_size: Option<i64>,
}

/// What was done about a stale run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Detected {
    pub run_id: Uuid,
    pub task_uuid: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub current_state: String,
    pub time_in_state_minutes: f64,
    pub staleness_threshold_minutes: f64,
    /// `transitioned_to_dlq_and_error`, `moved_to_dlq_only`, `would_transition` or `no_action`.
    pub action_taken: String,
    pub moved_to_dlq: bool,
    pub transition_success: bool,
}
