//! Messages that wait to be sent to other processes, merged: many messages of one kind become one line.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::message::{AccessChange, BusMessage, ClaimableRoutes};

/// More changes of access data than this are sent as "everything of that kind".
const MOST_ACCESS_CHANGES: usize = 50;

/// Merged messages that wait to be sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) claimable: Option<ClaimableRoutes>,
    pub(crate) routes: bool,
    pub(crate) schedules: bool,
    pub(crate) events: bool,
    pub(crate) cancel: Option<CancelledSessions>,
    pub(crate) access: BTreeSet<AccessChange>,
    pub(crate) leadership: bool,
    pub(crate) run_changes_wanted: bool,
}

/// Sessions that have attempts to stop; `None` means any session.
pub(crate) type CancelledSessions = Option<BTreeSet<i64>>;

impl Pending {
    fn add(&mut self, message: &BusMessage) {
        match message {
            BusMessage::Claimable(routes) => match &mut self.claimable {
                Some(pending) => pending.add(routes.clone()),
                None => self.claimable = Some(routes.clone()),
            },
            BusMessage::RoutesChanged => self.routes = true,
            BusMessage::SchedulesChanged => self.schedules = true,
            BusMessage::EventsPending => self.events = true,
            // Changes of runs have a bounded queue of their own: see `live::Hints`.
            BusMessage::RunsChanged(_) => {}
            BusMessage::CancelRequested(sessions) => {
                let known = (!sessions.is_empty()).then(|| sessions.iter().copied().collect::<BTreeSet<_>>());
                self.cancel = Some(match (self.cancel.take(), known) {
                    (Some(Some(mut before)), Some(more)) => {
                        before.extend(more);
                        Some(before)
                    }
                    (None, known) => known,
                    _ => None,
                });
            }
            BusMessage::AccessChanged(change) => {
                if self.access.len() >= MOST_ACCESS_CHANGES {
                    self.access.retain(|known| known.namespace.is_none());
                    self.access.insert(AccessChange { namespace: None, ..change.clone() });
                } else {
                    self.access.insert(change.clone());
                }
            }
            BusMessage::LeadershipReleased => self.leadership = true,
            BusMessage::RunChangesWanted => self.run_changes_wanted = true,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pending: Mutex<Pending>,
    added: Notify,
}

impl Outbox {
    pub(crate) fn add(&self, message: &BusMessage) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).add(message);
        self.added.notify_one();
    }

    pub(crate) fn take(&self) -> Pending {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::AccessKind;

    #[test]
    fn messages_of_one_kind_become_one() {
        let outbox = Outbox::default();
        for route in 0..100 {
            outbox.add(&BusMessage::Claimable(ClaimableRoutes::These([route].into())));
        }
        outbox.add(&BusMessage::CancelRequested(vec![3]));
        outbox.add(&BusMessage::CancelRequested(vec![4]));
        let pending = outbox.take();
        assert_eq!(pending.claimable, Some(ClaimableRoutes::These((0..100).collect())));
        assert_eq!(pending.cancel, Some(Some([3, 4].into())));
        assert!(outbox.take().is_empty());
    }

    #[test]
    fn an_unknown_place_stands_for_every_place() {
        let outbox = Outbox::default();
        outbox.add(&BusMessage::Claimable(ClaimableRoutes::These([1].into())));
        outbox.add(&BusMessage::Claimable(ClaimableRoutes::Any));
        outbox.add(&BusMessage::CancelRequested(vec![3]));
        outbox.add(&BusMessage::CancelRequested(Vec::new()));
        outbox.add(&BusMessage::CancelRequested(vec![4]));
        let pending = outbox.take();
        assert_eq!(pending.claimable, Some(ClaimableRoutes::Any));
        assert_eq!(pending.cancel, Some(None));
    }

    #[test]
    fn a_flood_of_access_changes_names_no_namespaces() {
        let outbox = Outbox::default();
        for number in 0..1_000 {
            let namespace = Some(format!("n{number}"));
            outbox.add(&BusMessage::AccessChanged(AccessChange { kind: AccessKind::Secrets, namespace }));
        }
        let pending = outbox.take();
        assert!(pending.access.len() <= MOST_ACCESS_CHANGES);
        assert!(pending.access.contains(&AccessChange { kind: AccessKind::Secrets, namespace: None }));
    }
}
