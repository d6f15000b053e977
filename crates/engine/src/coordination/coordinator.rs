//! What coordination means, whatever carries it.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_store::NewMember;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::lock_guard::LockGuard;
use crate::bus::transport::BoxFuture;

/// A process that takes part, as it presents itself to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub node: Uuid,
    pub name: String,
    /// Where its HTTP server listens, if it has one.
    pub address: Option<String>,
    pub roles: Vec<String>,
    pub version: String,
    pub started_at: Micros,
}

impl Member {
    pub(crate) fn row(&self) -> NewMember {
        NewMember {
            node: self.node,
            name: self.name.clone(),
            address: self.address.clone(),
            roles: self.roles.join(","),
            version: self.version.clone(),
            started_at: self.started_at,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CoordinationError {
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
    /// It cannot be reached now; later it may.
    #[error("etcd is not reachable: {0}")]
    Unreachable(String),
    /// It will not do with these settings.
    #[error("{0}")]
    Refused(String),
}

/// How coordination is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinationHealth {
    Healthy,
    /// It goes on by the database alone, because of this.
    Degraded(String),
}

/// What a leader writes where candidates watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeadershipNote {
    pub(crate) node: Uuid,
    pub(crate) epoch: i64,
}

pub(crate) trait Coordinator: Send + Sync + std::fmt::Debug + 'static {
    fn kind(&self) -> &'static str;

    fn health(&self) -> CoordinationHealth;

    /// Publishes a member under a lease, and keeps it until stopped; then withdraws it.
    fn keep_membership(self: Arc<Self>, member: Member, stop: CancellationToken) -> BoxFuture<'static, ()>;

    /// Members that it knows to be there now; `None` if it cannot say.
    fn present(&self) -> Option<Vec<Uuid>>;

    /// Whether a process is known to be gone, which permits taking its term over at once. Never a guess: losing contact
    /// says nothing about others.
    fn is_gone(&self, node: Uuid) -> bool;

    /// Waits until members or the leadership have changed.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Notes which node leads, or that this one does not any more.
    fn note_leadership(&self, note: Option<LeadershipNote>);

    /// Waits for a lock. `ttl` is how long it outlives a holder that fell silent.
    fn lock<'a>(&'a self, name: &'a str, ttl: Duration) -> BoxFuture<'a, Result<LockGuard, CoordinationError>>;
}
