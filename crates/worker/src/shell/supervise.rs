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

use mainspring_core::work::{Artifact, Assignment, Clock, Failure, LogChunk, Outcome};
use nix::sys::signal::Signal;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::artifacts;
use super::command::{Script, Workbench};
use super::group::Group;
use super::pipes::Pipes;
use super::place::Place;
use super::verdict::judge;
use crate::capture::Capture;
use crate::config::PoolConfig;
use crate::control::{Control, Stop};
use crate::function::timed_out;
use crate::mask::Mask;
use crate::output::read_output;
use crate::text;
use crate::watchdog::Guard;

/// How long the log may hold up the report of an attempt that was asked to end.
const LOG_PATIENCE: Duration = Duration::from_secs(1);

/// What an attempt needs of the pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) config: &'a PoolConfig,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) workbench: &'a Workbench,
    pub(crate) guard: Option<&'a Guard>,
    pub(crate) logs: &'a mpsc::Sender<LogChunk>,
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

/// Executes a script; `None` if the attempt was lost: its result would be refused.
pub(crate) async fn run(
    around: Surroundings<'_>,
    assignment: &Assignment,
    script: Script<'_>,
    control: &Control,
    mask: Arc<Mask>,
) -> Option<Ended> {
    let (child, mut place) = match around.workbench.start(assignment, script) {
        Ok(started) => started,
        Err(failure) => return Some(failure.into()),
    };
    let Some(leader) = child.id() else { return Some(unwatched("it has no process id").into()) };
    let group = Group::new(leader, around.guard, control.patience);
    let mut attempt = Attempt::new(around, assignment, control, &group, child, mask);
    attempt.watch().await;
    if let (Some(_), Some((deadline, Deadline::Kill))) = (attempt.ending, attempt.deadline) {
        // The main process obeyed; the others of its group have the same grace.
        tokio::select! {
            () = control.killed.cancelled() => {}
            () = group.empties_before(deadline) => {}
        }
    }
    attempt.flush().await;
    let outcome = match attempt.conclude() {
        Some(Outcome::Success { .. }) => Some(match read_output(&place.output) {
            Ok(output) => Outcome::Success { output },
            Err(error) => Outcome::Failed(Failure {
                kind: "output".into(),
                message: error.to_string(),
                detail: attempt.capture.tail(),
                ..Failure::default()
            }),
        }),
        other => other,
    };
    let tail = attempt.capture.tail();
    let logged = attempt.logged;
    drop(attempt);
    let deserted = group.end();
    let ended = match outcome {
        Some(outcome) => {
            let (outcome, artifacts) = keep_artifacts(assignment, &mut place, outcome, tail).await;
            Some(Ended { outcome, artifacts, logged })
        }
        None => None,
    };
    around.workbench.take_back(place, deserted);
    ended
}

/// A task that promised artifacts it cannot keep has failed; one that has failed keeps its own reason.
async fn keep_artifacts(
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
    let collected = tokio::task::spawn_blocking(move || artifacts::collect(&working, &patterns)).await;
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
    around: Surroundings<'a>,
    assignment: &'a Assignment,
    control: &'a Control,
    group: &'a Group<'a>,
    child: Child,
    pipes: Pipes,
    capture: Capture,
    /// Something was sent to the log.
    logged: bool,
    deadline: Option<(Instant, Deadline)>,
    ending: Option<Ending>,
    status: Option<io::Result<ExitStatus>>,
}

impl<'a> Attempt<'a> {
    fn new(
        around: Surroundings<'a>,
        assignment: &'a Assignment,
        control: &'a Control,
        group: &'a Group<'a>,
        mut child: Child,
        mask: Arc<Mask>,
    ) -> Self {
        let limit = assignment.order.timeout_ms.map(Duration::from_millis);
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        Self {
            around,
            assignment,
            control,
            group,
            pipes: Pipes::of(&mut child),
            child,
            capture: Capture::new(around.config.log_limit, mask),
            logged: false,
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
            let flush_at = self.capture.flush_at();
            flush_due = flush_at.is_some() && (flush_due || self.capture.is_full());
            // A slow log slows the process down, but never its end.
            let ends = self.ending.is_some() || self.status.is_some();
            let reading = self.pipes.is_open() && (ends || !self.capture.is_full());
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
                permit = self.around.logs.reserve(), if flush_due => {
                    flush_due = false;
                    self.logged = true;
                    let lines = self.capture.take();
                    if let Ok(permit) = permit {
                        permit.send(LogChunk { key: self.assignment.key, attempt: self.assignment.attempt, lines });
                    }
                }
                () = sleep_until(flush_at.unwrap_or_else(Instant::now)), if flush_at.is_some() && !flush_due => {
                    flush_due = true;
                }
                () = poll_fn(|context| self.pipes.poll(context, &mut self.capture, self.around.clock)), if reading => {}
            }
        }
    }

    fn stop(&mut self, ending: Ending, why: &str) {
        self.ending = Some(ending);
        self.remark(format!("{why}: sending SIGTERM, and SIGKILL after {}", text::duration(self.around.config.grace)));
        self.group.signal(Signal::SIGTERM);
        self.deadline = Some((Instant::now() + self.around.config.grace, Deadline::Kill));
    }

    /// Nothing survives KILL, but its effects may take a moment to show.
    fn kill(&mut self) {
        if self.status.is_none() {
            self.ending.get_or_insert(Ending::Stopped);
        }
        self.group.signal(Signal::SIGKILL);
        self.deadline = Some((Instant::now() + self.around.config.drain, Deadline::GiveUp));
    }

    fn exited(&mut self, status: io::Result<ExitStatus>) {
        self.status = Some(status);
        if self.ending.is_none() {
            self.deadline = Some((Instant::now() + self.around.config.drain, Deadline::GiveUp));
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
        self.capture.remark(text, self.around.clock.now());
    }

    /// Hands on the last lines. The report follows its log; only an attempt that was asked to end does not wait long.
    async fn flush(&mut self) {
        while self.capture.flush_at().is_some() {
            self.logged = true;
            let lines = self.capture.take();
            let chunk = LogChunk { key: self.assignment.key, attempt: self.assignment.attempt, lines };
            let sending = self.around.logs.send(chunk);
            let sent = if self.ending.is_some() {
                timeout(LOG_PATIENCE, sending).await.is_ok()
            } else {
                tokio::select! {
                    biased;
                    _ = sending => true,
                    () = self.control.stopped.cancelled() => false,
                }
            };
            if !sent {
                tracing::warn!(task = %self.assignment.key, "the log does not take the last lines of a task: dropped");
                return;
            }
        }
    }

    /// `Success` is still without output.
    fn conclude(&mut self) -> Option<Outcome> {
        let reason = self.control.reason();
        if reason == Some(Stop::Lost) {
            return None;
        }
        let tail = self.capture.tail();
        Some(match (self.ending, reason, self.status.take()) {
            (Some(Ending::Stopped), Some(Stop::Cancel(reason)), _) => Outcome::Cancelled { reason },
            (Some(Ending::Stopped), _, _) => Outcome::Released,
            (Some(Ending::TimedOut), _, _) => {
                let limit = Duration::from_millis(self.assignment.order.timeout_ms.unwrap_or_default());
                Outcome::Failed(Failure { detail: tail, ..timed_out(limit) })
            }
            (None, _, Some(Ok(status))) => match judge(status, tail, &self.assignment.order.limits) {
                Some(failure) => Outcome::Failed(failure),
                None => Outcome::Success { output: None },
            },
            (None, _, Some(Err(error))) => Outcome::Failed(unwatched(&error.to_string())),
            (None, _, None) => Outcome::Failed(unwatched("its end was not seen")),
        })
    }
}

fn unwatched(why: &str) -> Failure {
    Failure { kind: "spawn".into(), message: format!("cannot watch the process: {why}"), ..Failure::default() }
}
