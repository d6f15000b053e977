//! The cluster: nodes, the leader, workers, queues, and what etcd and Redis say.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::pauses::Pause;
use crate::pools::Pool;

/// What takes part.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// The node that leads, or null.
    pub leader: Option<String>,
    /// Rises with every change of the leader.
    pub epoch: i64,
    pub members: Vec<ClusterMember>,
    /// Queues of the namespaces that the caller may see.
    pub queues: Vec<ClusterQueue>,
    /// Pools of these namespaces.
    pub pools: Vec<Pool>,
    /// What is paused in these namespaces or in all, the widest first.
    pub pauses: Vec<Pause>,
    pub coordination: ClusterService,
    /// Null if there is none.
    pub redis: Option<ClusterService>,
}

/// A process that takes part.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClusterMember {
    pub node: String,
    pub name: String,
    /// Where its HTTP server listens, or null.
    pub address: Option<String>,
    pub roles: Vec<String>,
    pub version: String,
    /// When it started.
    pub since: String,
    pub last_heartbeat: String,
    /// Whether it was heard of lately.
    pub alive: bool,
    /// Whether etcd has a live lease of it; null without etcd.
    pub in_etcd: Option<bool>,
    pub leads: bool,
    /// Names of its workers.
    pub workers: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClusterQueue {
    pub namespace: String,
    pub queue: String,
    /// Task runs that a worker could take now.
    pub ready: i64,
}

/// Something beside the database, and how it is.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClusterService {
    /// `database`, `etcd` or `redis`.
    pub kind: String,
    /// `healthy` or `degraded`.
    pub status: String,
    pub message: String,
}
