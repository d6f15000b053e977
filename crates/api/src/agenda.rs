//! The fires of all schedules within a window of time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Agenda {
    #[schema(format = "date-time")]
    pub from: String,
    #[schema(format = "date-time")]
    pub to: String,
    #[schema(format = "date-time")]
    pub now: String,
    /// The schedules whose fires are shown.
    pub schedules: Vec<AgendaSchedule>,
    /// Past and future fires in the order of their times; none if there are more than 2000, or with `seldom` some of them.
    pub fires: Vec<AgendaEntry>,
    /// Fires per hour, from the first hour of the window on.
    pub hours: Vec<u64>,
    /// Whether there were too many fires to be listed one by one.
    pub is_bucketed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AgendaSchedule {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub namespace: String,
    pub workflow: String,
    pub name: String,
    pub schedule: String,
    pub description: Option<String>,
    pub timezone: Option<String>,
    pub is_paused: bool,
    /// The median of the last successful runs of its workflow.
    pub expected_ms: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AgendaEntry {
    /// The number of its schedule in `schedules`.
    pub schedule: usize,
    #[schema(format = "date-time")]
    pub at: String,
    /// The last instant of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How many instants this stands for.
    pub count: i64,
    /// `fired`, `skipped`, `missed`, `blacked_out`, `failed`, `future` or `paused`.
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub run_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
