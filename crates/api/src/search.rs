//! What a search finds.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::words::closed_set;

closed_set! {
    /// What was found.
    FoundKind {
        Workflow = "workflow",
        Run = "run",
        Error = "error",
    }
}

/// Something that was found.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Found {
    /// `workflow`, `run` or `error`.
    pub kind: FoundKind,
    /// A workflow's name, a run's id, or a task run's id.
    pub id: String,
    /// The run that it is, or that the error is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    pub title: String,
    /// The beginning of what was found.
    pub body: String,
}
