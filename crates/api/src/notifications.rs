//! Who gets a notification when something goes wrong, and what became of each message.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// A message that went out, or is to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotificationEntry {
    pub id: Uuid,
    pub namespace: String,
    pub workflow: String,
    /// `run_failed`, `deadline_missed`, `stale_warning` or `dead_letter`.
    pub event: String,
    pub run_id: Option<Uuid>,
    /// `webhook`, `slack` or `email`.
    pub channel: String,
    /// `waiting`, `sent`, `given_up` or `in_digest`.
    pub status: String,
    pub attempts: i32,
    /// Why the last attempt failed.
    pub error: Option<String>,
    pub body: Value,
    pub created_at: String,
    pub next_attempt_at: Option<String>,
    pub sent_at: Option<String>,
}

/// Who gets a notification of everything that goes wrong in a namespace, beside what its workflows say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationTargets {
    /// Each `{on: […], webhook, secret}`, `{on, slack}` or `{on, email: […]}`.
    pub notifications: Vec<Value>,
}
