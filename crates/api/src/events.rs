//! Events, their handlers, and webhooks.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::name::Name;
use crate::namespaces::said;
use crate::words::closed_set;

closed_set! {
    /// What a listener made of an event.
    DeliveryOutcome {
        Started = "started",
        Ignored = "ignored",
        Failed = "failed",
        Debounced = "debounced",
        Superseded = "superseded",
    }
}

closed_set! {
    /// What a handler does about an event.
    HandlerAction {
        CreateJob = "create_job",
        TriggerWorkflow = "trigger_workflow",
        DispatchAgent = "dispatch_agent",
    }
}

/// An event to be announced.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    pub event_name: String,
    /// At most 1 MiB
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What waiting tasks compare with their own key; `key` of the data unless given
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(alias = "platform_id")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
}

/// What one listener made of an event.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// The id of the handler or trigger
    pub listener: Uuid,
    /// started, ignored, failed, debounced or superseded
    pub outcome: DeliveryOutcome,
    pub run_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub reason: Option<String>,
}

/// That an event is written down, and what it started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Announced {
    pub id: Uuid,
    pub event_name: String,
    pub namespace: String,
    pub deliveries: Vec<Delivery>,
}

/// What is done whenever an event is announced.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventHandler {
    pub id: Uuid,
    /// A `*` at its end stands for any rest
    pub event_name: String,
    pub handler_name: String,
    pub handler_type: String,
    pub enabled: bool,
    /// Higher ones hear of an event first
    pub priority: i32,
    /// create_job, trigger_workflow or dispatch_agent
    pub action_type: HandlerAction,
    #[schema(value_type = Object)]
    pub action_config: Value,
    /// Null for one that handles the events of all namespaces
    pub namespace: Option<String>,
    pub trigger_count: i64,
    pub success_count: i64,
    pub failure_count: i64,
    pub last_triggered: Option<String>,
    pub created_by: String,
    pub created_at: String,
    pub updated_at: String,
}

/// A handler to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHandler {
    pub event_name: String,
    /// The function, agent or workflow
    pub handler_name: String,
    /// function, agent or workflow; by the action unless given
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// create_job, trigger_workflow or dispatch_agent
    pub action_type: String,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The same as `namespace`; null says that it handles the events of all namespaces
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub platform_id: Option<Option<Name>>,
    /// Whether it handles the events of all namespaces
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

/// What is to be changed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeHandler {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_type: Option<String>,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_config: Option<Value>,
}

/// That a call is written down.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Called {
    /// The id of the event that it became
    pub id: Uuid,
    /// The runs it has started so far
    pub runs: Vec<Uuid>,
}
