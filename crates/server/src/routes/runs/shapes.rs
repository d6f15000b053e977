//! Runs and task runs as they are shown.

use std::collections::HashMap;

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::time::rfc3339;
use mainspring_core::{Micros, RunId, TaskKey, Workflow};
use mainspring_engine::Obstacles;
use mainspring_store::{AttemptRow, Phase, RunRow, RunSummary, TaskRunRow};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::caller::Caller;
use crate::problem::Problem;
use crate::state::ApiState;

/// One execution of a workflow version.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Run {
    #[schema(value_type = String, format = "uuid")]
    pub(crate) id: RunId,
    #[schema(value_type = String, format = "uuid")]
    pub(crate) workflow_id: Uuid,
    pub(crate) workflow: String,
    pub(crate) namespace: String,
    pub(crate) version: i32,
    /// `pending`, `running`, `paused`, `success`, `failed` or `cancelled`.
    pub(crate) status: String,
    /// While it is open: `waiting_for_dependencies`, `waiting_for_retry` or `steps_in_process`.
    pub(crate) phase: Option<String>,
    /// Whether it is being cancelled.
    pub(crate) cancelling: bool,
    /// Whether its timeout has passed.
    pub(crate) timed_out: bool,
    pub(crate) priority: i16,
    /// How often it was reopened.
    pub(crate) generation: i16,
    /// How far it is, with `include=progress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<String>,
    pub(crate) trace_id: Option<String>,
    /// Only where one run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inputs: Option<Value>,
    /// Only where one run is shown, once it has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outputs: Option<Value>,
    /// What started it; only where one run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trigger: Option<Value>,
    /// Why it was stopped, and by whom; only where one run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// How many task runs are done again; only where it was reopened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reopened_tasks: Option<usize>,
    pub(crate) created_at: String,
    pub(crate) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
}

/// Task runs of a run, items of a `foreach` included. More may come: finalisers count once their part begins.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Progress {
    pub(crate) ended: i64,
    pub(crate) total: i64,
}

impl Run {
    pub(crate) fn new(summary: RunSummary, phase: Option<Phase>) -> Self {
        let is_open = !summary.state.is_terminal();
        Self {
            id: summary.id,
            workflow_id: summary.workflow_id,
            workflow: summary.workflow,
            namespace: summary.namespace,
            version: summary.version_number,
            status: summary.state.word().to_owned(),
            phase: is_open.then(|| phase.unwrap_or(Phase::WaitingForDependencies).word().to_owned()),
            cancelling: is_open && summary.cancelling,
            timed_out: summary.timed_out,
            priority: summary.priority,
            generation: summary.generation,
            progress: None,
            correlation_id: None,
            trace_id: None,
            inputs: None,
            outputs: None,
            trigger: None,
            reason: None,
            reopened_tasks: None,
            created_at: rfc3339(summary.created_at),
            started_at: summary.started_at.map(rfc3339),
            finished_at: summary.finished_at.map(rfc3339),
        }
    }
}

/// A run with everything about it.
pub(crate) async fn shown(state: &ApiState, id: RunId) -> Result<Run, Problem> {
    let client = state.client();
    let RunRow { summary, inputs, outputs, correlation_id, trigger, reason } = client.store().run(id).await?;
    let outputs = match summary.state {
        RunState::Success => match client.outputs(id).await? {
            Ok(declared) => Some(Value::Object(declared)),
            Err(failure) => Some(json!({"error": failure.message})),
        },
        _ => outputs,
    };
    let phase = client.store().phases(&[id]).await?.remove(&id);
    let mut run = Run::new(summary, phase);
    run.inputs = Some(inputs.unwrap_or_else(|| json!({})));
    (run.outputs, run.correlation_id, run.trigger, run.reason) = (outputs, correlation_id, trigger, reason);
    Ok(run)
}

/// The run of that id, once the caller may enter its namespace.
pub(crate) async fn find(state: &ApiState, caller: &Caller, id: RunId) -> Result<RunSummary, Problem> {
    let run = state.client().store().run_summary(id).await?;
    caller.enter(&run.namespace)?;
    Ok(run)
}

/// One task within one run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TaskRun {
    /// `{run}.{index}[.{item}]`
    pub(crate) id: String,
    #[schema(value_type = String, format = "uuid")]
    pub(crate) workflow_run_id: RunId,
    /// The task's name, `name[index]` for an item.
    pub(crate) task_id: String,
    pub(crate) status: String,
    /// The same as `status`.
    pub(crate) current_state: String,
    /// The number of the newest attempt, over all reopenings.
    pub(crate) attempt: i32,
    pub(crate) max_attempts: i32,
    /// How many attempts there were.
    pub(crate) attempts: i32,
    pub(crate) dependencies_satisfied: bool,
    pub(crate) retry_eligible: bool,
    pub(crate) ready_for_execution: bool,
    pub(crate) last_failure_at: Option<String>,
    pub(crate) next_retry_at: Option<String>,
    /// Why it does not run, in words.
    pub(crate) blocked_by: Vec<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) last_attempted_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
    /// How long the newest attempt has taken.
    pub(crate) duration_ms: Option<i64>,
    pub(crate) worker_id: Option<String>,
    pub(crate) output: Value,
    pub(crate) exit_code: Option<i32>,
    pub(crate) error: Option<String>,
    pub(crate) error_stack: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) span_id: Option<String>,
    pub(crate) parent_span_id: Option<String>,
    /// Attempts that did not end it; only where one task run is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt_history: Option<Vec<Attempt>>,
    /// Its log lines, with `include=logs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) logs: Option<Vec<super::logs::LogEntry>>,
}

/// An attempt that did not end its task run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempt {
    attempt: i32,
    /// `failed`, `lost` or `released`.
    outcome: String,
    started_at: Option<String>,
    finished_at: String,
    exit_code: Option<i32>,
    error: Option<String>,
    error_stack: Option<String>,
}

impl From<&AttemptRow> for Attempt {
    fn from(row: &AttemptRow) -> Self {
        let outcome = match row.outcome {
            0 => "failed",
            1 => "lost",
            _ => "released",
        };
        Self {
            attempt: row.attempt,
            outcome: outcome.to_owned(),
            started_at: row.started_at.map(rfc3339),
            finished_at: rfc3339(row.finished_at),
            exit_code: row.exit_code,
            error: row.error.clone(),
            error_stack: row.detail.clone(),
        }
    }
}

/// Names of workers by their session.
pub(crate) type Workers = HashMap<i64, String>;

/// What task runs are shown with.
pub(crate) struct Surroundings<'s> {
    pub(crate) workflow: &'s Workflow,
    pub(crate) workers: &'s Workers,
    pub(crate) obstacles: Option<&'s Obstacles>,
    pub(crate) now: Micros,
}

impl TaskRun {
    pub(crate) fn new(row: &TaskRunRow, attempts: &[AttemptRow], around: &Surroundings<'_>) -> Self {
        let task = usize::try_from(row.key.index).ok().and_then(|index| around.workflow.tasks.get(index));
        let written = task.map_or(1, |task| i32::from(task.retry.attempts));
        let max_attempts = row.max_failures.map_or(written, i32::from);
        let is_open = !row.state.is_terminal();
        let failed_now = row.finished_at.filter(|_| row.state == TaskState::Failed);
        let last_failure = attempts.iter().filter(|one| one.outcome == 0).map(|one| one.finished_at).max();
        let last_attempt = attempts.iter().filter_map(|one| one.started_at).max();
        let status = row.state.shown().word().to_owned();
        Self {
            id: row.key.to_string(),
            workflow_run_id: row.key.run,
            task_id: task_name(around.workflow, row.key),
            current_state: status.clone(),
            status,
            attempt: row.attempt,
            max_attempts,
            attempts: row.attempt,
            dependencies_satisfied: row.state != TaskState::Pending && row.state != TaskState::UpstreamFailed,
            retry_eligible: is_open
                && task.is_none_or(|task| task.retry.retryable)
                && i32::from(row.failures) < max_attempts,
            ready_for_execution: row.state == TaskState::Ready,
            last_failure_at: failed_now.or(last_failure).map(rfc3339),
            next_retry_at: row.due_at.filter(|_| row.state == TaskState::Retrying).map(rfc3339),
            blocked_by: around.obstacles.map_or_else(Vec::new, |obstacles| obstacles.of(around.workflow, row)),
            started_at: row.started_at.map(rfc3339),
            last_attempted_at: row.started_at.or(last_attempt).map(rfc3339),
            finished_at: row.finished_at.map(rfc3339),
            duration_ms: row
                .started_at
                .map(|started| (row.finished_at.unwrap_or(around.now).saturating_sub(started) / 1_000).max(0)),
            worker_id: row.session.and_then(|session| around.workers.get(&session)).cloned(),
            output: row.output.clone().unwrap_or_default(),
            exit_code: row.exit_code,
            error: row.error.clone(),
            error_stack: row.detail.clone(),
            trace_id: None,
            span_id: None,
            parent_span_id: None,
            attempt_history: None,
            logs: None,
        }
    }
}

pub(crate) fn task_name(workflow: &Workflow, key: TaskKey) -> String {
    let task = usize::try_from(key.index).ok().and_then(|index| workflow.tasks.get(index));
    let name = task.map_or_else(|| key.index.to_string(), |task| task.name.clone());
    if key.item < 0 { name } else { format!("{name}[{}]", key.item) }
}

/// The task run that is meant by `name`, `name[index]` or a task-run id.
pub(crate) fn task_key(workflow: &Workflow, run: RunId, text: &str) -> Result<TaskKey, Problem> {
    let unknown = || {
        let near =
            mainspring_core::diagnostic::did_you_mean(text, workflow.tasks.iter().map(|task| task.name.as_str()));
        let shown: String = text.chars().take(80).flat_map(char::escape_default).collect();
        let hint = near.map_or(String::new(), |near| format!(": {near}"));
        Problem::not_found(format!("the run has no task `{shown}`{hint}"))
    };
    if let Ok(key) = text.parse::<TaskKey>() {
        let fits = key.run == run && usize::try_from(key.index).is_ok_and(|index| index < workflow.tasks.len());
        return if fits { Ok(key) } else { Err(unknown()) };
    }
    let (name, item) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        None => (text, -1),
        Some((name, number)) => (name, i32::from(number.parse::<u16>().map_err(|_| unknown())?)),
    };
    let index = workflow.task_index(name).ok_or_else(unknown)?;
    Ok(TaskKey { item, ..TaskKey::new(run, index as i32) })
}
