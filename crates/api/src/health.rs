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
    pub latency_ms: u64,
    pub message: String,
    pub details: Value,
}
