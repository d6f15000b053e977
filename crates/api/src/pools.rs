//! Named pools.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A named pool.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    pub name: String,
    pub namespace: String,
    /// How many task runs may go on at once; null is unlimited.
    pub slots: Option<i32>,
    /// How many go on.
    pub held: i32,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutPool {
    /// A number from 0, or null for unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<i32>,
}
