//! What the parts of an installation report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::words::closed_set;

closed_set! {
    /// How a part is.
    HealthStatus {
        Healthy = "healthy",
        Degraded = "degraded",
        Unhealthy = "unhealthy",
    }
}

/// How everything is.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HealthReport {
    /// `healthy`, `degraded` or `unhealthy`: the worst of the components.
    pub status: HealthStatus,
    pub timestamp: String,
    pub components: BTreeMap<String, Component>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Component {
    pub status: HealthStatus,
    /// Like `message` and `details` only for those with the role viewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}
