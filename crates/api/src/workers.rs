//! Workers, the cluster and its queues.

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

/// Who takes part.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// The node that leads, or null.
    pub leader: Option<String>,
    /// Rises with every change of the leader.
    pub epoch: i64,
    pub members: Vec<Member>,
    pub queues: Vec<Queue>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Member {
    pub node: String,
    pub workers: Vec<String>,
    pub leads: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    pub namespace: String,
    pub queue: String,
    /// Task runs that a worker could take now.
    pub ready: i64,
}
