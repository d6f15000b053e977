//! What people and programs do to task runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::words::closed_set;

closed_set! {
    /// `done`; `asked`: it runs, and was asked to stop; `reopened`: its run goes on.
    Acted {
        Done = "done",
        Asked = "asked",
        Reopened = "reopened",
    }
}

/// What is done to a task run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionWord {
    #[serde(alias = "force_retry")]
    Retry,
    ResolveManually,
    Skip,
    Cancel,
    ResetAttempts,
    Approve,
    Reject,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionBody {
    pub action: ActionWord,
    #[serde(alias = "resolved_by")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Anything; kept beside the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// For `resolve_manually`: what the task would have left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// For `retry` of an ended task run: inputs of the run that are changed, for everything that is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<serde_json::Map<String, Value>>,
}

/// What became of a task run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// As it was named.
    pub task: String,
    pub ok: bool,
    /// `done`, `asked` (it runs, and was asked to stop) or `reopened` (its run goes on).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Acted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Outcomes {
    pub items: Vec<Outcome>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ManyBody {
    /// Names, `name[index]`, or task-run ids; at most 500.
    #[serde(alias = "step_uuids")]
    pub tasks: Vec<String>,
    pub action: ActionWord,
    #[serde(alias = "resolved_by")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// `{resolved_by, reason}` resolves by hand; `action` says something else.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleBody {
    /// `resolve_manually` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<ActionWord>,
    #[serde(alias = "resolved_by")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Give it fresh attempts first.
    #[serde(default)]
    pub reset_attempts: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryOverride {
    /// Attempts in all, the first one included: 1 to 1000.
    #[serde(alias = "max_attempts")]
    pub attempts: i64,
}

/// Other attempts, or another timeout, for one task run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryOverride>,
    /// Of one attempt, from the next one on: 1 to 31,536,000 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
    /// The same as a duration such as `90s` or `2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    #[serde(alias = "resolved_by")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    #[serde(alias = "complete", alias = "completed")]
    Success,
    #[serde(alias = "error")]
    Failed,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultError {
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// The result of a task that is done elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultBody {
    pub status: ResultStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResultError>,
    #[serde(alias = "by")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<String>,
}
