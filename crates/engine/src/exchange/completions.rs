//! Turns the reports of workers into results for the next exchange.

use std::sync::Arc;

use mainspring_core::retry::OnExhausted;
use mainspring_core::state::TaskState;
use mainspring_core::work::{ArtifactContent, Clock, Completion, Failure, Outcome};
use mainspring_core::workflow::{ExitMeaning, SlotClass, Task};
use mainspring_store::{ContinuedAs, ContinuedAttempt, Ended, TaskToken};
use tokio::sync::mpsc;

use crate::artifacts::keep_completed;
use crate::bus::{BusMessage, ClaimableRoutes, MAX_LANES};
use crate::events::announcing::publish;
use crate::exchange::scopes::{NoSpec, load_spec};
use crate::exchange::session_inbox::Held;
use crate::metering;
use crate::node::Shared;
use crate::spans;
use crate::specs::Spec;

const AT_ONCE: usize = 1_000;

/// Receives completions until the workforce is gone. An attempt that may have logged waits until its log is stored, so
/// that a finished task never lacks its last lines.
pub(crate) async fn run(shared: Arc<Shared>, mut completions: mpsc::UnboundedReceiver<Completion>) {
    let mut batch = Vec::with_capacity(AT_ONCE);
    loop {
        let received = tokio::select! {
            received = completions.recv_many(&mut batch, AT_ONCE) => received,
            () = shared.stop.cancelled() => return,
        };
        if received == 0 {
            return;
        }
        take_in(&shared, batch.drain(..));
    }
}

/// Takes in the reports on attempts that their sessions hold.
pub(crate) fn take_in(shared: &Arc<Shared>, completions: impl IntoIterator<Item = Completion>) {
    let mut logged = Vec::new();
    let mut lanes = Lanes::default();
    for completion in completions {
        let token = TaskToken { key: completion.key, session: completion.session, attempt: completion.attempt };
        let mut gatherer = shared.gatherer();
        let Some(held) = gatherer.get(token) else { continue };
        let left_something = completion.logged || !completion.artifacts.is_empty();
        let is_process = held.class == SlotClass::Process;
        let stores = |spec: &Spec| (left_something && is_process) || publishes(spec, &completion);
        match shared.client.specs.cached(held.version) {
            Some(spec) if !stores(&spec) => {
                if let Some(held) = gatherer.finish(token) {
                    drop(gatherer);
                    lanes.add(hand_in(shared, completion, held, Some(&spec)));
                }
            }
            // Without the version, which another node has read, the meaning of a failure is unknown.
            _ => logged.extend(gatherer.finish_unlogged(token).map(|held| (completion, held))),
        }
    }
    lanes.ring(shared);
    // A large file takes long, and other attempts must not wait for it.
    let is_large = |(completion, _): &(Completion, Held)| {
        completion.artifacts.iter().any(|artifact| matches!(artifact.content, ArtifactContent::File(_)))
    };
    let (large, logged): (Vec<_>, Vec<_>) = logged.into_iter().partition(is_large);
    let large_batches = large.into_iter().map(|completion| vec![completion]);
    for batch in large_batches.chain((!logged.is_empty()).then_some(logged)) {
        tokio::spawn(store_and_hand_in(Arc::clone(shared), batch));
    }
}

/// Hands in attempts once their logs, files and events are stored.
async fn store_and_hand_in(shared: Arc<Shared>, mut logged: Vec<(Completion, Held)>) {
    shared.barrier.stored().await;
    let mut specs = Vec::with_capacity(logged.len());
    for (completion, held) in &mut logged {
        keep_completed(&shared, completion).await;
        let spec = load_spec(&shared, held.version).await;
        if let Ok(spec) = &spec {
            announce(&shared, spec, completion, held).await;
        }
        specs.push(spec);
    }
    let mut lanes = Lanes::default();
    let count = logged.len();
    for ((mut completion, held), spec) in logged.into_iter().zip(specs) {
        let failed = matches!(completion.outcome, Outcome::Failed(_));
        match &spec {
            // The task is executed again when the session is found dead.
            Err(NoSpec::Stopping) => continue,
            // Only nodes that understand the version know whether it is retried.
            Err(NoSpec::NotUnderstood) if failed => completion.outcome = Outcome::Released,
            _ => {}
        }
        lanes.add(hand_in(&shared, completion, held, spec.ok().as_deref()));
    }
    // Only now: a node that stops waits for results that it has not handed in.
    shared.gatherer().logged(count);
    lanes.ring(&shared);
}

/// Whether a success of this attempt publishes an event.
fn publishes(spec: &Spec, completion: &Completion) -> bool {
    // A task repeated over a list publishes one event, not one per item.
    completion.key.item < 0
        && matches!(completion.outcome, Outcome::Success { .. })
        && !spec.workflow.tasks[completion.key.index as usize].publishes_events.is_empty()
}

/// Announces the events of an attempt that succeeded.
async fn announce(shared: &Shared, spec: &Spec, completion: &Completion, held: &Held) {
    if let Outcome::Success { output } = &completion.outcome
        && completion.key.item < 0
    {
        publish(shared, spec, completion.key, i32::from(held.generation), output.as_ref()).await;
    }
}

/// Lanes with results to hand in.
#[derive(Debug, Default)]
struct Lanes([bool; MAX_LANES]);

impl Lanes {
    fn add(&mut self, lane: usize) {
        self.0[lane] = true;
    }

    fn ring(&self, shared: &Shared) {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, rings)| **rings)
            .for_each(|(lane, _)| shared.client.bus.signals().wake_lane(lane));
    }
}

/// Queues a completion for its lane, and returns that lane.
fn hand_in(shared: &Arc<Shared>, completion: Completion, held: Held, spec: Option<&Spec>) -> usize {
    let token = TaskToken { key: completion.key, session: completion.session, attempt: completion.attempt };
    let mut ended = Ended {
        token,
        from: TaskState::Running,
        state: TaskState::Success,
        started_at: Some(completion.started_at),
        finished_at: completion.finished_at,
        failure: None,
        output: None,
    };
    metering::attempt_ended(shared, &completion, &held);
    spans::attempt_ended(shared, &completion);
    if let Some(spec) = spec {
        log_end(shared, spec, &completion);
    }
    let task = spec.and_then(|spec| spec.workflow.tasks.get(token.key.index as usize));
    match completion.outcome {
        Outcome::Success { output } => ended.output = output.map(|output| output.to_string()),
        Outcome::Cancelled { reason } => {
            ended.state = TaskState::Cancelled;
            ended.failure = Some(Failure { kind: "cancelled".into(), message: reason, ..Failure::default() });
        }
        Outcome::Released => {
            let released = ContinuedAttempt {
                token,
                how: ContinuedAs::Released,
                started_at: Some(completion.started_at),
                finished_at: completion.finished_at,
                failure: None,
            };
            return shared.gatherer().push_continued(released);
        }
        Outcome::Failed(failure) if let Some(meaning) = task.and_then(|task| task.exit_codes.meaning_of(&failure)) => {
            ended.state = match meaning {
                ExitMeaning::Skip => TaskState::Skipped,
                ExitMeaning::Succeed => TaskState::Success,
            };
        }
        Outcome::Failed(failure) => {
            let failure = without_nul(failure);
            let failures = u32::try_from(held.failures).unwrap_or(0) + 1;
            if let Some(task) = task {
                stop_siblings(shared, task, token, failures, &failure);
            }
            if let Some(due_at) = task.and_then(|task| retry_at(shared, task, failures, &failure)) {
                let retry = ContinuedAttempt {
                    token,
                    how: ContinuedAs::Retry { due_at },
                    started_at: Some(completion.started_at),
                    finished_at: completion.finished_at,
                    failure: Some(failure),
                };
                return shared.gatherer().push_continued(retry);
            }
            ended.state = TaskState::Failed;
            ended.failure = Some(failure);
        }
    }
    shared.gatherer().push_ended(ended)
}

/// One line per attempt that failed; successes are logged at the debug level only.
fn log_end(shared: &Shared, spec: &Spec, completion: &Completion) {
    let failure = match &completion.outcome {
        Outcome::Failed(failure) => Some(failure),
        _ if !tracing::enabled!(tracing::Level::DEBUG) => return,
        _ => None,
    };
    let (key, attempt) = (completion.key, completion.attempt);
    let task = spec.workflow.tasks.get(key.index as usize).map_or("", |task| task.name.as_str());
    let context = shared.client.attempt_context(key, attempt);
    let is_own = shared.gatherer().own() == completion.session;
    let span = tracing::info_span!(
        "attempt",
        workflow_id = %spec.version.workflow_id,
        workflow = spec.workflow.name,
        run_id = %key.run,
        task_id = %key,
        task,
        attempt,
        worker_id = is_own.then_some(shared.config.name.as_str()),
        session = completion.session,
        trace_id = context.map(|context| context.trace_id_hex()),
        span_id = context.map(|context| context.span_id_hex()),
    );
    let _entered = span.enter();
    let duration_ms = (completion.finished_at - completion.started_at) / 1_000;
    match failure {
        Some(failure) => {
            tracing::info!(duration_ms, error_type = failure.kind, error = failure.message, "an attempt failed");
        }
        None => tracing::debug!(duration_ms, outcome = completion.outcome.word(), "an attempt ended"),
    }
}

/// An item of a task with `fail_fast` has failed for good, so the other items are cancelled. This only makes the task
/// end sooner: after a crash the result is the same.
fn stop_siblings(shared: &Arc<Shared>, task: &Task, token: TaskToken, failures: u32, failure: &Failure) {
    if token.key.item < 0
        || !task.fail_fast
        || task.on_exhausted == OnExhausted::Continue
        || task.retry.tries_again(failures, failure)
    {
        return;
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let stopped = shared.client.store.stop_items(shared.client.clock.now(), token.key).await;
        match stopped {
            Ok(()) => shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any)),
            Err(error) => tracing::warn!(%error, task = %token.key, "stopping the other items of a task"),
        }
    });
}

/// When this failure may be retried; `None` if it must not be. The store decides whether the retry budget allows it.
fn retry_at(shared: &Shared, task: &Task, failures: u32, failure: &Failure) -> Option<i64> {
    if failure.permanent || !task.retry.repeats(failures, failure) {
        return None;
    }
    Some(shared.client.clock.now() + task.retry.delay_micros(failures, fastrand::f64()))
}

/// PostgreSQL cannot store NUL.
pub(crate) fn without_nul(mut failure: Failure) -> Failure {
    for text in [Some(&mut failure.kind), Some(&mut failure.message), failure.detail.as_mut()].into_iter().flatten() {
        if text.contains('\0') {
            *text = text.replace('\0', "");
        }
    }
    failure
}
