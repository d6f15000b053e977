//! Delivery within the process: each loop waits for its own signal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, broadcast};

use super::message::{AccessChange, ClaimableRoutes};

/// More lanes than this are of no use to one node.
pub(crate) const MAX_LANES: usize = 8;
/// How many changes of access data a slow receiver may lag behind.
const ACCESS_CHANGES: usize = 256;

#[derive(Debug)]
pub(crate) struct Signals {
    lanes: [Notify; MAX_LANES],
    claimable: Mutex<Option<ClaimableRoutes>>,
    new_routes: AtomicBool,
    events: Notify,
    schedules: Notify,
    due: Notify,
    leadership: Notify,
    /// Wakes the feeder of dispatch streams, if there is one.
    dispatch: Notify,
    dispatches: AtomicBool,
    access: broadcast::Sender<AccessChange>,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            lanes: Default::default(),
            claimable: Mutex::default(),
            new_routes: AtomicBool::new(false),
            events: Notify::new(),
            schedules: Notify::new(),
            due: Notify::new(),
            leadership: Notify::new(),
            dispatch: Notify::new(),
            dispatches: AtomicBool::new(false),
            access: broadcast::channel(ACCESS_CHANGES).0,
        }
    }
}

impl Signals {
    /// Wakes a lane that has something to hand in.
    pub(crate) fn wake_lane(&self, lane: usize) {
        if let Some(signal) = self.lanes.get(lane) {
            signal.notify_one();
        }
    }

    pub(crate) fn wake_lanes(&self) {
        self.lanes.iter().for_each(Notify::notify_one);
    }

    pub(crate) async fn lane_woken(&self, lane: usize) {
        self.lanes[lane].notified().await;
    }

    /// Something may be claimable.
    pub(crate) fn claimable(&self, routes: ClaimableRoutes) {
        let mut pending = self.claimable.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *pending {
            Some(pending) => pending.add(routes),
            None => *pending = Some(routes),
        }
        drop(pending);
        self.wake_lanes();
        if self.dispatches.load(Ordering::Relaxed) {
            self.dispatch.notify_one();
        }
    }

    /// Takes the routes that may have become claimable since the last call.
    pub(crate) fn take_claimable(&self) -> Option<ClaimableRoutes> {
        self.claimable.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes the next pass read the routes.
    pub(crate) fn routes_changed(&self) {
        self.new_routes.store(true, Ordering::Release);
    }

    pub(crate) fn take_new_routes(&self) -> bool {
        self.new_routes.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn events_pending(&self) {
        self.events.notify_one();
    }

    pub(crate) async fn events_were_pending(&self) {
        self.events.notified().await;
    }

    pub(crate) fn schedules_changed(&self) {
        self.schedules.notify_one();
    }

    pub(crate) async fn schedules_were_changed(&self) {
        self.schedules.notified().await;
    }

    /// Wakes the loop that promotes due rows, matches events to waiting task runs and continues big units.
    pub(crate) fn wake_promotion(&self) {
        self.due.notify_one();
    }

    pub(crate) async fn promotion_woken(&self) {
        self.due.notified().await;
    }

    /// Something may be claimable on queues that streams dispatch.
    pub(crate) async fn dispatch_woken(&self) {
        self.dispatches.store(true, Ordering::Relaxed);
        self.dispatch.notified().await;
    }

    pub(crate) fn leadership_released(&self) {
        self.leadership.notify_one();
    }

    pub(crate) async fn leadership_was_released(&self) {
        self.leadership.notified().await;
    }

    pub(crate) fn access_changed(&self, change: AccessChange) {
        // Sending fails when this process has no cache; that is harmless.
        let _ = self.access.send(change);
    }

    pub(crate) fn access_changes(&self) -> broadcast::Receiver<AccessChange> {
        self.access.subscribe()
    }
}
