//! A process group: everything a task started, as long as it did not leave on purpose.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use crate::watchdog::Guard;

/// How often a group that is tidying up is asked whether anybody is left.
const POLL: Duration = Duration::from_millis(10);

/// Known to the watchdog from its first moment to its last; killed when dropped.
#[derive(Debug)]
pub(super) struct Group<'a> {
    id: Pid,
    guard: Option<&'a Guard>,
}

impl<'a> Group<'a> {
    pub(super) fn new(leader: u32, guard: Option<&'a Guard>) -> Self {
        let id = Pid::from_raw(leader.cast_signed());
        if let Some(guard) = guard {
            guard.add(id.as_raw());
        }
        Self { id, guard }
    }

    pub(super) fn signal(&self, signal: Signal) {
        match killpg(self.id, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::warn!(group = %self.id, %signal, %error, "cannot signal a task's processes"),
        }
    }

    /// Waits until nobody is left in the group, or until the deadline.
    pub(super) async fn empties_before(&self, deadline: Instant) {
        while killpg(self.id, None) != Err(Errno::ESRCH) && Instant::now() < deadline {
            sleep(POLL).await;
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        // The number cannot have been given away yet: while a member lives it is taken, and the leader was reaped
        // only a moment ago, whereas numbers come round after tens of thousands of processes.
        let _ = killpg(self.id, Signal::SIGKILL);
        if let Some(guard) = self.guard {
            guard.remove(self.id.as_raw());
        }
    }
}
