//! The handle for publishing messages.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainspring_store::{Flavor, Store, after_commit, is_within_unit};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::live::Hints;

use super::message::{AccessChange, BusMessage, ClaimableRoutes};
use super::outbox::Outbox;
use super::postgres::PostgresNotify;
use super::signals::Signals;
use super::transport::{BusTransport, listen_loop, send_loop};
use super::wire::{self, Line};

/// An empty answer never means an empty queue, so each loop also polls.
const POLL_WHEN_IDLE: Duration = Duration::from_secs(1);
/// The poll interval while other processes cannot be heard and this one is busy.
const POLL_WHEN_BUSY: Duration = Duration::from_millis(50);

/// The bus of a process. Clones share it, and it ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Bus {
    links: Arc<Links>,
    stop: CancellationToken,
    _guard: Arc<DropGuard>,
}

/// State that the loops of the bus share with its handles.
#[derive(Debug)]
pub(crate) struct Links {
    /// The name of this process, so that it ignores its own messages.
    name: String,
    pub(crate) signals: Signals,
    pub(crate) hints: Arc<Hints>,
    pub(crate) outbox: Outbox,
    /// Transports, in the order in which they are tried.
    transports: Mutex<Vec<Arc<dyn BusTransport>>>,
    /// How many transports are heard now.
    pub(crate) connected_transports: AtomicUsize,
    sends: AtomicBool,
    listens: AtomicBool,
}

impl Bus {
    pub(crate) fn new(store: &Store, hints: Arc<Hints>) -> Self {
        let mut transports: Vec<Arc<dyn BusTransport>> = Vec::new();
        if store.flavor() == Flavor::Postgres {
            transports.push(Arc::new(PostgresNotify(store.clone())));
        }
        let stop = CancellationToken::new();
        let links = Arc::new(Links {
            name: Uuid::from_u128(fastrand::u128(..)).simple().to_string(),
            signals: Signals::default(),
            hints,
            outbox: Outbox::default(),
            transports: Mutex::new(transports),
            connected_transports: AtomicUsize::new(0),
            sends: AtomicBool::new(false),
            listens: AtomicBool::new(false),
        });
        Self { links, _guard: Arc::new(stop.clone().drop_guard()), stop }
    }

    /// Puts a transport before the others. To be called before anything listens.
    pub(crate) fn prefer(&self, transport: Arc<dyn BusTransport>) {
        self.links.transports.lock().unwrap_or_else(PoisonError::into_inner).insert(0, transport);
    }

    /// Publishes a message: at once to the loops of this process, soon to other processes. Within the unit of a request
    /// the message waits for the commit, because a loop that looks before it finds nothing.
    pub(crate) fn publish(&self, message: BusMessage) {
        let links = Arc::clone(&self.links);
        after_commit(move || links.publish(message));
    }

    /// Sends the pending messages before it returns, unless a background loop sends them anyway.
    pub(crate) async fn flush(&self) {
        if is_within_unit() {
            return;
        }
        if !self.links.sends.load(Ordering::Acquire) {
            self.links.flush().await;
        }
    }

    /// Sends from a background loop from now on, so that callers do not wait.
    pub(crate) fn send_in_background(&self) {
        if !self.links.sends.swap(true, Ordering::AcqRel) {
            tokio::spawn(send_loop(Arc::clone(&self.links), self.stop.clone()));
        }
    }

    /// Listens to other processes from now on.
    pub(crate) fn listen(&self) {
        if !self.links.listens.swap(true, Ordering::AcqRel) {
            for transport in self.links.transports() {
                tokio::spawn(listen_loop(Arc::clone(&self.links), transport, self.stop.clone()));
            }
        }
    }

    /// How long a loop may sleep between polls.
    pub(crate) fn poll_interval(&self, busy: bool) -> Duration {
        let is_connected = self.links.connected_transports.load(Ordering::Relaxed) > 0;
        if busy && !is_connected { POLL_WHEN_BUSY } else { POLL_WHEN_IDLE }
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.links.signals
    }

    /// Wakes only the loops of this process, because other processes have the message already or cannot claim the task.
    pub(crate) fn look_here(&self) {
        self.links.signals.claimable(ClaimableRoutes::Any);
    }

    /// Hints with details about changed runs, sent while there are subscribers.
    pub(crate) fn hints(&self) -> &Hints {
        &self.links.hints
    }

    pub(crate) fn access_changes(&self) -> broadcast::Receiver<AccessChange> {
        self.links.signals.access_changes()
    }
}

impl Links {
    fn publish(&self, message: BusMessage) {
        if self.has_transports() {
            self.outbox.add(&message);
        }
        // This message asks other processes for hints and concerns no loop of this one.
        if message != BusMessage::RunChangesWanted {
            self.receive(message);
        }
    }

    fn transports(&self) -> Vec<Arc<dyn BusTransport>> {
        self.transports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_transports(&self) -> bool {
        !self.transports.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Sends the pending messages over the first transport that accepts all of them.
    pub(crate) async fn flush(&self) {
        let (pending, runs) = (self.outbox.take(), self.hints.take_outward());
        if pending.is_empty() && runs.hints.is_empty() && !runs.lost_some {
            return;
        }
        'transports: for transport in self.transports() {
            for text in wire::encode(&self.name, &pending, &runs, transport.longest_text()) {
                if let Err(error) = transport.send(&text).await {
                    tracing::debug!(%error, transport = transport.name(), "telling other nodes; they poll");
                    continue 'transports;
                }
            }
            return;
        }
    }

    pub(crate) fn receive_text(&self, text: &str) {
        for line in wire::decode(&self.name, text) {
            match line {
                Line::Message(message) => {
                    if matches!(message, BusMessage::Claimable(_) | BusMessage::EventsPending) {
                        // Another process may have left events to match and units to continue. In this process the
                        // submitting code wakes the loop itself, because not every submission is worth a pass.
                        self.signals.wake_promotion();
                    }
                    self.receive(message);
                }
                Line::Run(hint) => self.hints.receive(hint),
                Line::ManyRuns => self.hints.receive_many(),
                Line::Unknown => self.look_at_everything(),
            }
        }
    }

    /// Wakes the loops of this process that a message concerns.
    fn receive(&self, message: BusMessage) {
        let signals = &self.signals;
        match message {
            BusMessage::Claimable(routes) => signals.claimable(routes),
            BusMessage::RoutesChanged => signals.routes_changed(),
            BusMessage::SchedulesChanged => signals.schedules_changed(),
            BusMessage::EventsPending => signals.events_pending(),
            BusMessage::RunsChanged(runs) => runs.into_iter().for_each(|run| self.hints.changed(run)),
            // The exchange delivers the requests to the sessions that hold the attempts.
            BusMessage::CancelRequested(_) => signals.claimable(ClaimableRoutes::Any),
            BusMessage::AccessChanged(change) => signals.access_changed(change),
            BusMessage::LeadershipReleased => signals.leadership_released(),
            BusMessage::RunChangesWanted => self.hints.wanted_elsewhere(),
        }
    }

    pub(crate) fn look_at_everything(&self) {
        self.signals.routes_changed();
        self.signals.claimable(ClaimableRoutes::Any);
        self.signals.wake_promotion();
        self.signals.events_pending();
        self.signals.schedules_changed();
        self.signals.leadership_released();
        self.hints.receive_many();
    }
}
