//! Namespaces and their quotas.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::name::Name;

/// A namespace.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    pub name: String,
    pub description: Option<String>,
    /// Submissions beyond it get 429; null is unlimited.
    pub max_open_runs: Option<i32>,
    /// Workflows beyond it get 409; null is unlimited.
    pub max_workflows: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateNamespace {
    pub name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_open_runs: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_workflows: Option<i32>,
}

/// What is left out stays; null is unlimited, or no description.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeNamespace {
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Option<String>>,
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<i32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_open_runs: Option<Option<i32>>,
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<i32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_workflows: Option<Option<i32>>,
}

/// Tells null from nothing.
pub(crate) fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(reader: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(reader).map(Some)
}
