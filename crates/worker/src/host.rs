//! What the built-in handlers need of the system around them.
//!
//! The worker knows no store, so the program that embeds it beside one provides this. Everything is meant for one namespace, the one
//! of the task that asks; implementations must not look beyond it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use mainspring_core::Micros;
use mainspring_core::work::Failure;
use serde::Serialize;
use serde_json::{Map, Value};

pub type HostFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HostError>> + Send + 'a>>;

/// Why the host could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    pub message: String,
    /// Trying again is useless.
    pub permanent: bool,
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self { kind: "store".into(), message: error.message, permanent: error.permanent, ..Self::default() }
    }
}

/// Implemented by the program that has the store. A future that is dropped half-way must leave the store consistent: calls have a
/// time limit and can be cancelled.
pub trait Host: Send + Sync + fmt::Debug + 'static {
    /// Deletes what ended before that instant in the namespace: runs with all that belongs to them, their logs and
    /// traces. Works in batches and returns when nothing is left to delete. Open runs stay, however old.
    fn purge<'a>(&'a self, namespace: &'a str, before: Micros) -> HostFuture<'a, PurgeReport>;

    /// Looks at the components of this node now, each within its own time limit.
    fn health(&self) -> HostFuture<'_, HealthReport>;

    /// What [`Host::metrics`] can be asked for.
    fn metric_types(&self) -> Vec<&'static str>;

    /// The present numbers of one type, or of all types, by name.
    fn metrics<'a>(&'a self, namespace: &'a str, metric_type: Option<&'a str>) -> HostFuture<'a, Map<String, Value>>;

    /// Builds the search index of the namespace anew from at most `limit` documents, the newest first.
    fn reindex<'a>(&'a self, namespace: &'a str, limit: Option<u64>) -> HostFuture<'a, ReindexReport>;
}

/// How much was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PurgeReport {
    pub runs: u64,
    pub task_runs: u64,
    pub logs: u64,
    pub traces: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    Healthy,
    Degraded,
    Unhealthy,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthReport {
    /// The worst of the components.
    pub status: HealthStatus,
    pub components: Vec<ComponentHealth>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentHealth {
    pub name: String,
    pub status: HealthStatus,
    pub latency_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// How many documents of each kind are in the index now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReindexReport {
    pub workflows: u64,
    pub runs: u64,
    pub errors: u64,
}
