//! The validated workflow: what a version stores and everything else works from.
//!
//! A `Workflow` is made by parsing and validating a text (or read back from a stored version, which was made so).
//! Tasks are addressed by index: main tasks first, in the order written, then `on_failure`, then `finally`.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::retry::{OnExhausted, Retry};
use crate::rule::TriggerRule;
use crate::state::{UnknownState, coded_enum};

pub const DEFAULT_NAMESPACE: &str = "default";
pub const DEFAULT_QUEUE: &str = "default";
pub const DEFAULT_PRIORITY: i16 = 500;
pub const MAX_PRIORITY: i16 = 1000;
pub const DEFAULT_MAX_LOST: u16 = 5;
pub const MAX_TASKS: usize = 100_000;

coded_enum! {
    /// Which part of a run a task belongs to. A stage begins when the one before it has no open task left.
    Stage("stage") {
        Main = 0 "main",
        OnFailure = 1 "on_failure",
        Finally = 2 "finally",
    }
}

coded_enum! {
    /// What kind of slot a task occupies; processes and functions are bounded apart.
    SlotClass("slot class") {
        Process = 0 "process",
        Function = 1 "function",
    }
}

coded_enum! {
    /// What happens to a new run while the concurrency limit is used up.
    Overlap("overlap") {
        Queue = 0 "queue",
        Skip = 1 "skip",
        CancelRunning = 2 "cancel_running",
        Allow = 3 "allow",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub name: String,
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<String, Input>,
    /// Values may hold `${{ }}`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// 0 (last) to 1000 (first).
    pub priority: i16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    pub tasks: Vec<Task>,
}

/// A declared input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    #[serde(rename = "type")]
    pub kind: InputKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True when the run cannot start without it: no default was given.
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
}

coded_enum! {
    InputKind("input type") {
        String = 0 "string",
        Integer = 1 "integer",
        Number = 2 "number",
        Boolean = 3 "boolean",
        Object = 4 "object",
        List = 5 "list",
        Date = 6 "date",
        Datetime = 7 "datetime",
        Duration = 8 "duration",
    }
}

/// At most `limit` runs at once that share `key`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Concurrency {
    /// A template over `inputs`; `None` means one key for the whole workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub limit: u32,
    pub overlap: Overlap,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub name: String,
    pub stage: Stage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Indexes of the tasks this one waits for, ascending, all of its own stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<i32>,
    /// The reverse of `needs`, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<i32>,
    pub rule: TriggerRule,
    /// An expression (without braces) that must be true for the task to run.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    pub action: Action,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Retry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default = "default_queue", skip_serializing_if = "is_default_queue")]
    pub queue: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Overrides the run's priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    pub on_exhausted: OnExhausted,
    pub max_lost: u16,
    /// What the expressions of this task (its condition apart) look at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads: Reads,
    /// What its condition looks at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub condition_reads: Reads,
}

/// Which parts of a run an expression needs before it can be evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// True when there is an expression at all.
    pub any: bool,
    /// Indexes of tasks whose output, status or attempts are read; all of them lie upstream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<i32>,
}

/// What a task does. Texts may hold `${{ }}` except in `script`, where expressions were bound to variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Run {
        /// The script; each `${{ }}` of the source is a reference to a variable of `bindings`.
        script: String,
        /// Variable name → expression (without braces).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        bindings: Vec<(String, String)>,
        /// Interpreter, `bash` if there is one, else `sh`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shell: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    Function {
        handler: String,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        payload: Value,
    },
}

impl Action {
    pub fn slot_class(&self) -> SlotClass {
        match self {
            Self::Run { .. } => SlotClass::Process,
            Self::Function { .. } => SlotClass::Function,
        }
    }

    /// The kind key as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Run { .. } => "run",
            Self::Function { .. } => "function",
        }
    }
}

/// What one process of a task may use. Nothing here: as much as the worker itself may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}

/// What a request carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpBody {
    Json(Value),
    Form(IndexMap<String, String>),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpAuth {
    Basic { username: String, password: String },
    Bearer(String),
}

/// Which answer counts as success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpExpect {
    pub status: Vec<StatusRange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyExpect>,
}

impl Default for HttpExpect {
    /// Any status from 200 to 299, any body.
    fn default() -> Self {
        Self { status: vec![StatusRange { from: 200, to: 299 }], body: None }
    }
}

/// Both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRange {
    pub from: u16,
    pub to: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyExpect {
    Contains(String),
    /// A regular expression that is found somewhere in the body.
    Matches(String),
    /// An expression over `body`, `status` and `headers` that must be true.
    Json(String),
}

impl Workflow {
    /// Indexes of the tasks of a stage; stages lie one behind the other.
    pub fn stage(&self, stage: Stage) -> std::ops::Range<usize> {
        let start = self.tasks.partition_point(|task| task.stage < stage);
        let end = self.tasks.partition_point(|task| task.stage <= stage);
        start..end
    }

    pub fn task_index(&self, name: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.name == name)
    }

    pub fn has_finalisers(&self) -> bool {
        self.tasks.last().is_some_and(|task| task.stage != Stage::Main)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn default_queue() -> String {
    DEFAULT_QUEUE.to_owned()
}

fn is_default_queue(queue: &str) -> bool {
    queue == DEFAULT_QUEUE
}
