//! Runs and task runs as they are shown.

use std::collections::HashMap;

use mainspring_api::runs::{Attempt, AttemptOutcome, CacheUse, Run, TaskRun};
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::time::rfc3339;
use mainspring_core::trace::{RunTrace, SpanOf, hex};
use mainspring_core::workflow::CacheKind;
use mainspring_core::{Micros, RunId, TaskKey, Workflow};
use mainspring_engine::Obstacles;
use mainspring_store::{AttemptRow, NewRun, Phase, RunRow, RunSummary, TaskRunRow};
use serde_json::{Value, json};

use crate::auth::caller::Caller;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{run_phase, run_status, task_status};

pub(crate) fn run(summary: RunSummary, phase: Option<Phase>) -> Run {
    let is_open = !summary.state.is_terminal();
    Run {
        id: summary.id,
        workflow_id: summary.workflow_id,
        workflow: summary.workflow,
        namespace: summary.namespace,
        version: summary.version_number,
        status: run_status(summary.state),
        phase: is_open.then(|| run_phase(phase.unwrap_or(Phase::WaitingForDependencies))),
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

/// A plain run that began at this time, as it is shown right after.
pub(crate) fn begun(new: &NewRun, at: Micros) -> Run {
    let version = &new.version;
    let read = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let summary = RunSummary {
        id: new.id,
        version: version.id,
        version_number: version.number,
        workflow_id: version.workflow_id,
        namespace: version.namespace.clone(),
        workflow: version.name.clone(),
        state: RunState::Running,
        priority: new.priority.unwrap_or(version.priority),
        generation: 0,
        open_tasks: version.main_tasks,
        seq: 0,
        created_at: at,
        started_at: Some(at),
        finished_at: None,
        cancelling: false,
        timed_out: false,
    };
    let mut shown = run(summary, None);
    shown.inputs = Some(read(&new.inputs).unwrap_or_else(|| json!({})));
    (shown.correlation_id, shown.trigger) = (new.correlation_id.clone(), read(&new.trigger));
    shown.trace_id = Some(trace_id(new.id, shown.trigger.as_ref()));
    shown
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
    let mut run = run(summary, phase);
    run.trace_id = Some(trace_id(id, trigger.as_ref()));
    run.inputs = Some(inputs.unwrap_or_else(|| json!({})));
    (run.outputs, run.correlation_id, run.trigger, run.reason) = (outputs, correlation_id, trigger, reason);
    Ok(run)
}

/// The trace that a run belongs to, whether or not it is recorded.
pub(crate) fn trace_id(run: RunId, trigger: Option<&Value>) -> String {
    hex(&RunTrace::new(run, trigger).trace_id())
}

/// The run of that id, once the caller may enter its namespace.
pub(crate) async fn find(state: &ApiState, caller: &Caller, id: RunId) -> Result<RunSummary, Problem> {
    let run = state.client().store().run_summary(id).await?;
    caller.enter(&run.namespace)?;
    Ok(run)
}

pub(crate) fn attempt(row: &AttemptRow) -> Attempt {
    let outcome = match row.outcome {
        0 => AttemptOutcome::Failed,
        1 => AttemptOutcome::Lost,
        _ => AttemptOutcome::Released,
    };
    Attempt {
        attempt: row.attempt,
        outcome,
        started_at: row.started_at.map(rfc3339),
        finished_at: rfc3339(row.finished_at),
        exit_code: row.exit_code,
        error: row.error.clone(),
        error_stack: row.detail.clone(),
    }
}

/// Names of workers by their session.
pub(crate) type Workers = HashMap<i64, String>;

/// Data that is shown with task runs.
pub(crate) struct Surroundings<'s> {
    pub(crate) workflow: &'s Workflow,
    pub(crate) workers: &'s Workers,
    pub(crate) obstacles: Option<&'s Obstacles>,
    /// What started their runs; a run that is not in it was started outside of any trace.
    pub(crate) triggers: &'s HashMap<RunId, Value>,
    pub(crate) caches: &'s CacheUses,
    pub(crate) now: Micros,
}

/// What the attempts of some runs looked for by their keys.
#[derive(Debug, Default)]
pub(crate) struct CacheUses(HashMap<(TaskKey, i32, CacheKind), mainspring_store::CacheUse>);

impl CacheUses {
    /// Of runs whose workflow has a task with `reuse` or `cache`; nothing is read for others.
    pub(crate) async fn of(
        state: &ApiState,
        runs: impl IntoIterator<Item = (RunId, &Workflow)>,
    ) -> Result<Self, Problem> {
        let mut all = HashMap::new();
        for (run, workflow) in runs {
            if (0..workflow.tasks.len()).any(|index| workflow.is_cached(index)) {
                let uses = state.client().store().cache_uses(run).await?;
                all.extend(uses.into_iter().map(|one| ((one.task_run, one.attempt, one.kind), one)));
            }
        }
        Ok(Self(all))
    }

    fn shown(&self, row: &TaskRunRow, kind: CacheKind) -> Option<CacheUse> {
        let one = self.0.get(&(row.key, row.attempt, kind))?;
        let run_id = one.source.map(|source| source.key.run);
        Some(CacheUse { key: one.key.clone(), hit: run_id.is_some(), run_id })
    }
}

pub(crate) fn task_run(row: &TaskRunRow, attempts: &[AttemptRow], around: &Surroundings<'_>) -> TaskRun {
    let task = usize::try_from(row.key.index).ok().and_then(|index| around.workflow.tasks.get(index));
    let written = task.map_or(1, |task| i32::from(task.retry.attempts));
    let max_attempts = row.max_failures.map_or(written, i32::from);
    // Failed or between two attempts, and the delay over.
    let is_eligible = row.state == TaskState::Failed
        || (row.state == TaskState::Retrying && row.due_at.is_none_or(|due| due <= around.now));
    let failed_now = row.finished_at.filter(|_| row.state == TaskState::Failed);
    let last_failure = attempts.iter().filter(|one| one.outcome == 0).map(|one| one.finished_at).max();
    let last_attempt = attempts.iter().filter_map(|one| one.started_at).max();
    let status = task_status(row.state);
    let trace = RunTrace::new(row.key.run, around.triggers.get(&row.key.run));
    let span =
        |of: fn(TaskKey, i32) -> SpanOf| (row.attempt > 0).then(|| trace.span(of(row.key, row.attempt)).span_id_hex());
    TaskRun {
        id: row.key.to_string(),
        workflow_run_id: row.key.run,
        task_id: task_name(around.workflow, row.key),
        item: None,
        current_state: status,
        status,
        attempt: row.attempt,
        max_attempts,
        attempts: row.attempt,
        dependencies_satisfied: row.state != TaskState::Pending && row.state != TaskState::UpstreamFailed,
        retry_eligible: is_eligible
            && task.is_none_or(|task| task.retry.retryable)
            && i32::from(row.failures) < max_attempts,
        ready_for_execution: row.state == TaskState::Ready,
        last_failure_at: failed_now.or(last_failure).map(rfc3339),
        next_retry_at: row.due_at.filter(|_| row.state == TaskState::Retrying).map(rfc3339),
        blocked_by: around.obstacles.map_or_else(Vec::new, |obstacles| obstacles.of(around.workflow, row)),
        started_at: row.started_at.map(rfc3339),
        last_attempted_at: row.started_at.or(last_attempt).map(rfc3339),
        finished_at: row.finished_at.map(rfc3339),
        // A task run settled by a person ended at that time, but did not take until then.
        duration_ms: row
            .started_at
            .filter(|_| !matches!(row.state, TaskState::Skipped | TaskState::ResolvedManually))
            .map(|started| (row.finished_at.unwrap_or(around.now).saturating_sub(started) / 1_000).max(0)),
        worker_id: row.session.and_then(|session| around.workers.get(&session)).cloned(),
        output: row.output.clone().unwrap_or_default(),
        exit_code: row.exit_code,
        error: row.error.clone(),
        error_stack: row.detail.clone(),
        child_run_id: None,
        reuse: around.caches.shown(row, CacheKind::Result),
        cache: around.caches.shown(row, CacheKind::Files),
        approval: None,
        trace_id: Some(hex(&trace.trace_id())),
        span_id: span(SpanOf::Execution),
        parent_span_id: span(SpanOf::Claim),
        attempt_history: None,
        logs: None,
        log_tail: None,
        dead_letter_id: None,
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
