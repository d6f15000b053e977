//! Workers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::closed_set;

closed_set! {
    /// Of a worker.
    WorkerStatus {
        Active = "active",
        Draining = "draining",
        Inactive = "inactive",
    }
}

/// A process that executes tasks.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name.
    pub id: String,
    pub session_id: i64,
    pub hostname: String,
    pub last_heartbeat: String,
    /// `active`, `draining` or `inactive`.
    pub status: WorkerStatus,
    /// Empty: every queue.
    pub queues: Vec<String>,
    pub labels: Vec<String>,
    pub slots: i32,
    /// How many task runs it executes.
    pub running: i64,
}
