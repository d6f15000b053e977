//! Reports the events that metrics are made of. Nothing here waits or fails.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Instant;

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::{Completion, Outcome};
use mainspring_core::workflow::ExitMeaning;
use mainspring_core::{Micros, RunId, Workflow};
use mainspring_store::{Claimed, Exchange, Reply};
use mainspring_telemetry::{Event, Metrics};

use crate::client::Client;
use crate::exchange::session_inbox::Held;
use crate::node::Shared;
use crate::spans;

pub(crate) fn seconds(micros: Micros) -> f64 {
    micros.max(0) as f64 / 1e6
}

pub(crate) fn store_called(metrics: &Metrics, operation: &'static str, began: Instant) {
    metrics.record(Event::StoreCalled { operation, seconds: began.elapsed().as_secs_f64() });
}

/// Runs of one workflow were created: their first tasks are ready, or will be when a limit lets the run begin.
pub(crate) fn runs_created(metrics: &Metrics, workflow: &Workflow, runs: usize) {
    let runs = runs as u64;
    metrics.record(Event::RunsTriggered { count: runs });
    let mut queues: HashMap<&str, u64> = HashMap::new();
    for task in workflow.tasks.iter().filter(|task| task.needs.is_empty()) {
        *queues.entry(task.queue.as_str()).or_default() += runs;
    }
    for (queue, count) in queues {
        metrics.record(Event::TasksReady { queue, count });
    }
}

/// One attempt, as its worker reports it. Whether its retry budget is used up is decided by the store; the same rule over
/// the same numbers says it here.
pub(crate) fn attempt_ended(shared: &Shared, completion: &Completion, held: &Held) {
    let metrics = &shared.client.metrics;
    let Some(spec) = shared.client.specs.cached(held.version) else { return };
    let Some(task) = spec.workflow.tasks.get(completion.key.index as usize) else { return };
    let task_type = task.action.kind();
    let taken = seconds(completion.finished_at - completion.started_at);
    let ended = |status: TaskState| metrics.record(Event::TaskEnded { task_type, status: status.word() });
    let attempt = |status: &'static str, error_type: Option<&str>| {
        metrics.record(Event::AttemptEnded { task_type, status, seconds: taken, error_type });
    };
    match &completion.outcome {
        Outcome::Success { .. } => {
            attempt("success", None);
            ended(TaskState::Success);
        }
        Outcome::Cancelled { .. } => {
            attempt("cancelled", None);
            ended(TaskState::Cancelled);
        }
        Outcome::Released => attempt("released", None),
        Outcome::Failed(failure) if let Some(meaning) = task.exit_codes.meaning_of(failure) => {
            attempt("success", None);
            ended(if meaning == ExitMeaning::Skip { TaskState::Skipped } else { TaskState::Success });
        }
        Outcome::Failed(failure) => {
            attempt("failed", Some(&failure.kind));
            let failures = u32::from(u16::try_from(held.failures).unwrap_or(0)) + 1;
            let repeats = !failure.permanent
                && task.retry.repeats(failures, failure)
                && failures < u32::from(task.retry.attempts);
            match repeats {
                true => metrics.record(Event::RetryScheduled { worker: &shared.config.name }),
                false => ended(TaskState::Failed),
            }
        }
    }
}

pub(crate) fn exchange_applied(shared: &Shared, exchange: &Exchange, reply: &Reply) {
    let metrics = &shared.client.metrics;
    metrics.record(Event::LoopPassed { name: "exchange" });
    for _ in &reply.fenced {
        metrics.record(Event::WriteFenced { kind: "result" });
    }
    for (run, state) in &reply.ended_runs {
        run_ended(&shared.client, *run, *state, exchange.now);
        if matches!(state, RunState::Failed | RunState::Cancelled) || shared.client.specs.may_skip() {
            // The receiver is gone only when the node has stopped.
            let _ = shared.unexecuted.send(*run);
        }
    }
    claimed(shared, exchange.now, &reply.claimed);
}

pub(crate) fn claimed(shared: &Shared, now: Micros, claims: &[Claimed]) {
    if claims.is_empty() {
        return;
    }
    let metrics = &shared.client.metrics;
    let queues = shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
    for claim in claims {
        let queue = queues.get(&claim.route).map_or("default", |queue| queue);
        // The first attempt of a task without upstream was counted when its run was created.
        let waited_for_others = claim.token.attempt > 1
            || shared
                .client
                .specs
                .cached(claim.version)
                .and_then(|spec| {
                    spec.workflow.tasks.get(claim.token.key.index as usize).map(|task| !task.needs.is_empty())
                })
                .unwrap_or(false);
        if waited_for_others {
            metrics.record(Event::TasksReady { queue, count: 1 });
        }
        metrics.record(Event::TaskClaimed { queue, waited: seconds(now - claim.due_at) });
    }
}

/// The creation time comes from the id of the run.
pub(crate) fn run_ended(client: &Client, run: RunId, state: RunState, now: Micros) {
    let created = run.get_timestamp().map_or(now, |time| {
        let (seconds, nanos) = time.to_unix();
        i64::try_from(seconds).unwrap_or(0) * 1_000_000 + i64::from(nanos) / 1_000
    });
    client.metrics.record(Event::RunEnded { status: state.word(), seconds: seconds(now - created) });
    spans::run_ended(client, run, state, created, now);
}

/// A decision ended a task run without a worker. Skipped task runs are counted when their run ends.
pub(crate) fn concluded(shared: &Shared, claim: &Claimed, state: TaskState) {
    if state == TaskState::Skipped {
        return;
    }
    let spec = shared.client.specs.cached(claim.version);
    if let Some(task) = spec.as_ref().and_then(|spec| spec.workflow.tasks.get(claim.token.key.index as usize)) {
        shared.client.metrics.record(Event::TaskEnded { task_type: task.action.kind(), status: state.word() });
    }
}
