//! Bells: how the lanes of this node learn that there is something to do, and other nodes that they should look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainspring_store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Announcements are at least this far apart.
const ANNOUNCE_EVERY: Duration = Duration::from_millis(5);
/// What other processes are told when triggers have changed.
pub(crate) const SCHEDULES: &str = "schedules";
/// More lanes than this are of no use to one node.
pub(crate) const MAX_LANES: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Wakes the lane of that number.
    lanes: [Notify; MAX_LANES],
    /// Something may be claimable that this node has not been told of.
    look: AtomicBool,
    /// Routes may exist that this node has not read.
    new_routes: AtomicBool,
    /// Wakes the loop that follows events and ends of runs.
    happened: Notify,
    /// Wakes the announcer.
    outward: Notify,
    has_announcer: AtomicBool,
    /// Wakes the loop that fires triggers.
    clock: Notify,
}

impl Bell {
    /// There is something for this lane to hand in.
    pub(crate) fn ring(&self, lane: usize) {
        if let Some(bell) = self.lanes.get(lane) {
            bell.notify_one();
        }
    }

    pub(crate) fn ring_all(&self) {
        self.lanes.iter().for_each(Notify::notify_one);
    }

    /// There may be something to claim, here and for others.
    pub(crate) fn look(&self) {
        self.look_here();
        self.outward.notify_one();
    }

    /// There may be something to claim.
    pub(crate) fn look_here(&self) {
        self.look.store(true, Ordering::Release);
        self.ring_all();
    }

    /// Triggers have changed.
    pub(crate) fn ring_clock(&self) {
        self.clock.notify_one();
    }

    pub(crate) async fn clock_rung(&self) {
        self.clock.notified().await;
    }

    /// There may be routes to learn of at the next look.
    pub(crate) fn routes_changed(&self) {
        self.new_routes.store(true, Ordering::Release);
    }

    /// Whether routes may have been added since the last time.
    pub(crate) fn take_new_routes(&self) -> bool {
        self.new_routes.swap(false, Ordering::AcqRel)
    }

    /// Whether a look was asked for since the last time.
    pub(crate) fn take_look(&self) -> bool {
        self.look.swap(false, Ordering::AcqRel)
    }

    /// An event was announced, or a run has ended that somebody follows.
    pub(crate) fn happened(&self) {
        self.happened.notify_one();
    }

    pub(crate) async fn heard_of_something(&self) {
        self.happened.notified().await;
    }

    pub(crate) async fn rung(&self, lane: usize) {
        self.lanes[lane].notified().await;
    }

    /// Whether a task of this process announces what is to be looked at.
    pub(crate) fn announces(&self) -> bool {
        self.has_announcer.load(Ordering::Acquire)
    }

    /// Tells other processes, at most every few milliseconds, until stopped.
    pub(crate) async fn announce(&self, store: Store, from: String, stop: CancellationToken) {
        self.has_announcer.store(true, Ordering::Release);
        while stop.run_until_cancelled(self.outward.notified()).await.is_some() {
            if let Err(error) = store.announce(&from).await {
                tracing::debug!(%error, "telling other nodes; they will look by themselves");
            }
            tokio::time::sleep(ANNOUNCE_EVERY).await;
        }
        self.has_announcer.store(false, Ordering::Release);
    }
}
