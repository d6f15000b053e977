//! Runs and task runs with the field names of the API.

use std::borrow::Cow;

use mainspring_api::runs::{CacheUse, Run};
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::time::rfc3339;
use mainspring_core::workflow::{Action, Task, Wait};
use mainspring_core::{Micros, RunId, Workflow};
use mainspring_store::{RunSummary, TaskRunRow};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::output::Paint;
use crate::progress::RunCaches;

/// A run as the API shows it, with null for what it leaves out.
pub(crate) fn shown_run(run: &Run) -> Value {
    let mut shown = serde_json::to_value(run).unwrap_or_default();
    if let Some(fields) = shown.as_object_mut() {
        for field in ["correlation_id", "outputs"] {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    shown
}

/// A field that is a text.
pub(crate) fn text<'v>(shown: &'v Value, field: &str) -> &'v str {
    shown[field].as_str().unwrap_or_default()
}

/// What `run --json` prints. A run may have very many tasks, so nothing is copied.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    run: RunReport<'a>,
    tasks: Vec<TaskReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Map<String, Value>>,
}

#[derive(Debug, Serialize)]
struct RunReport<'a> {
    id: RunId,
    workflow: &'a str,
    status: &'static str,
    started_at: Option<String>,
    finished_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct TaskReport<'a> {
    task: Cow<'a, str>,
    status: &'static str,
    attempts: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    output: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    duration_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse: Option<&'a CacheUse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<&'a CacheUse>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<TaskReport<'a>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(
        summary: &'a RunSummary,
        rows: &'a [TaskRunRow],
        workflow: &'a Workflow,
        caches: &'a RunCaches,
        outputs: Option<Map<String, Value>>,
    ) -> Self {
        let run = RunReport {
            id: summary.id,
            workflow: &summary.workflow,
            status: summary.state.word(),
            started_at: summary.started_at.map(rfc3339),
            finished_at: summary.finished_at.map(rfc3339),
        };
        let task = |row: &'a TaskRunRow| TaskReport {
            task: task_name(workflow, row),
            status: row.state.shown().word(),
            attempts: row.attempt,
            exit_code: exit_code(row, workflow),
            output: row.output.as_ref(),
            error: row.error.as_deref(),
            duration_ms: duration(row, row.finished_at.unwrap_or(0)).unwrap_or(0) / 1_000,
            reuse: caches.of(row.key).and_then(|task| task.reuse.as_ref()),
            cache: caches.of(row.key).and_then(|task| task.cache.as_ref()),
            items: Vec::new(),
        };
        let mut tasks: Vec<TaskReport<'a>> = Vec::with_capacity(rows.len());
        // Items come right behind their task.
        for row in rows {
            match tasks.last_mut() {
                Some(last) if row.key.item >= 0 => last.items.push(task(row)),
                _ => tasks.push(task(row)),
            }
        }
        Self { run, tasks, outputs }
    }
}

/// A script that succeeded has exited with 0, whether or not the row says so.
fn exit_code(row: &TaskRunRow, workflow: &Workflow) -> Option<i32> {
    let task = usize::try_from(row.key.index).ok().and_then(|index| workflow.tasks.get(index))?;
    let is_script = matches!(task.action, Action::Run { .. } | Action::Steps { .. })
        && (task.foreach.is_none() || row.key.item >= 0);
    row.exit_code.or((is_script && row.state == TaskState::Success).then_some(0))
}

/// What a task waits for while it waits, in words.
pub(crate) fn waits_for(task: &Task) -> String {
    match &task.action {
        _ if task.foreach.is_some() => "waits for its items".into(),
        Action::Approval(approval) if approval.roles.is_empty() => "waits for an approval".into(),
        Action::Approval(approval) => format!("waits for an approval by {}", approval.roles.join(" or ")),
        Action::Wait(Wait::For(time)) => format!("waits for {time}"),
        Action::Wait(Wait::Until(time)) => format!("waits until {time}"),
        Action::Wait(Wait::Event { name, .. }) => format!("waits for event {name}"),
        Action::Wait(Wait::Result { .. }) => "waits for a result from outside".into(),
        Action::Workflow(child) => format!("waits for workflow {}", child.name),
        _ => "waits".into(),
    }
}

pub(crate) fn task_name<'a>(workflow: &'a Workflow, row: &TaskRunRow) -> Cow<'a, str> {
    let task = usize::try_from(row.key.index).ok().and_then(|index| workflow.tasks.get(index));
    let name = task.map_or_else(|| Cow::Owned(row.key.index.to_string()), |task| Cow::Borrowed(task.name.as_str()));
    if row.key.item < 0 { name } else { Cow::Owned(format!("{name}[{}]", row.key.item)) }
}

pub(crate) fn max_attempts(workflow: &Workflow, row: &TaskRunRow) -> i32 {
    let written = usize::try_from(row.key.index).ok().and_then(|index| workflow.tasks.get(index));
    row.max_failures.map(i32::from).or_else(|| written.map(|task| i32::from(task.retry.attempts))).unwrap_or(1)
}

/// How long the newest attempt took, or has been taking until `now`.
pub(crate) fn duration(row: &TaskRunRow, now: Micros) -> Option<Micros> {
    Some(row.finished_at.unwrap_or(now).saturating_sub(row.started_at?).max(0))
}

pub(crate) fn run_paint(state: RunState) -> Paint {
    match state {
        RunState::Success => Paint::Green,
        RunState::Failed => Paint::Red,
        RunState::Cancelled | RunState::Paused => Paint::Yellow,
        RunState::Running => Paint::Cyan,
        RunState::Pending => Paint::Dim,
    }
}

pub(crate) fn task_paint(state: TaskState) -> Paint {
    match state {
        TaskState::Success | TaskState::ResolvedManually => Paint::Green,
        TaskState::Failed | TaskState::UpstreamFailed => Paint::Red,
        TaskState::Retrying | TaskState::Cancelled => Paint::Yellow,
        TaskState::Running => Paint::Cyan,
        _ => Paint::Dim,
    }
}
