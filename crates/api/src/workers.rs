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
    /// Processes at once.
    pub slots: i32,
    /// Functions at once.
    #[serde(default)]
    pub function_slots: i32,
    /// Tasks of kind `remote` at once.
    #[serde(default)]
    pub remote_slots: i32,
    /// How many task runs it executes.
    pub running: i64,
    /// A process of its own, over the worker protocol; otherwise the pool of a node.
    #[serde(default)]
    pub remote: bool,
    /// The node that it belongs to, or talks to.
    #[serde(default)]
    pub node: String,
    /// Of its program, if it said so.
    #[serde(default)]
    pub version: String,
    /// Another live worker has the same id. Both work.
    #[serde(default)]
    pub duplicate_id: bool,
}
