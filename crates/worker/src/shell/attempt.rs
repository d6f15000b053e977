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
use std::time::Duration;

use mainspring_core::work::{Assignment, Failure, LogChunk, Outcome};
use mainspring_core::workflow::ExitMeaning;
use nix::sys::signal::Signal;
use tokio::process::Child;
use tokio::time::{Instant, sleep_until};

use super::group::Group;
use super::pipes::Pipes;
use super::supervise::{Carried, PoolContext};
use super::verdict::judge;
use crate::control::{Control, Stop};
use crate::function::timed_out;
use crate::text;

/// The exit code of `docker` and `podman` when the fault is theirs.
const ENGINE_FAILED: i32 = 125;

/// What happens when the time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deadline {
    TimedOut,
    Kill,
    GiveUp,
}

/// Why the process was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Stopped,
    TimedOut,
}

pub(super) struct Attempt<'a> {
    pool: PoolContext<'a>,
    assignment: &'a Assignment,
    control: &'a Control,
    group: &'a Group<'a>,
    child: Child,
    pipes: Pipes,
    pub(super) carried: Carried,
    pub(super) deadline: Option<(Instant, Deadline)>,
    pub(super) ending: Option<Ending>,
    pub(super) status: Option<io::Result<ExitStatus>>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
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
    pub(super) async fn watch(&mut self) {
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
    pub(super) fn conclude(&mut self) -> Option<Outcome> {
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

pub(super) fn unwatched(why: &str) -> Failure {
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
