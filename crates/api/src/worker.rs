//! `/worker/*`: the protocol between a node and its remote workers, version 1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The version of the protocol that these shapes are.
pub const PROTOCOL: u32 = 1;
/// The header that carries the token of a session.
pub const SESSION_HEADER: &str = "mainspring-session";
/// The header that carries the SHA-256 of a file, in hexadecimal digits.
pub const DIGEST_HEADER: &str = "mainspring-sha256";
/// The longest wait of an exchange, in milliseconds.
pub const LONGEST_WAIT_MS: u64 = 1_000;
/// The type of the problem that says that the session is dead.
pub const SESSION_LOST: &str = "urn:mainspring:session-lost";
/// The type of the problem that says that an attempt is not this session's.
pub const FENCED: &str = "urn:mainspring:fenced";
/// The type of the problem that says that an earlier exchange has not come yet.
pub const OUT_OF_ORDER: &str = "urn:mainspring:out-of-order";
/// The type of the problem that says that a later exchange came first.
pub const OVERTAKEN: &str = "urn:mainspring:overtaken";
/// The type of the problem that says that the protocol is not spoken here.
pub const UNKNOWN_PROTOCOL: &str = "urn:mainspring:unknown-protocol";

/// Slots by what occupies them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// Scripts.
    #[serde(default)]
    pub process: u32,
    /// Functions and HTTP requests.
    #[serde(default)]
    pub function: u32,
    /// Tasks of kind `remote`.
    #[serde(default)]
    pub remote: u32,
}

/// A worker that registers.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Register {
    #[schema(example = 1)]
    pub protocol: u32,
    /// Its name. Two live workers may have the same: their sessions differ.
    pub worker_id: String,
    #[serde(default)]
    pub hostname: String,
    /// Empty: every queue.
    #[serde(default)]
    pub queues: Vec<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How much it can do at once.
    pub slots: Slots,
    /// The functions that it has.
    #[serde(default)]
    pub handlers: Vec<String>,
    /// Of the program.
    #[serde(default)]
    pub version: String,
}

/// The session of a worker that registered.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    pub session_id: i64,
    /// Shown once. Every further request carries it in the header `Mainspring-Session`.
    pub session_token: String,
    /// A session that no node has heard from for so long is found dead, and its tasks run elsewhere.
    pub lease_ttl_ms: u64,
    /// The longest wait of an exchange.
    pub exchange_wait_ms: u64,
    pub server_time: String,
}

/// One attempt of one task run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptRef {
    pub task_run_id: String,
    pub attempt: i32,
}

/// An attempt that a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldAttempt {
    pub task_run_id: String,
    pub attempt: i32,
    /// False while it waits for a slot: it may be asked back for a worker that has one.
    #[serde(default = "started")]
    pub started: bool,
}

fn started() -> bool {
    true
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultOutcome {
    Success,
    Failed,
    Cancelled,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AttemptError)]
#[serde(deny_unknown_fields)]
pub struct ResultError {
    /// A short stable word that `retry.on` can name.
    pub kind: String,
    pub message: String,
    /// The status that a server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The last lines of output, or a stack trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Trying again is useless.
    #[serde(default)]
    pub permanent: bool,
}

/// What became of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    pub task_run_id: String,
    pub attempt: i32,
    pub outcome: ResultOutcome,
    /// Any JSON value, for `success`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// For `failed`; for `cancelled` its message is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResultError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// RFC 3339; the server's time of the request unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

/// One exchange: results go in, assignments come out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    pub session_id: i64,
    /// 1, 2, 3, …: the same number again gives the same answer.
    pub seq: i64,
    #[serde(default)]
    pub finished: Vec<Finished>,
    /// Handed back unexecuted or unfinished; costs nothing of the retry budget.
    #[serde(default)]
    pub released: Vec<AttemptRef>,
    /// Every attempt that the worker has now, started or not.
    #[serde(default)]
    pub holding: Vec<HeldAttempt>,
    /// How many more it can take.
    #[serde(default)]
    pub want: Slots,
    /// How long to wait for something to answer, at most 1000.
    #[serde(default)]
    pub wait_ms: u64,
}

/// A version whose files an order needs: `GET /worker/files/{version}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesRef {
    pub version: i64,
}

/// One attempt to execute.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Assignment {
    pub task_run_id: String,
    pub attempt: i32,
    /// Rises with every attempt of the task run; a sink that keeps the highest refuses the others.
    pub fencing_token: String,
    /// The same for every attempt of one generation, so that a sink recognises a repetition.
    pub idempotency_key: String,
    pub generation: i32,
    /// What to execute: `namespace`, `workflow`, `task`, `action` (`{kind: run | steps | http | function | remote, …}`),
    /// `timeout_ms`, `artifacts`, `limits`, `process` (`output`, `exit_codes`, `env_files`, `container`), `on_store_loss`.
    #[schema(value_type = Object)]
    pub order: Value,
    /// Added to the environment of the task, in order; later ones win.
    pub env: Vec<(String, String)>,
    /// Values to mask in logs, errors and outputs.
    pub secrets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesRef>,
    /// The W3C trace context that it is executed in, if traces go somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// When the attempt must have ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
}

/// An attempt to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancel {
    pub task_run_id: String,
    pub attempt: i32,
    pub reason: String,
}

/// The answer to an exchange.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Exchanged {
    pub seq: i64,
    pub assignments: Vec<Assignment>,
    /// Repeated until the attempts have ended.
    pub cancel: Vec<Cancel>,
    /// Results that count, of this exchange or of earlier ones.
    pub acknowledged: Vec<AttemptRef>,
    /// Results that were refused: the attempt was not this session's any more.
    pub fenced: Vec<AttemptRef>,
    /// Attempts that another worker could begin at once: hand back those that have not begun.
    #[serde(default)]
    pub release: Vec<AttemptRef>,
    /// Finish what runs and take no more.
    pub drain: bool,
}

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    /// Written by the worker about the task.
    System,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// RFC 3339; the server's time of the request unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    pub text: String,
}

/// Some consecutive lines of one attempt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    pub task_run_id: String,
    pub attempt: i32,
    /// How many lines of the attempt came before.
    pub offset: i64,
    pub stream: Stream,
    pub lines: Vec<Line>,
}

/// Log lines to store.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkerLogs)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    pub session_id: i64,
    pub chunks: Vec<Chunk>,
}

/// What became of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChunkAnswer {
    pub task_run_id: String,
    pub attempt: i32,
    /// How many of its lines were new and are stored.
    pub accepted: i64,
    /// The offset to go on with. After a gap it is smaller than what was sent, and nothing was stored.
    pub next_offset: i64,
    /// The attempt has ended, or is not this session's: nothing more of it is stored.
    pub fenced: bool,
}

/// The answer to log lines, chunk by chunk.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogsStored {
    pub chunks: Vec<ChunkAnswer>,
}

/// A file that was kept.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArtifactKept {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// The files that a version brings along.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Files {
    pub version: i64,
    pub files: Vec<File>,
}

/// One of them.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// Relative, with `/` between its parts.
    pub path: String,
    pub executable: bool,
    /// Base64.
    pub content: String,
    /// Of the content, in hexadecimal digits.
    pub sha256: String,
}

/// What was left of a session that ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionEnded {
    /// Task runs that were not finished and run again elsewhere.
    pub returned: u64,
}
