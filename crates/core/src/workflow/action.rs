//! What the kinds of tasks do. Texts may hold `${{ }}` unless it is said otherwise.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::{UnknownState, coded_enum};

use super::{SlotClass, is_default};

/// How many redirects are followed unless a task says otherwise.
pub const DEFAULT_REDIRECTS: u8 = 5;
/// The largest answer of an HTTP request, and what holds unless a task asks for less.
pub const MAX_RESPONSE_BYTES: u64 = 1024 * 1024;

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
    /// Scripts one after the other in the same folder, as one attempt.
    Steps {
        steps: Vec<Step>,
        /// Of the steps that say nothing else.
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
    /// Boxed: it is far larger than the others, and a workflow may have very many tasks.
    Http(Box<Http>),
    Workflow(Child),
    /// Executed by a worker of another program, which asks for work over the network.
    Remote {
        handler: String,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        payload: Value,
    },
    Approval(Approval),
    Wait(Wait),
}

impl Action {
    pub fn slot_class(&self) -> SlotClass {
        match self {
            Self::Run { .. } | Self::Steps { .. } => SlotClass::Process,
            Self::Remote { .. } => SlotClass::Remote,
            Self::Function { .. } | Self::Http(_) | Self::Workflow(_) | Self::Approval(_) | Self::Wait(_) => {
                SlotClass::Function
            }
        }
    }

    /// The kind key as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Run { .. } => "run",
            Self::Steps { .. } => "steps",
            Self::Function { .. } => "function",
            Self::Http(_) => "http",
            Self::Workflow(_) => "workflow",
            Self::Remote { .. } => "remote",
            Self::Approval(_) => "approval",
            Self::Wait(_) => "wait",
        }
    }

    /// Decided by a node and then waiting for something outside; never executed by a worker.
    pub fn parks(&self) -> bool {
        matches!(self, Self::Workflow(_) | Self::Approval(_) | Self::Wait(_))
    }
}

/// One script among the steps of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub name: String,
    /// An expression (without braces), evaluated before the attempt begins; false leaves the step out.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Like that of a task with `run`.
    pub script: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Below the folder of the task, unless it is a full path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// Its failure is logged, and the next step begins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continue_on_error: bool,
}

/// An HTTP request and what its answer must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Http {
    /// In upper case; holds no expression.
    pub method: String,
    pub url: String,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub query: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<HttpBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: HttpExpect,
    /// How many redirects are followed; 0 is none.
    pub follow_redirects: u8,
    pub max_response_bytes: u64,
}

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

/// Which answers are a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpExpect {
    /// Never empty.
    pub status: Vec<StatusRange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyExpect>,
}

impl Default for HttpExpect {
    fn default() -> Self {
        Self { status: vec![StatusRange { from: 200, to: 299 }], body: None }
    }
}

impl HttpExpect {
    pub fn accepts(&self, status: u16) -> bool {
        self.status.iter().any(|range| (range.from..=range.to).contains(&status))
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
    /// A text that the body holds, compared literally.
    Contains(String),
    /// A regular expression that finds something in the body.
    Matches(String),
    /// An expression over `body`, `status` and `headers` that must be true.
    Json(String),
}

/// Another workflow, started as a run of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    pub name: String,
    /// The namespace of the parent unless given; holds no expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<String, Value>,
}

coded_enum! {
    /// What becomes of an approval that did not come in time.
    OnTimeout("on_timeout") {
        Fail = 0 "fail",
        Approve = 1 "approve",
        Skip = 2 "skip",
    }
}

/// Waits until a person says yes or no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The roles that may decide; empty: every role that may operate runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    pub on_timeout: OnTimeout,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// A duration, or a template that gives one.
    For(String),
    /// An RFC 3339 instant, or a template that gives one.
    Until(String),
    Event {
        /// Holds no expression.
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// An expression (without braces) over the event and everything a task sees.
        #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// A person or program outside delivers the task's result.
    Result {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
}
