//! What passes between the engine and the executor of a task.

mod artifact;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::{UnknownState, coded_enum};
use crate::trace::TraceContext;
use crate::workflow::{Container, ExitCodes, HttpAuth, HttpBody, HttpExpect, Limits, OnStoreLoss, OutputFrom};
use crate::{Micros, TaskKey};

pub use artifact::{
    Artifact, ArtifactContent, ArtifactReader, ArtifactSource, IncomingFile, KeptFile, SourceFuture, Transfer,
    TransferError,
};

/// Reads the time. The engine's follows the database; tests bring their own.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Micros;
}

/// What executes tasks for a node: a pool in its process, or a remote worker's session.
pub trait Workforce: Send + Sync + 'static {
    /// Starts all of them and returns at once.
    fn assign(&self, assignments: Vec<Assignment>);
    /// Ends one attempt, which then reports that it was cancelled.
    fn cancel(&self, key: TaskKey, attempt: i32, reason: &str);
    /// A session is lost: what runs for it dies at once and is not reported, and what is assigned for it from now on is
    /// not begun.
    fn session_lost(&self, session: i64);
    /// The store renewed the lease.
    fn lease_renewed(&self);
}

/// One claimed attempt, ready to execute: every expression is already a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub key: TaskKey,
    /// The claiming session; with `attempt` it is the fencing token.
    pub session: i64,
    pub attempt: i32,
    pub generation: i32,
    pub order: Arc<Order>,
    /// The span that it is executed in, if traces go somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

impl Assignment {
    /// Stable over the attempts of one generation, so that a sink can recognise a repetition.
    pub fn idempotency_key(&self) -> String {
        format!("{}.g{}", self.key, self.generation)
    }
}

/// What to execute. Shared between all runs of a task that has no expressions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub namespace: String,
    pub workflow: String,
    pub task: String,
    pub action: OrderAction,
    /// Added to the allow-listed environment, in order; later ones win.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Unpacked beside the script before it starts. They travel apart from the order.
    #[serde(skip)]
    pub files: Option<Arc<Bundle>>,
    /// Which files to keep when it has ended: patterns relative to the working directory.
    #[serde(default)]
    pub artifacts: Vec<String>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub process: ProcessOrder,
    /// While the store is out of reach; the worker's own setting unless the task says.
    #[serde(default)]
    pub on_store_loss: Option<OnStoreLoss>,
    /// Values to mask in logs, errors and outputs.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// What concerns orders that are executed as a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessOrder {
    #[serde(default)]
    pub output: OutputFrom,
    #[serde(default)]
    pub exit_codes: ExitCodes,
    /// Files among those of the order whose lines are variables; later ones win, and `env` wins over all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_files: Vec<String>,
    /// Every expression is already a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<Container>>,
    /// Files of other tasks, put into the folder before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incoming: Vec<IncomingFile>,
    /// Bytes of all files that the attempt may leave; the worker's own limit unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_limit: Option<u64>,
    /// Files that are kept from one run to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Box<CacheOrder>>,
    /// What the log says first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Files of earlier runs for an attempt, or those that it is to leave for later ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheOrder {
    /// Put into the folder before it begins. Without them it goes on all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<IncomingFile>,
    /// Patterns of the files to keep when it has succeeded; empty if they are kept already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved: Vec<String>,
    /// Bytes of all of them together.
    #[serde(default)]
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OrderAction {
    Run {
        script: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shell: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    /// One after the other in the same folder; the first that fails is the last, unless it says otherwise.
    Steps {
        steps: Vec<StepOrder>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    Function {
        handler: String,
        #[serde(default)]
        payload: Value,
    },
    Http(HttpOrder),
    Remote {
        handler: String,
        #[serde(default)]
        payload: Value,
    },
}

/// One step to execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOrder {
    pub name: String,
    /// Its condition is false: it is named in the log and left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    pub script: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Besides that of the order, which it wins over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continue_on_error: bool,
}

/// A request to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpOrder {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub query: Vec<(String, String)>,
    pub body: Option<HttpBody>,
    pub auth: Option<HttpAuth>,
    pub expect: HttpExpect,
    /// How many redirects are followed; 0 takes the first answer as it is.
    pub follow_redirects: u8,
    pub max_response_bytes: u64,
}

/// Files that a workflow brings along.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    pub files: Vec<BundleFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    /// Relative, with `/` between its parts.
    pub path: String,
    #[serde(default)]
    pub executable: bool,
    pub content: Vec<u8>,
}

/// What became of an attempt.
#[derive(Debug, Clone)]
pub struct Completion {
    pub key: TaskKey,
    pub session: i64,
    pub attempt: i32,
    pub started_at: Micros,
    pub finished_at: Micros,
    pub outcome: Outcome,
    /// Of attempts that succeeded or failed; those that were stopped leave none.
    pub artifacts: Vec<Artifact>,
    /// Whether it may have logged something.
    pub logged: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Success {
        output: Option<Value>,
    },
    Failed(Failure),
    /// Killed on request.
    Cancelled {
        reason: String,
    },
    /// Handed back unexecuted or unfinished (shutdown): it costs no attempt of the budget.
    Released,
}

impl Outcome {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Success { .. } => "success",
            Self::Failed(_) => "failed",
            Self::Cancelled { .. } => "cancelled",
            Self::Released => "released",
        }
    }
}

/// Why an attempt failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// A short stable word: `exit`, `signal`, `timeout`, `spawn`, `output`, `handler`, `expression`, `http_status`,
    /// `connect`, `dns`, `blocked`, `too_large`, `expect`, `request`, `redirect`, `limit`, `files`, `artifacts`, …
    pub kind: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What a server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The last log lines or a stack trace, at most 10,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The task itself says that trying again is useless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
}

impl Failure {
    /// The number that `retry.on` compares: an HTTP status or an exit code.
    pub fn code(&self) -> Option<i32> {
        self.status.map(i32::from).or(self.exit_code)
    }
}

coded_enum! {
    /// Where a log line came from.
    LogStream("log stream") {
        Stdout = 0 "stdout",
        Stderr = 1 "stderr",
        /// Written by Mainspring about the task: a timeout, a truncation.
        System = 2 "system",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub at: Micros,
    pub stream: LogStream,
    pub text: String,
}

/// Some consecutive lines of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    pub key: TaskKey,
    pub attempt: i32,
    pub lines: Vec<LogLine>,
}
