//! Triggers of workflows and what became of their fires.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::words::closed_set;

closed_set! {
    /// What fires a trigger.
    TriggerKind {
        Cron = "cron",
        Every = "every",
        At = "at",
        Event = "event",
        Webhook = "webhook",
        Workflow = "workflow",
        Poll = "poll",
        Manual = "manual",
    }
}

closed_set! {
    /// Of a trigger.
    ScheduleStatus {
        Active = "active",
        Paused = "paused",
        Inactive = "inactive",
        Completed = "completed",
        Failed = "failed",
        Removed = "removed",
    }
}

closed_set! {
    /// What became of a nominal time.
    FireOutcome {
        Fired = "fired",
        Skipped = "skipped",
        Missed = "missed",
        BlackedOut = "blacked_out",
        Failed = "failed",
    }
}

/// A trigger of a workflow's newest version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    #[schema(value_type = String)]
    pub id: Uuid,
    #[schema(value_type = String)]
    pub workflow_id: Uuid,
    pub workflow: String,
    pub namespace: String,
    /// Its id within the workflow.
    pub name: String,
    /// `cron`, `every`, `at`, `event`, `webhook`, `workflow` or `poll`.
    pub kind: TriggerKind,
    /// The cron expression, the interval, the instant, or what it listens to.
    pub schedule: String,
    /// The cron expression in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// `active`; `paused`; `inactive` with its workflow; `completed` if it never fires again; `failed` if it cannot.
    pub status: ScheduleStatus,
    /// When it fires next: the nominal time, and the time with jitter and calendar.
    pub next_run: Option<String>,
    pub next_fire_at: Option<String>,
    pub last_fire_at: Option<String>,
    /// How often it has fired.
    pub fired: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catchup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_executions: Option<u64>,
    /// Of a poll: what its checks found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<PollShown>,
    /// Why it cannot fire, or why the last check of a poll failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    pub created_at: String,
    pub updated_at: String,
}

/// How a poll is doing.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PollShown {
    /// How many checks have ended.
    pub checks: i64,
    pub last_check_at: Option<String>,
    /// The run of the last check: its log and its output.
    #[schema(value_type = Option<String>)]
    pub last_check_run: Option<Uuid>,
    /// How many runs of the workflow were started, one per key.
    pub started: i64,
    /// What was found last.
    pub last_key: Option<String>,
    /// The run of the workflow that was started last.
    #[schema(value_type = Option<String>)]
    pub last_run: Option<Uuid>,
    /// How many checks in a row have failed.
    pub failures: i64,
    /// Why the last check failed.
    pub last_error: Option<String>,
}

/// A fire to come.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NextFire {
    /// What `run.scheduled_for` will be.
    pub scheduled_for: String,
    /// When it happens, with jitter and calendar.
    pub fire_at: String,
}

/// What became of a nominal instant, or of a range of them.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FireShown {
    pub scheduled_for: String,
    /// The last instant of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How many instants this tells of.
    pub count: i64,
    /// `fired`, `skipped`, `missed`, `blacked_out` or `failed`.
    pub outcome: FireOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub backfill: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub fired_at: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSchedule {
    /// Whether it is to rest.
    pub paused: bool,
}
