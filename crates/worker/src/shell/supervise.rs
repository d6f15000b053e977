//! Watches one process group from its start to its end.
//!
//! One loop per attempt, in one task: it reads both pipes, hands on log lines, and minds the clock and the requests to
//! stop. Whatever the process does and however slow the log is, a stop or a timeout ends it: TERM to the whole group,
//! then, after the grace, KILL. Processes that leave the group (`setsid`) are beyond reach.
//!
//! When the main process has ended, so has the task: what it left in the group is killed, after a moment for its
//! last output.

use std::future::poll_fn;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::work::{Artifact, ArtifactSource, Assignment, Clock, Failure, LogChunk, Outcome};
use mainspring_core::workflow::{ExitMeaning, OutputFrom};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::artifacts::{self, ARTIFACTS_LIMIT, Collection};
use super::caching;
use super::command::Workbench;
use super::container;
use super::group::Group;
use super::incoming::{self, NotFetched};
use super::pipes::Pipes;
use super::place::Place;
use super::script::{Script, Scripts};
use super::verdict::judge;
use crate::capture::Capture;
use crate::config::PoolConfig;
use crate::control::{Control, Stop};
use crate::function::timed_out;
use crate::mask::Mask;
use crate::output::{OutputError, complete_output, read_output};
use crate::text;
use crate::watchdog::Guard;

/// The exit code of `docker` and `podman` when the fault is theirs.
const ENGINE_FAILED: i32 = 125;
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
        (ended, carried, group_empty, not_stopped) =
            execute(pool, assignment, &mut place, script, control, carried).await;
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
struct Carried {
    capture: Capture,
    /// Something was sent to the log.
    logged: bool,
    /// When the attempt must have ended.
    limit: Option<Instant>,
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

/// What happens when the time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deadline {
    TimedOut,
    Kill,
    GiveUp,
}

/// Why the process was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stopped,
    TimedOut,
}

struct Attempt<'a> {
    pool: PoolContext<'a>,
    assignment: &'a Assignment,
    control: &'a Control,
    group: &'a Group<'a>,
    child: Child,
    pipes: Pipes,
    carried: Carried,
    deadline: Option<(Instant, Deadline)>,
    ending: Option<Ending>,
    status: Option<io::Result<ExitStatus>>,
}

impl<'a> Attempt<'a> {
    fn new(
        pool: PoolContext<'a>,
        assignment: &'a Assignment,
        control: &'a Control,
        group: &'a Group<'a>,
        mut child: Child,
        carried: Carried,
    ) -> Self {
        let deadline = carried.limit;
        Self {
            pool,
            assignment,
            control,
            group,
            pipes: Pipes::of(&mut child),
            child,
            carried,
            deadline: deadline.map(|at| (at, Deadline::TimedOut)),
            ending: None,
            status: None,
        }
    }

    /// Until the main process has ended and its output is closed, or patience with either is over.
    async fn watch(&mut self) {
        let mut killed = false;
        let mut flush_due = false;
        while self.status.is_none() || self.pipes.is_open() {
            let deadline = self.deadline.map(|(at, _)| at);
            let flush_at = self.carried.capture.flush_at();
            flush_due = flush_at.is_some() && (flush_due || self.carried.capture.is_full());
            // A slow log slows the process down, but never its end.
            let ends = self.ending.is_some() || self.status.is_some();
            let reading = self.pipes.is_open() && (ends || !self.carried.capture.is_full());
            tokio::select! {
                biased;
                () = self.control.killed.cancelled(), if !killed => {
                    killed = true;
                    self.kill();
                }
                () = self.control.stopped.cancelled(), if !ends => self.stop(Ending::Stopped, "cancelled"),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    if self.time_is_up() {
                        return;
                    }
                }
                status = self.child.wait(), if self.status.is_none() => self.exited(status),
                permit = self.pool.logs.reserve(), if flush_due => {
                    flush_due = false;
                    self.carried.logged = true;
                    let lines = self.carried.capture.take();
                    if let Ok(permit) = permit {
                        permit.send(LogChunk { key: self.assignment.key, attempt: self.assignment.attempt, lines });
                    }
                }
                () = sleep_until(flush_at.unwrap_or_else(Instant::now)), if flush_at.is_some() && !flush_due => {
                    flush_due = true;
                }
                () = poll_fn(|context| self.pipes.poll(context, &mut self.carried.capture, self.pool.clock)), if reading => {}
            }
        }
    }

    fn stop(&mut self, ending: Ending, why: &str) {
        self.ending = Some(ending);
        self.remark(format!("{why}: sending SIGTERM, and SIGKILL after {}", text::duration(self.pool.config.grace)));
        self.group.signal(Signal::SIGTERM);
        self.deadline = Some((Instant::now() + self.pool.config.grace, Deadline::Kill));
    }

    /// Nothing survives KILL, but its effects may take a moment to show.
    fn kill(&mut self) {
        if self.status.is_none() {
            self.ending.get_or_insert(Ending::Stopped);
        }
        self.group.signal(Signal::SIGKILL);
        self.deadline = Some((Instant::now() + self.pool.config.drain, Deadline::GiveUp));
    }

    fn exited(&mut self, status: io::Result<ExitStatus>) {
        self.status = Some(status);
        if self.ending.is_none() {
            self.deadline = Some((Instant::now() + self.pool.config.drain, Deadline::GiveUp));
        }
    }

    /// True if there is nothing left to wait for.
    fn time_is_up(&mut self) -> bool {
        match self.deadline.take() {
            Some((_, Deadline::TimedOut)) => {
                let limit = Duration::from_millis(self.assignment.order.timeout_ms.unwrap_or_default());
                self.stop(Ending::TimedOut, &timed_out(limit).message);
                false
            }
            Some((_, Deadline::Kill)) => {
                self.remark("still running after the grace: sending SIGKILL".to_owned());
                self.kill();
                false
            }
            Some((_, Deadline::GiveUp)) => {
                if self.status.is_some() && self.pipes.is_open() {
                    self.remark("processes left in the background kept the output open and are killed".to_owned());
                }
                true
            }
            None => false,
        }
    }

    fn remark(&mut self, text: String) {
        self.carried.capture.remark(text, self.pool.clock.now());
    }

    fn is_contained(&self) -> bool {
        self.assignment.order.process.container.is_some()
    }

    fn means(&self, failure: &Failure) -> Option<ExitMeaning> {
        self.assignment.order.process.exit_codes.meaning_of(failure)
    }

    /// The outcome. A success has no output yet.
    fn conclude(&mut self) -> Option<Outcome> {
        let reason = self.control.reason();
        if reason == Some(Stop::Lost) {
            return None;
        }
        let tail = self.carried.capture.tail();
        Some(match (self.ending, reason, self.status.take()) {
            (Some(Ending::Stopped), Some(Stop::Cancel(reason)), _) => Outcome::Cancelled { reason },
            (Some(Ending::Stopped), _, _) => Outcome::Released,
            (Some(Ending::TimedOut), _, _) => {
                let limit = Duration::from_millis(self.assignment.order.timeout_ms.unwrap_or_default());
                Outcome::Failed(Failure { detail: tail, ..timed_out(limit) })
            }
            (None, _, Some(Ok(status))) if status.code() == Some(ENGINE_FAILED) && self.is_contained() => {
                let said = tail.as_deref().and_then(engine_error).unwrap_or("the container engine does not say why");
                let message = format!("the container could not be started: {}", text::first_characters(said, 500));
                Outcome::Failed(Failure { kind: "container".into(), message, detail: tail, ..Failure::default() })
            }
            (None, _, Some(Ok(status))) => match judge(status, tail, &self.assignment.order.limits) {
                Some(failure) if self.means(&failure) == Some(ExitMeaning::Succeed) => {
                    Outcome::Success { output: None }
                }
                Some(failure) => Outcome::Failed(failure),
                None => Outcome::Success { output: None },
            },
            (None, _, Some(Err(error))) => Outcome::Failed(unwatched(&error.to_string())),
            (None, _, None) => Outcome::Failed(unwatched("its end was not seen")),
        })
    }
}

/// The last line that names a cause: docker ends with a pointer to its help.
fn engine_error(tail: &str) -> Option<&str> {
    tail.lines().rev().find(|line| !line.trim().is_empty() && !line.contains("run --help"))
}

fn unwatched(why: &str) -> Failure {
    Failure { kind: "spawn".into(), message: format!("cannot watch the process: {why}"), ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_an_engine_is_not_the_pointer_to_its_help() {
        let docker = "docker: Cannot connect to the Docker daemon.\n\nRun 'docker run --help' for more information\n";
        assert_eq!(engine_error(docker), Some("docker: Cannot connect to the Docker daemon."));
        assert_eq!(engine_error("Trying to pull …\nError: no such image"), Some("Error: no such image"));
        assert_eq!(engine_error("\n"), None);
    }
}
