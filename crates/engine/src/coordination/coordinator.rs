//! The interface of coordination.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_store::NewMember;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::lock_guard::LockGuard;
use crate::bus::transport::BoxFuture;

/// A process that takes part, as other processes see it.
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
    /// It is unreachable now; a retry may succeed.
    #[error("etcd is not reachable: {0}")]
    Unreachable(String),
    /// It refuses these settings.
    #[error("{0}")]
    Refused(String),
}

/// The health of coordination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinationHealth {
    Healthy,
    /// Nodes coordinate by the database alone, for this reason.
    Degraded(String),
}

/// The leader's entry that candidates watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeadershipNote {
    pub(crate) node: Uuid,
    pub(crate) epoch: i64,
}

pub(crate) trait Coordinator: Send + Sync + std::fmt::Debug + 'static {
    fn kind(&self) -> &'static str;

    fn health(&self) -> CoordinationHealth;

    /// Publishes a member under a lease, renews the lease until stopped, then withdraws the member.
    fn keep_membership(self: Arc<Self>, member: Member, stop: CancellationToken) -> BoxFuture<'static, ()>;

    /// Members known to be present; `None` if the coordinator cannot tell.
    fn present(&self) -> Option<Vec<Uuid>>;

    /// Whether a process is known to be gone, which permits taking its term over at once. Never a guess: losing contact
    /// proves nothing about others.
    fn is_gone(&self, node: Uuid) -> bool;

    /// Waits until members or the leadership have changed.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Publishes that this node leads, or that it does not lead any more.
    fn note_leadership(&self, note: Option<LeadershipNote>);

    /// Waits for a lock. `ttl` is how long the lock outlives a silent holder.
    fn lock<'a>(&'a self, name: &'a str, ttl: Duration) -> BoxFuture<'a, Result<LockGuard, CoordinationError>>;
}
