//! Many runs with one request.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::name::Name;

/// Runs to be started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRuns {
    /// At most 1000.
    #[schema(max_items = 1000)]
    pub runs: Vec<BulkRun>,
}

/// A run to be started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRun {
    /// The name of the workflow.
    pub workflow: Name,
    /// `default` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Map<String, Value>>,
    /// 0 (last) to 1000 (first), or `low`, `medium`, `high`, `critical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Value>,
    /// RFC 3339: when it is to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The same key in the same namespace makes one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// What became of each, in the order of the request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkResults {
    pub created: usize,
    /// Made before under the same key.
    pub repeated: usize,
    pub refused: usize,
    pub results: Vec<BulkResult>,
}

/// What became of one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkResult {
    /// 201, 200 if its key made it before, or the status of its problem.
    pub status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// A problem as elsewhere.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
}
