//! What subscribers receive: one JSON object `{type, payload, run, seq}` per message, written once and shared.

use std::sync::Arc;

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::time::rfc3339;
use mainspring_core::work::{LogLine, LogStream};
use mainspring_core::workflow::Stage;
use mainspring_core::{Micros, RunId, TaskKey};
use mainspring_store::{
    AttemptEnd, AttemptOutcome, LogCursor, RunEvent, RunEventKind, RunSummary, SessionRow, Transition,
};
use serde_json::{Map, Value, json};

use crate::specs::Spec;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageType {
    WorkflowStatus,
    TaskStatus,
    WorkerHeartbeat,
    Log,
    /// Some messages were left out; what follows is a new snapshot.
    Resync,
}

impl MessageType {
    pub const ALL: [MessageType; 5] =
        [Self::WorkflowStatus, Self::TaskStatus, Self::WorkerHeartbeat, Self::Log, Self::Resync];

    pub fn word(self) -> &'static str {
        match self {
            Self::WorkflowStatus => "workflow_status",
            Self::TaskStatus => "task_status",
            Self::WorkerHeartbeat => "worker_heartbeat",
            Self::Log => "log",
            Self::Resync => "resync",
        }
    }
}

impl std::str::FromStr for MessageType {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let words = || Self::ALL.map(Self::word).join(", ");
        Self::ALL
            .into_iter()
            .find(|kind| kind.word() == word)
            .ok_or_else(|| format!("`{word}` is no type of message: there are {}", words()))
    }
}

/// One message. Clones share its text.
#[derive(Debug, Clone)]
pub struct LiveMessage {
    pub kind: MessageType,
    pub run: Option<RunId>,
    /// The number within the run, for what is numbered.
    pub seq: Option<i64>,
    /// The attempt whose beginning this tells.
    pub(super) began: Option<(TaskKey, i32)>,
    /// The whole envelope as JSON.
    pub text: Arc<str>,
}

impl LiveMessage {
    pub(super) fn new(kind: MessageType, run: Option<RunId>, seq: Option<i64>, payload: &Value) -> Self {
        let text = json!({"type": kind.word(), "payload": payload, "run": run, "seq": seq}).to_string();
        Self { kind, run, seq, began: None, text: text.into() }
    }

    pub(super) fn resync(reason: &str) -> Self {
        Self::new(MessageType::Resync, None, None, &json!({"reason": reason}))
    }

    /// Where a run stands, outside its numbers.
    pub(super) fn snapshot(run: &RunSummary) -> Self {
        let mut payload = of_run(run);
        payload.insert("status".into(), run.state.word().into());
        payload.insert("snapshot".into(), true.into());
        payload.insert("through".into(), run.seq.into());
        payload.insert("open_tasks".into(), run.open_tasks.into());
        payload.insert("cancelling".into(), run.cancelling.into());
        payload.insert("created_at".into(), rfc3339(run.created_at).into());
        insert_time(&mut payload, "started_at", run.started_at);
        insert_time(&mut payload, "finished_at", run.finished_at);
        Self::new(MessageType::WorkflowStatus, Some(run.id), None, &payload.into())
    }

    /// A numbered event.
    pub(crate) fn event(run: &RunSummary, spec: &Spec, event: &RunEvent) -> Self {
        let (kind, mut payload) = match &event.what {
            RunEventKind::TaskEnded { key, state, attempt } => {
                (MessageType::TaskStatus, ended(run, spec, *key, *state, attempt))
            }
            RunEventKind::AttemptEnded { key, outcome, attempt } => {
                (MessageType::TaskStatus, task_continued(run, spec, *key, *outcome, attempt))
            }
            RunEventKind::Action { task, action, by, reason } => acted(run, spec, *task, action, by, reason.as_deref()),
            RunEventKind::Run { how, state, stage } => {
                (MessageType::WorkflowStatus, went_on(run, *how, *state, *stage))
            }
        };
        payload.insert("at".into(), rfc3339(event.at).into());
        Self::new(kind, Some(run.id), Some(event.seq), &payload.into())
    }

    /// An attempt has begun.
    pub(super) fn started(run: &RunSummary, spec: &Spec, key: TaskKey, attempt: i32, session: i64, at: Micros) -> Self {
        let mut payload = of_task(run, spec, key);
        payload.insert("status".into(), TaskState::Running.word().into());
        payload.insert("attempt".into(), attempt.into());
        payload.insert("session_id".into(), session.into());
        payload.insert("at".into(), rfc3339(at).into());
        let message = Self::new(MessageType::TaskStatus, Some(run.id), None, &payload.into());
        Self { began: Some((key, attempt)), ..message }
    }

    /// One line that a task printed.
    pub(super) fn log(run: &RunSummary, spec: &Spec, key: TaskKey, cursor: LogCursor, line: &LogLine) -> Self {
        let mut payload = of_task(run, spec, key);
        payload.insert("attempt".into(), cursor.attempt.into());
        payload.insert("chunk".into(), cursor.chunk.into());
        payload.insert("timestamp".into(), rfc3339(line.at).into());
        payload.insert("stream".into(), line.stream.word().into());
        payload.insert("level".into(), if line.stream == LogStream::Stderr { "error" } else { "info" }.into());
        payload.insert("message".into(), line.text.clone().into());
        Self::new(MessageType::Log, Some(run.id), None, &payload.into())
    }

    pub(super) fn heartbeat(session: &SessionRow) -> Self {
        let list = |text: &str| text.split(',').filter(|word| !word.is_empty()).map(Value::from).collect::<Vec<_>>();
        let payload = json!({
            "id": session.worker,
            "session_id": session.id,
            "hostname": session.hostname,
            "last_heartbeat": rfc3339(session.beat_at),
            "status": if session.draining { "draining" } else { "active" },
            "queues": list(&session.queues),
            "labels": list(&session.labels),
            "slots": session.slots,
        });
        Self::new(MessageType::WorkerHeartbeat, None, None, &payload)
    }
}

fn of_run(run: &RunSummary) -> Map<String, Value> {
    let mut payload = Map::new();
    payload.insert("workflow_run_id".into(), run.id.to_string().into());
    payload.insert("workflow_id".into(), run.workflow_id.to_string().into());
    payload.insert("workflow".into(), run.workflow.clone().into());
    payload.insert("namespace".into(), run.namespace.clone().into());
    payload
}

fn of_task(run: &RunSummary, spec: &Spec, key: TaskKey) -> Map<String, Value> {
    let mut payload = of_run(run);
    let name = spec.workflow.tasks.get(key.index as usize).map_or("", |task| task.name.as_str());
    let name = if key.item < 0 { name.to_owned() } else { format!("{name}[{}]", key.item) };
    payload.insert("id".into(), key.to_string().into());
    payload.insert("task_id".into(), name.into());
    payload
}

fn insert_attempt(payload: &mut Map<String, Value>, attempt: &AttemptEnd) {
    payload.insert("attempt".into(), attempt.number.into());
    insert_time(payload, "started_at", attempt.started_at);
    for (name, value) in [
        ("session_id", attempt.session.map(Value::from)),
        ("exit_code", attempt.exit_code.map(Value::from)),
        ("error_type", attempt.error_kind.clone().map(Value::from)),
        ("error", attempt.error.clone().map(Value::from)),
    ] {
        if let Some(value) = value {
            payload.insert(name.into(), value);
        }
    }
}

fn insert_time(payload: &mut Map<String, Value>, name: &str, at: Option<Micros>) {
    if let Some(at) = at {
        payload.insert(name.into(), rfc3339(at).into());
    }
}

fn ended(run: &RunSummary, spec: &Spec, key: TaskKey, state: TaskState, attempt: &AttemptEnd) -> Map<String, Value> {
    let mut payload = of_task(run, spec, key);
    payload.insert("status".into(), state.shown().word().into());
    insert_attempt(&mut payload, attempt);
    payload
}

fn task_continued(
    run: &RunSummary,
    spec: &Spec,
    key: TaskKey,
    outcome: AttemptOutcome,
    attempt: &AttemptEnd,
) -> Map<String, Value> {
    let mut payload = of_task(run, spec, key);
    let (status, word) = match outcome {
        AttemptOutcome::Failed => (TaskState::Retrying, "failed"),
        AttemptOutcome::Lost => (TaskState::Ready, "lost"),
        AttemptOutcome::Released => (TaskState::Ready, "released"),
    };
    payload.insert("status".into(), status.word().into());
    payload.insert("outcome".into(), word.into());
    insert_attempt(&mut payload, attempt);
    payload
}

fn acted(
    run: &RunSummary,
    spec: &Spec,
    task: Option<TaskKey>,
    action: &str,
    by: &str,
    reason: Option<&str>,
) -> (MessageType, Map<String, Value>) {
    let (kind, mut payload) = match task {
        Some(key) => (MessageType::TaskStatus, of_task(run, spec, key)),
        None => (MessageType::WorkflowStatus, of_run(run)),
    };
    // The effect of an action on a task is in the event that follows; what it does to the run is known.
    let status = match (task, action) {
        (Some(_), _) => None,
        (None, "pause") => Some(RunState::Paused),
        (None, "resume" | "cancel" | "retry" | "rerun") => Some(RunState::Running),
        (None, _) => None,
    };
    if let Some(status) = status {
        payload.insert("status".into(), status.word().into());
    }
    if action == "cancel" {
        payload.insert("cancelling".into(), true.into());
    }
    payload.insert("action".into(), action.into());
    payload.insert("by".into(), by.into());
    if let Some(reason) = reason {
        payload.insert("reason".into(), reason.into());
    }
    (kind, payload)
}

fn went_on(run: &RunSummary, how: Transition, state: RunState, stage: i16) -> Map<String, Value> {
    let mut payload = of_run(run);
    let word = match how {
        Transition::Admitted => "admitted",
        Transition::EnteredStage => "entered_stage",
        Transition::Ended => "ended",
        Transition::TimedOut => "timed_out",
        Transition::CancelledWithParent => "cancelled_with_parent",
    };
    payload.insert("status".into(), state.word().into());
    payload.insert("transition".into(), word.into());
    if let Ok(stage) = Stage::try_from(stage) {
        payload.insert("stage".into(), stage.word().into());
    }
    payload
}
