//! A process group: everything a task started, as long as it did not leave on purpose.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use crate::watchdog::Guard;

/// How often a group that is tidying up is asked whether a process is left.
const POLL: Duration = Duration::from_millis(20);

/// A process group. The watchdog knows it from its first moment to its last, and dropping it kills the group.
#[derive(Debug)]
pub(super) struct Group<'a> {
    id: Pid,
    guard: Option<&'a Guard>,
    buried: bool,
}

impl<'a> Group<'a> {
    pub(super) fn new(leader: u32, guard: Option<&'a Guard>, patience: Duration) -> Self {
        let id = Pid::from_raw(leader.cast_signed());
        if let Some(guard) = guard {
            guard.add(id.as_raw(), patience);
        }
        Self { id, guard, buried: false }
    }

    pub(super) fn signal(&self, signal: Signal) {
        match killpg(self.id, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::warn!(group = %self.id, %signal, %error, "cannot signal a task's processes"),
        }
    }

    /// Kills the processes that are left; true if there were none.
    pub(super) fn end(mut self) -> bool {
        self.bury()
    }

    fn bury(&mut self) -> bool {
        if std::mem::replace(&mut self.buried, true) {
            return true;
        }
        // The number cannot have been given away yet: while a member lives it is taken, and the leader was reaped
        // only a moment ago, whereas numbers come round after tens of thousands of processes.
        let deserted = killpg(self.id, Signal::SIGKILL) == Err(Errno::ESRCH);
        if let Some(guard) = self.guard {
            guard.remove(self.id.as_raw());
        }
        deserted
    }

    /// Waits until the group is empty, or until the deadline.
    pub(super) async fn empties_before(&self, deadline: Instant) {
        while Instant::now() < deadline && self.is_alive() {
            sleep(POLL).await;
        }
    }

    /// Dead processes count as members until their parent reaps them. In a container without an init process that may
    /// never happen, so the state of each process is read.
    fn is_alive(&self) -> bool {
        killpg(self.id, None) != Err(Errno::ESRCH) && living_member(self.id.as_raw()).unwrap_or(true)
    }
}

/// `None` on systems that do not show the members of a group.
fn living_member(group: i32) -> Option<bool> {
    let processes = std::fs::read_dir("/proc").ok()?;
    let numbers = processes.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    let mut stats = numbers.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok()).peekable();
    stats.peek()?;
    Some(stats.any(|stat| {
        // The name, in brackets, may contain anything; behind it come state, parent and group.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let living = fields.next().is_some_and(|state| state != "Z" && state != "X");
        living && fields.nth(1).and_then(|field| field.parse().ok()) == Some(group)
    }))
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.bury();
    }
}
