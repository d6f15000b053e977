//! Workflows, their versions and graphs, and starting a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::problem::Fault;
use crate::words::closed_set;

closed_set! {
    /// The part of a run that a task belongs to.
    Stage {
        Main = "main",
        OnFailure = "on_failure",
        OnSuccess = "on_success",
        Finally = "finally",
    }
}

closed_set! {
    /// What a task does.
    TaskKind {
        Run = "run",
        Steps = "steps",
        Function = "function",
        Http = "http",
        Workflow = "workflow",
        Remote = "remote",
        Approval = "approval",
        Wait = "wait",
    }
}

/// A workflow.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub namespace: String,
    /// The number of its newest version.
    pub version: i32,
    /// The first cron expression that starts it.
    pub schedule_cron: Option<String>,
    pub is_active: bool,
    pub tags: Vec<String>,
    pub metadata: Value,
    /// What `metadata.created_by` says, or who stored the first version
    pub created_by: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    /// Its last runs, with `include`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glance: Option<crate::packed::WorkflowGlance>,
    /// What is hardly meant, with line and column; only where it was just stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Fault>,
}

/// One version of a workflow.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Version {
    pub version: i32,
    /// The SHA-256 of what it holds.
    pub hash: String,
    pub created_at: String,
    /// The text it was made of; only where one version is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What storing a workflow would do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DryRun {
    pub dry_run: bool,
    pub name: String,
    pub namespace: String,
    /// The newest version that is stored, or null.
    pub version: Option<i32>,
    /// Whether it is the same as that.
    pub unchanged: bool,
    /// How it differs from that, task by task; null if there is none.
    pub differences: Option<Value>,
    /// What is hardly meant, with line and column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Fault>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// False: nothing starts it but people.
    pub is_active: bool,
}

/// The tasks of a workflow and what needs what.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Graph {
    pub workflow: String,
    pub version: i32,
    pub nodes: Vec<GraphNode>,
    pub edges: Vec<GraphEdge>,
    /// Where everything lies, with `layout=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<GraphLayout>,
}

/// A picture of the graph in pixels at the usual size: left edge, top edge and width of each node, and the bends of each edge.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GraphLayout {
    pub width: i64,
    pub height: i64,
    /// Height of every box.
    pub box_height: i64,
    pub x: Vec<i64>,
    pub y: Vec<i64>,
    pub w: Vec<i64>,
    /// Per edge the points it passes, x and y in turn.
    pub bends: Vec<Vec<i64>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GraphNode {
    /// The task's number.
    pub id: i32,
    pub task: String,
    pub kind: TaskKind,
    /// `main`, `on_failure`, `on_success` or `finally`.
    pub stage: Stage,
    /// The longest way to a task that needs nothing.
    pub level: u32,
    pub rule: String,
    pub has_condition: bool,
    pub is_repeated: bool,
    pub queue: String,
    pub pool: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    pub from: i32,
    pub to: i32,
}

/// What a text is worth.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Validation {
    pub valid: bool,
    /// Everything that is wrong, with line and column.
    pub errors: Vec<Fault>,
    /// What is hardly meant, with line and column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Fault>,
    pub name: Option<String>,
    pub namespace: Option<String>,
    /// Names of tasks, each behind all it needs.
    pub topological_order: Vec<String>,
    /// The next fires of each trigger that the clock fires.
    pub next_fire_times: Vec<Fires>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Fires {
    pub trigger: String,
    pub kind: String,
    pub times: Vec<String>,
}

/// What a run is given.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TriggerBody {
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Map<String, Value>>,
    /// 0 (last) to 1000 (first), or `low`, `medium`, `high`, `critical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Value>,
    /// RFC 3339: when it is to start; at once if that has passed. Until then it is pending and can be cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The same key in the same namespace makes one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// What a run would be given, if it were started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TriggerPlan {
    pub workflow: String,
    pub version: i32,
    /// With the defaults of those that were left out.
    #[schema(value_type = Object)]
    pub inputs: Map<String, Value>,
    /// When it would start, if not at once.
    pub starts_at: Option<String>,
}

/// A run that was started, or with `dry_run` what would have been.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum TriggerAnswer {
    Run(Box<crate::runs::Run>),
    Plan(TriggerPlan),
}

/// A workflow with the files that it brings along.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowBundle {
    /// The workflow, YAML or JSON of the dialect.
    pub source: String,
    pub files: Vec<BundledFile>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundledFile {
    pub path: String,
    #[serde(default)]
    pub executable: bool,
    /// Base64.
    pub content: String,
}

/// A workflow as JSON: the dialect of workflow files, or the short form `{name, description, schedule_cron, is_active}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WorkflowDocument {
    /// A name, or a title that a name is made of.
    pub name: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
