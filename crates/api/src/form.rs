//! What a person is asked before a run is started.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// The inputs of a workflow as a form.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StartForm {
    pub workflow: String,
    pub namespace: String,
    pub version: i32,
    pub inputs: Vec<FormField>,
    /// What its last runs were given, the newest first.
    pub recent: Vec<RecentInputs>,
}

/// One input.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FormField {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean`, `object`, `list`, `date`, `datetime` or `duration`.
    pub r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub r#enum: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// What a run was given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RecentInputs {
    #[schema(value_type = String, format = "uuid")]
    pub run_id: Uuid,
    #[schema(format = "date-time")]
    pub created_at: String,
    #[schema(value_type = Object)]
    pub inputs: Value,
}
