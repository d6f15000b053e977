//! Executes the scripts of an attempt one after the other: fetches their files before, and keeps their output, artifacts and
//! last log lines after. [`super::attempt`] watches each process group.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::work::{Artifact, ArtifactSource, Assignment, Clock, Failure, LogChunk, Outcome};
use mainspring_core::workflow::OutputFrom;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::artifacts::{self, ARTIFACTS_LIMIT, Collection};
use super::attempt::{Attempt, Deadline, unwatched};
use super::caching;
use super::command::Workbench;
use super::container;
use super::group::Group;
use super::incoming::{self, NotFetched};
use super::place::Place;
use super::script::{Script, Scripts};
use crate::capture::Capture;
use crate::config::PoolConfig;
use crate::control::Control;
use crate::mask::Mask;
use crate::output::{OutputError, complete_output, read_output};
use crate::watchdog::Guard;

/// How long the log may hold up the report of an attempt that was asked to end.
const LOG_PATIENCE: Duration = Duration::from_secs(1);

/// The parts of the pool that an attempt needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolContext<'a> {
    pub(crate) config: &'a PoolConfig,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) workbench: &'a Workbench,
    pub(crate) guard: Option<&'a Guard>,
    pub(crate) logs: &'a mpsc::Sender<LogChunk>,
    /// The source of files of other tasks.
    pub(crate) artifacts: Option<&'a dyn ArtifactSource>,
}

/// How a script ended, and what it left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) logged: bool,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self { outcome: Outcome::Failed(failure), artifacts: Vec::new(), logged: true }
    }
}

/// Executes scripts; `None` if the attempt was lost: its result would be refused.
pub(crate) async fn run(
    pool: PoolContext<'_>,
    assignment: &Assignment,
    scripts: Scripts<'_>,
    control: &Control,
    mask: Arc<Mask>,
) -> Option<Ended> {
    let mut place = match pool.workbench.place(&assignment.order, scripts.cwd) {
        Ok(place) => place,
        Err(failure) => return Some(failure.into()),
    };
    let mut carried = Carried::new(pool, assignment, mask);
    for text in &assignment.order.process.remarks {
        carried.capture.remark(text.clone(), pool.clock.now());
    }
    match fetch(pool, assignment, &place, control, &mut carried).await {
        Ok(()) => {}
        Err(NotFetched::Lost) => return None,
        Err(NotFetched::Ended(outcome)) => return Some(Ended { outcome, artifacts: Vec::new(), logged: false }),
    }
    let (mut outcome, deserted);
    (outcome, carried, deserted) = execute_all(pool, assignment, &mut place, &scripts, control, carried).await;
    if let Some(Outcome::Success { .. }) = outcome {
        outcome = Some(match carried.output(assignment, &place) {
            Ok(output) => Outcome::Success { output },
            Err(error) => Outcome::Failed(Failure {
                kind: "output".into(),
                message: error.to_string(),
                detail: carried.capture.tail(),
                ..Failure::default()
            }),
        });
    }
    let mut cached = match outcome {
        Some(Outcome::Success { .. }) => caching::save(pool, assignment, &mut place, &mut carried.capture).await,
        _ => Vec::new(),
    };
    carried.flush(pool, assignment, control).await;
    let ended = match outcome {
        Some(outcome) => {
            let tail = carried.capture.tail();
            let (outcome, mut artifacts) = keep_artifacts(pool, assignment, &mut place, outcome, tail).await;
            if matches!(outcome, Outcome::Success { .. }) {
                artifacts.append(&mut cached);
            }
            Some(Ended { outcome, artifacts, logged: carried.logged })
        }
        None => None,
    };
    pool.workbench.take_back(place, deserted);
    ended
}

/// Fetches the files of other tasks, then the files of earlier runs.
async fn fetch(
    pool: PoolContext<'_>,
    assignment: &Assignment,
    place: &Place,
    control: &Control,
    carried: &mut Carried,
) -> Result<(), NotFetched> {
    let Some(directory) = place.directory() else { return Ok(()) };
    if !assignment.order.process.incoming.is_empty() {
        incoming::fetch(pool.artifacts, assignment, directory, control, carried.limit).await?;
    }
    caching::restore(pool, assignment, directory, control, carried.limit, &mut carried.capture).await
}

/// Executes the scripts until one ends the attempt. Returns the outcome of the last one, the shared state, and whether every
/// process group is empty.
async fn execute_all(
    pool: PoolContext<'_>,
    assignment: &Assignment,
    place: &mut Place,
    scripts: &Scripts<'_>,
    control: &Control,
    mut carried: Carried,
) -> (Option<Outcome>, Carried, bool) {
    let mut outcome = Some(Outcome::Success { output: None });
    let mut deserted = true;
    for script in &scripts.all {
        if let Some(step) = script.step {
            carried.capture.remark(step.heading(), pool.clock.now());
            if step.skipped {
                continue;
            }
        }
        let begun = Instant::now();
        let (ended, group_empty, not_stopped);
        (ended, carried, group_empty, not_stopped) = execute(pool, assignment, place, script, control, carried).await;
        deserted &= group_empty;
        outcome = ended;
        let Some(step) = script.step else { break };
        let failure = match &outcome {
            Some(Outcome::Failed(failure)) => Some(failure),
            Some(Outcome::Success { .. }) => None,
            _ => break,
        };
        carried.capture.remark(step.ending(failure, begun.elapsed()), pool.clock.now());
        match outcome.take() {
            Some(Outcome::Failed(failure)) if !(step.continue_on_error && not_stopped) => {
                outcome = Some(Outcome::Failed(step.failed(failure)));
                break;
            }
            _ => outcome = Some(Outcome::Success { output: None }),
        }
    }
    (outcome, carried, deserted)
}

/// Executes one script. Returns its outcome, the state for the next script, whether the process group is empty, and
/// whether the script ended without being asked to.
async fn execute(
    pool: PoolContext<'_>,
    assignment: &Assignment,
    place: &mut Place,
    script: &Script<'_>,
    control: &Control,
    carried: Carried,
) -> (Option<Outcome>, Carried, bool, bool) {
    let child = match pool.workbench.start(assignment, place, script) {
        Ok(child) => child,
        Err(failure) => return (Some(Outcome::Failed(failure)), carried, true, true),
    };
    let Some(leader) = child.id() else {
        return (Some(Outcome::Failed(unwatched("it has no process id"))), carried, false, true);
    };
    let group = Group::new(leader, pool.guard, control.patience);
    if let (Some(guard), Some(name)) = (pool.guard, &place.container) {
        guard.contain(leader.cast_signed(), name);
    }
    let mut attempt = Attempt::new(pool, assignment, control, &group, child, carried);
    attempt.watch().await;
    if let (Some(_), Some((deadline, Deadline::Kill))) = (attempt.ending, attempt.deadline) {
        // The main process obeyed; the others of its group have the same grace.
        tokio::select! {
            () = control.killed.cancelled() => {}
            () = group.empties_before(deadline) => {}
        }
    }
    let ended_by_itself =
        attempt.ending.is_none() && matches!(&attempt.status, Some(Ok(status)) if status.code().is_some());
    if let (Some(name), Some(engine), false) = (&place.container, pool.workbench.engine(), ended_by_itself) {
        // The engine's command has ended, but the container may still run.
        group.signal(Signal::SIGKILL);
        container::remove(engine, name).await;
    }
    let outcome = attempt.conclude();
    let not_stopped = attempt.ending.is_none();
    let mut carried = attempt.carried;
    carried.asked_to_end |= !not_stopped;
    (outcome, carried, group.end(), not_stopped)
}

/// State that all scripts of an attempt share.
pub(super) struct Carried {
    pub(super) capture: Capture,
    /// Something was sent to the log.
    pub(super) logged: bool,
    /// When the attempt must have ended.
    pub(super) limit: Option<Instant>,
    asked_to_end: bool,
}

impl Carried {
    fn new(pool: PoolContext<'_>, assignment: &Assignment, mask: Arc<Mask>) -> Self {
        let mut capture = Capture::new(pool.config.log_limit, mask);
        if assignment.order.process.output != OutputFrom::File {
            capture.keep_stdout();
        }
        let limit = assignment.order.timeout_ms.map(Duration::from_millis);
        let limit = limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { capture, logged: false, limit, asked_to_end: false }
    }

    /// The result that the scripts wrote or printed.
    fn output(&mut self, assignment: &Assignment, place: &Place) -> Result<Option<Value>, OutputError> {
        let written = read_output(&place.output)?;
        complete_output(assignment.order.process.output, written, self.capture.take_stdout())
    }

    /// Hands on the last lines. The report follows its log; only an attempt that was asked to end does not wait long.
    async fn flush(&mut self, pool: PoolContext<'_>, assignment: &Assignment, control: &Control) {
        while self.capture.flush_at().is_some() {
            self.logged = true;
            let lines = self.capture.take();
            let chunk = LogChunk { key: assignment.key, attempt: assignment.attempt, lines };
            let sending = pool.logs.send(chunk);
            let sent = if self.asked_to_end {
                timeout(LOG_PATIENCE, sending).await.is_ok()
            } else {
                tokio::select! {
                    biased;
                    _ = sending => true,
                    () = control.stopped.cancelled() => false,
                }
            };
            if !sent {
                tracing::warn!(task = %assignment.key, "the log does not take the last lines of a task: dropped");
                return;
            }
        }
    }
}

/// An attempt that promised artifacts that cannot be kept has failed. An attempt that failed before keeps its own
/// reason.
async fn keep_artifacts(
    pool: PoolContext<'_>,
    assignment: &Assignment,
    place: &mut Place,
    outcome: Outcome,
    tail: Option<String>,
) -> (Outcome, Vec<Artifact>) {
    let patterns = assignment.order.artifacts.clone();
    if patterns.is_empty() || !matches!(outcome, Outcome::Success { .. } | Outcome::Failed(_)) {
        return (outcome, Vec::new());
    }
    place.remove_script();
    let working = place.working.clone();
    let (copies, token) = (pool.workbench.root().to_owned(), pool.workbench.copy_token());
    let limit = assignment.order.process.artifacts_limit.unwrap_or(ARTIFACTS_LIMIT);
    let collected = tokio::task::spawn_blocking(move || {
        artifacts::collect(&Collection { directory: &working, patterns: &patterns, limit, copies: &copies, token })
    })
    .await;
    let failure = match (outcome, collected) {
        (outcome, Ok(Ok(artifacts))) => return (outcome, artifacts),
        (Outcome::Success { .. }, Ok(Err(failure))) => Failure { detail: tail, ..failure },
        (Outcome::Success { .. }, Err(error)) => {
            Failure { kind: "artifacts".into(), message: error.to_string(), ..Failure::default() }
        }
        (outcome, _) => return (outcome, Vec::new()),
    };
    (Outcome::Failed(failure), Vec::new())
}
