//! The helper process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, sigprocmask};
use nix::unistd::{Pid, getpgrp};

use super::{containers, strays};

/// How long the helper sleeps after reading, unless the pipe closes: a busy worker must not pay for a context switch
/// with every line.
const NAP: Duration = Duration::from_millis(100);
/// How long the worker has to send a sign of life after the whole machine was suspended, because worker and helper wake
/// together.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// Longer than any line that makes sense.
const LINE_LIMIT: usize = 64 * 1024;

/// The hidden subcommand: guards what standard input announces. Returns when it closes.
///
/// To be called before there is any other thread: one would still take the signals that are not meant for it.
pub fn main() -> io::Result<()> {
    run(io::stdin().as_fd().try_clone_to_owned()?)
}

/// Blocks until the pipe closes, then kills what is still registered.
pub fn run(input: OwnedFd) -> io::Result<()> {
    // Signals for the worker (a terminal, a service manager) are not for its watchdog, which ends with its pipe.
    let ignored: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ignored), None)?;
    fcntl(&input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let mut input = File::from(input);
    let mut ledger = Ledger::default();
    loop {
        let now = Instant::now();
        let patience = ledger.deadline().map(|at| at.saturating_duration_since(now));
        wait(&input, PollFlags::POLLIN, patience)?;
        if !drain(&mut input, &mut ledger)? {
            break;
        }
        if ledger.is_overdue(Instant::now()) {
            wait(&input, PollFlags::POLLIN, Some(SECOND_LOOK))?;
            if !drain(&mut input, &mut ledger)? {
                break;
            }
            let overdue = ledger.take_overdue(Instant::now());
            let containers = ledger.take_containers(&overdue);
            kill(overdue);
            ledger.remove_containers(&containers);
            continue;
        }
        wait(&input, PollFlags::empty(), Some(NAP))?;
    }
    let containers: Vec<String> = ledger.containers.values().cloned().collect();
    kill(ledger.take_all());
    ledger.remove_containers(&containers);
    if let Some(directory) = ledger.directory {
        strays::kill(&directory);
        if let Some(engine) = &ledger.engine {
            containers::sweep(engine, &directory);
        }
        let _ = std::fs::remove_dir_all(directory);
    }
    Ok(())
}

/// A pipe without writers always ends the wait.
fn wait(input: &File, events: PollFlags, patience: Option<Duration>) -> io::Result<()> {
    let timeout = match patience {
        None => PollTimeout::NONE,
        // Rounded up, or the last millisecond would be spent spinning.
        Some(patience) => PollTimeout::try_from(patience + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
    };
    match poll(&mut [PollFd::new(input.as_fd(), events)], timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads all there is; false at the end of the pipe.
fn drain(input: &mut File, ledger: &mut Ledger) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(length) => ledger.read(&buffer[..length], Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What the worker has announced so far.
#[derive(Debug, Default)]
struct Ledger {
    /// How long each group may live without a beat, if its task depends on the store.
    groups: BTreeMap<i32, Option<Duration>>,
    alive: Option<Instant>,
    /// When the last beat arrived.
    beat: Option<Instant>,
    directory: Option<PathBuf>,
    engine: Option<PathBuf>,
    /// Names of containers by process group.
    containers: BTreeMap<i32, String>,
    partial: Vec<u8>,
}

impl Ledger {
    fn read(&mut self, bytes: &[u8], now: Instant) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.partial.len() > LINE_LIMIT {
                let line = std::mem::take(&mut self.partial);
                if let Ok(line) = std::str::from_utf8(&line) {
                    self.apply(line.trim_end(), now);
                }
            }
        }
    }

    fn apply(&mut self, line: &str, now: Instant) {
        // Groups 0 and 1 are the caller's own and the system's; no worker announces them.
        let group = |text: &str| text.parse().ok().filter(|group: &i32| *group > 1);
        let after = |text: &str| text.parse().ok().and_then(|ms| now.checked_add(Duration::from_millis(ms)));
        if let Some(announced) = line.strip_prefix('+') {
            let (id, patience) = announced.split_once(' ').unwrap_or((announced, ""));
            if let Some(group) = group(id) {
                self.groups.insert(group, patience.parse().ok().map(Duration::from_millis));
            }
        } else if let Some(group) = line.strip_prefix('-').and_then(group) {
            self.groups.remove(&group);
            self.containers.remove(&group);
        } else if let Some((id, name)) = line.strip_prefix("container ").and_then(|rest| rest.split_once(' ')) {
            self.containers.extend(group(id).map(|group| (group, name.to_owned())));
        } else if let Some(path) = line.strip_prefix("engine ") {
            self.engine = Some(PathBuf::from(path));
        } else if let Some(ms) = line.strip_prefix("alive ") {
            self.alive = after(ms);
        } else if line == "beat" {
            self.beat = Some(now);
        } else if let Some(path) = line.strip_prefix("directory ") {
            self.directory = Some(PathBuf::from(path));
        }
    }

    /// When to kill if no further line arrives. `None` while there is nothing to kill.
    fn deadline(&self) -> Option<Instant> {
        if self.groups.is_empty() {
            return None;
        }
        self.alive.into_iter().chain(self.groups.values().filter_map(|patience| self.silent_at(*patience))).min()
    }

    /// When the silence of the store exceeds the patience.
    fn silent_at(&self, patience: Option<Duration>) -> Option<Instant> {
        self.beat?.checked_add(patience?)
    }

    fn is_overdue(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    /// Takes all groups if the worker gives no sign of life, otherwise the groups for which the store was silent too
    /// long.
    fn take_overdue(&mut self, now: Instant) -> Vec<i32> {
        let stopped = self.alive.is_some_and(|at| at <= now);
        let overdue: Vec<i32> = self
            .groups
            .iter()
            .filter(|(_, patience)| stopped || self.silent_at(**patience).is_some_and(|at| at <= now))
            .map(|(group, _)| *group)
            .collect();
        self.groups.retain(|group, _| !overdue.contains(group));
        overdue
    }

    fn take_containers(&mut self, groups: &[i32]) -> Vec<String> {
        groups.iter().filter_map(|group| self.containers.remove(group)).collect()
    }

    fn remove_containers(&self, names: &[String]) {
        if let Some(engine) = self.engine.as_ref().filter(|_| !names.is_empty()) {
            containers::remove(engine, names);
        }
    }

    fn take_all(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.groups).into_keys().collect()
    }
}

fn kill(groups: Vec<i32>) {
    let own = getpgrp();
    for group in groups.into_iter().map(Pid::from_raw).filter(|group| *group != own) {
        let _ = killpg(group, Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_follows_the_lines() {
        let now = Instant::now();
        let mut ledger = Ledger::default();
        let after = |ms| now + Duration::from_millis(ms);
        ledger.read(b"+10\n+1", now);
        ledger.read(b"1 70\n-10\n+0\n+1\n+-5\nnonsense\n\xff\n", now);
        assert_eq!(ledger.groups, BTreeMap::from([(11, Some(Duration::from_millis(70)))]));
        assert_eq!(ledger.deadline(), None);
        ledger.read(b"alive 50\nbeat\n", now);
        assert!(!ledger.is_overdue(after(49)));
        assert!(ledger.is_overdue(after(50)));
        ledger.read(b"alive 100\n", now);
        assert_eq!(ledger.deadline(), Some(after(70)));
        ledger.read(b"-11\n", now);
        assert!(!ledger.is_overdue(after(10_000)));
    }

    #[test]
    fn a_silent_store_ends_only_those_that_do_not_bear_it() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        let mut ledger = Ledger::default();
        ledger.read(b"+10 50\n+11 500\n+12\nalive 900\nbeat\n", now);
        assert!(ledger.take_overdue(after(49)).is_empty());
        assert_eq!(ledger.take_overdue(after(50)), [10]);
        assert_eq!(ledger.deadline(), Some(after(500)));
        ledger.read(b"beat\n", after(100));
        assert!(ledger.take_overdue(after(500)).is_empty());
        assert_eq!(ledger.take_overdue(after(900)), [11, 12], "a worker that stands still bears nothing");
    }
}
