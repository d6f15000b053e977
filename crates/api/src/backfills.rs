//! Backfills of a schedule's past.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::words::closed_set;

closed_set! {
    /// Of a backfill.
    BackfillStatus {
        Active = "active",
        Done = "done",
        Cancelled = "cancelled",
    }
}

/// A backfill.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Backfill {
    #[schema(value_type = String)]
    pub id: Uuid,
    #[schema(value_type = String)]
    pub schedule_id: Uuid,
    pub workflow: String,
    pub namespace: String,
    /// The trigger's id within the workflow.
    pub trigger: String,
    pub from: String,
    pub to: String,
    /// Every fire up to here has been made.
    pub position: String,
    pub max_parallel: i32,
    pub priority: i16,
    /// `active`, `done` or `cancelled`.
    pub status: BackfillStatus,
    /// How many runs it has made.
    pub runs: i64,
    pub created_by: String,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBackfill {
    /// The id of the trigger within the workflow; may be left out if the clock fires only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The first instant that belongs to it.
    pub from: String,
    /// The first that does not.
    pub to: String,
    /// How many of its runs may be open at once; 1 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Lower than the workflow's unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Only say which fires it would make up for.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether `to` may lie in the future; the runs of instants to come are made now then.
    #[serde(default)]
    pub allow_future: bool,
}

/// The fires that a backfill would make up for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BackfillPlan {
    pub dry_run: bool,
    pub workflow: String,
    pub trigger: String,
    /// How many.
    pub runs: i64,
    /// The first of them, at most 100.
    pub fires: Vec<String>,
}
