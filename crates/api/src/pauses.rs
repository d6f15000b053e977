//! Pauses of queues, namespaces and everything.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::name::Name;

/// A pause that is in force: no task that it covers is started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    /// Null for all namespaces
    pub namespace: Option<String>,
    /// Null for all queues
    pub queue: Option<String>,
    pub paused_by: String,
    pub reason: Option<String>,
    pub paused_at: String,
}

/// What is to be paused or resumed: a queue, a namespace, a queue of a namespace, or all.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseScope {
    /// In all namespaces, unless one is given too
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// True for everything, without a queue and a namespace
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// At most 1,000 characters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
