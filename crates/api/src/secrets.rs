//! Secrets, without their values.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A secret, without its value.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    pub name: String,
    pub namespace: String,
    pub updated_by: String,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSecret {
    /// At most 64 KiB.
    pub value: String,
}

/// The value is not shown.
impl std::fmt::Debug for PutSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PutSecret")
    }
}
