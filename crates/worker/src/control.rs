//! How a running attempt is asked to end.

use std::sync::Mutex;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::text::locked;

/// Why the engine wants an attempt to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelReason {
    /// On request: it is reported as cancelled, with this reason.
    Requested(String),
    /// The session is dead and the attempt belongs to another session: kill it and report nothing.
    Lost,
}

/// How an attempt that was asked to end is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancel(String),
    Release,
    Lost,
}

/// Shared by the pool and one attempt. Stopping is a request that leaves time to tidy up; killing does not wait.
#[derive(Debug)]
pub(crate) struct Control {
    /// How long the store may stay silent before this attempt must end.
    pub(crate) patience: Duration,
    stop: Mutex<Option<Stop>>,
    pub(crate) stopped: CancellationToken,
    pub(crate) killed: CancellationToken,
}

impl Control {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, stop: Mutex::default(), stopped: CancellationToken::new(), killed: CancellationToken::new() }
    }

    /// The first reason stands, except that a lost attempt always dies in silence.
    pub(crate) fn stop(&self, stop: Stop) {
        let lost = stop == Stop::Lost;
        {
            let mut current = locked(&self.stop);
            if current.is_none() || lost {
                *current = Some(stop);
            }
        }
        self.stopped.cancel();
        if lost {
            self.killed.cancel();
        }
    }

    /// Ends without grace, but with a report.
    pub(crate) fn kill(&self, stop: Stop) {
        self.stop(stop);
        self.killed.cancel();
    }

    pub(crate) fn reason(&self) -> Option<Stop> {
        locked(&self.stop).clone()
    }
}
