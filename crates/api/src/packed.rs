//! Runs and workflows as grids: one character per task, times as numbers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// The character of a task run's status; `.` is a task that has no task run (yet).
pub fn state_letter(status: &str) -> char {
    match status {
        "pending" => 'p',
        "ready" => 'y',
        "running" => 'r',
        "retrying" => 't',
        "waiting" => 'w',
        "success" => 's',
        "failed" => 'f',
        "skipped" => 'k',
        "upstream_failed" => 'u',
        "cancelled" => 'c',
        "resolved_manually" => 'm',
        _ => '.',
    }
}

/// A run as a whole, without what its tasks were given and what they left.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunOverview<R, T> {
    pub run: R,
    /// The server's time when it was read.
    #[schema(format = "date-time")]
    pub now: String,
    /// The number of the run's last event: live updates go on from here.
    pub seq: i64,
    /// Names of the tasks in the order of the workflow; every list below has the same order.
    pub tasks: Vec<String>,
    /// One character per task: p pending, y ready, r running, t retrying, w waiting, s success, f failed, k skipped,
    /// u upstream_failed, c cancelled, m resolved_manually, `.` nothing yet.
    pub states: String,
    /// Milliseconds since the run was made, or null.
    pub ready: Vec<Option<i64>>,
    pub started: Vec<Option<i64>>,
    pub finished: Vec<Option<i64>>,
    pub attempts: Vec<i32>,
    /// Of tasks that are repeated: how many items are in each state.
    pub items: Vec<TaskItems>,
    /// Attempts that did not end their task run.
    pub earlier: Vec<EarlierAttempt>,
    /// What people did.
    pub actions: Vec<RunAction>,
    /// The task that failed first, by its number.
    pub first_failure: Option<usize>,
    /// The tasks that determined when the run ended, by their numbers.
    pub critical_path: Vec<usize>,
    /// With `include=task`: the task that is asked for, or the one that failed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<T>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TaskItems {
    pub task: usize,
    /// `[letter, count]`
    #[schema(value_type = Vec<Vec<serde_json::Value>>)]
    pub counts: Vec<(char, i64)>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EarlierAttempt {
    pub task: usize,
    pub attempt: i32,
    pub started: Option<i64>,
    pub finished: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunAction {
    /// The task it was done to; null for the run.
    pub task: Option<String>,
    pub action: String,
    pub by: String,
    pub reason: Option<String>,
    #[schema(format = "date-time")]
    pub at: String,
}

/// Tasks × runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Grid {
    pub workflow: String,
    pub namespace: String,
    /// The names of the tasks of each version that occurs.
    pub versions: Vec<GridVersion>,
    /// The newest first.
    pub runs: Vec<GridRun>,
    /// `before` of the next page, or null.
    pub next: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GridVersion {
    pub version: i32,
    pub tasks: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GridRun {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub version: i32,
    pub status: String,
    #[schema(format = "date-time")]
    pub created_at: String,
    pub duration_ms: Option<i64>,
    /// One character per task of the version.
    pub states: String,
}

/// The last runs of a workflow and what follows from them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct WorkflowGlance {
    /// The oldest first, at most 20: id, status and how long it took.
    pub strip: Vec<StripCell>,
    pub p50_ms: Option<i64>,
    pub p95_ms: Option<i64>,
    /// Of the runs that ended, how many succeeded, 0 to 1.
    pub success_rate: Option<f64>,
    #[schema(format = "date-time")]
    pub next_fire_at: Option<String>,
    /// Its schedules in words.
    pub schedules: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StripCell {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub status: String,
    pub duration_ms: Option<i64>,
}
