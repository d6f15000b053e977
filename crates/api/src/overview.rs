//! What needs a person now: the first page of the web interface.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::pauses::Pause;

/// Everything that the first page shows.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The server's time when it was read.
    #[schema(format = "date-time")]
    pub now: String,
    /// Failures that wait for a person, those of one task with one kind of error together; the newest first.
    pub dead_letters: Vec<LetterGroup>,
    /// How many dead letters wait, counted up to 1000.
    pub dead_letters_pending: usize,
    /// Runs that failed within the last day.
    pub failed: Vec<RunBrief>,
    /// Task runs that wait for an approval.
    pub approvals: Vec<AwaitedApproval>,
    /// Open runs to which nothing has happened for long.
    pub stale: Vec<RunBrief>,
    /// Fires of the last day that were missed or failed.
    pub missed: Vec<MissedFire>,
    /// Open runs, the newest first.
    pub running: Vec<RunBrief>,
    /// How many runs are open, counted up to 1000.
    pub running_count: usize,
    pub queues: Vec<QueueState>,
    /// What is paused, the widest first.
    pub pauses: Vec<Pause>,
    /// The next 20 fires.
    pub next: Vec<NextRun>,
    pub workers: WorkerTotals,
}

/// Dead letters with one cause.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LetterGroup {
    pub namespace: String,
    pub workflow: String,
    /// The name of the task; null where the run as a whole is meant.
    pub task: Option<String>,
    pub error: Option<String>,
    pub count: usize,
    #[schema(format = "date-time")]
    pub first_seen: String,
    #[schema(format = "date-time")]
    pub last_seen: String,
    /// The newest of them.
    #[schema(value_type = String, format = "uuid")]
    pub run_id: Uuid,
    /// Names the group of dead letters with one cause.
    pub fingerprint: Option<String>,
}

/// A run in a few words.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunBrief {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub version: i32,
    pub status: String,
    /// Task runs that are open.
    pub open_tasks: i32,
    /// Task runs that failed so far.
    pub failed_tasks: i32,
    #[schema(format = "date-time")]
    pub created_at: String,
    #[schema(format = "date-time")]
    pub started_at: Option<String>,
    #[schema(format = "date-time")]
    pub finished_at: Option<String>,
    /// When something last happened to it; only of open runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    pub progress_at: Option<String>,
}

/// A task run that waits for a person to say yes or no.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AwaitedApproval {
    #[schema(value_type = String, format = "uuid")]
    pub run_id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub task: String,
    pub message: Option<String>,
    #[schema(format = "date-time")]
    pub since: String,
    #[schema(format = "date-time")]
    pub until: Option<String>,
}

/// An instant, or a range of them, at which nothing was started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MissedFire {
    #[schema(value_type = String, format = "uuid")]
    pub schedule_id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub schedule: String,
    #[schema(format = "date-time")]
    pub scheduled_for: String,
    #[schema(format = "date-time")]
    pub until: Option<String>,
    pub count: i64,
    pub reason: Option<String>,
}

/// What waits in a queue.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueueState {
    pub namespace: String,
    pub queue: String,
    /// Task runs that a worker could take now.
    pub ready: i64,
    /// Since when the oldest of them has waited.
    #[schema(format = "date-time")]
    pub oldest_at: String,
}

/// A fire to come.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NextRun {
    #[schema(value_type = String, format = "uuid")]
    pub schedule_id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub schedule: String,
    #[schema(format = "date-time")]
    pub fire_at: String,
}

/// Who executes, in numbers.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct WorkerTotals {
    pub active: usize,
    pub draining: usize,
    pub slots: i64,
    pub running: i64,
}
