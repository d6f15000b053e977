//! Signing in to the web interface.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What a person signs in with: one of the two.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignIn {
    /// An API token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A one-time code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What it holds belongs into no log.
        out.write_str("SignIn")
    }
}

/// Who is signed in.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// The name of the token.
    pub name: String,
    /// A list of `{namespace, role}`.
    #[schema(value_type = Vec<Object>)]
    pub grants: Value,
    /// When the session is over at the latest.
    #[schema(format = "date-time")]
    pub expires_at: String,
}

/// For whom a one-time code is made.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewCode {
    /// The API token that the code stands for; that of the request unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl std::fmt::Debug for NewCode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("NewCode")
    }
}

/// A code that signs in once. It belongs into the fragment of an address: `/ui/#code=…`.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct OneTimeCode {
    pub code: String,
    #[schema(format = "date-time")]
    pub expires_at: String,
}

impl std::fmt::Debug for OneTimeCode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("OneTimeCode")
    }
}
