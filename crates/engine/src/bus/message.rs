//! The messages of the bus.

use std::collections::BTreeSet;
use std::str::FromStr;

use mainspring_core::RunId;
use tokio::sync::broadcast;

/// A change that other loops may need to know. A message is a reason to look, never a fact to rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BusMessage {
    /// Task runs may have become claimable.
    Claimable(ClaimableRoutes),
    /// There may be routes that a node has not read.
    RoutesChanged,
    /// Triggers were added, changed, paused or resumed.
    SchedulesChanged,
    /// Events are stored, or runs with followers have ended, and the leader has not handled them.
    EventsPending,
    /// These runs have a new number in their log, or a new state.
    RunsChanged(Vec<RunId>),
    /// Attempts of these sessions are to be stopped. An empty list means any session.
    CancelRequested(Vec<i64>),
    /// Caches of tokens, roles, workflows, quotas or secrets are out of date.
    AccessChanged(AccessChange),
    /// The leader gave up its term: another node may take it at once.
    LeadershipReleased,
    /// A process has live subscribers and wants [`BusMessage::RunsChanged`] of other processes for a while.
    RunChangesWanted,
}

/// Where something may be claimable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimableRoutes {
    Any,
    These(BTreeSet<i32>),
}

impl ClaimableRoutes {
    pub(crate) fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::These(routes), Self::These(more)) => routes.extend(more),
            _ => *self = Self::Any,
        }
    }
}

/// What a cache held that may have changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessChange {
    pub kind: AccessKind,
    /// The namespace; `None` means every namespace.
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    Tokens,
    Roles,
    Workflows,
    Quotas,
    Secrets,
}

impl AccessKind {
    pub(crate) const ALL: [(Self, &'static str); 5] = [
        (Self::Tokens, "tokens"),
        (Self::Roles, "roles"),
        (Self::Workflows, "workflows"),
        (Self::Quotas, "quotas"),
        (Self::Secrets, "secrets"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for AccessKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or(())
    }
}

/// Changes of access data, of this process and of others. A receiver that lagged must drop its whole cache.
pub type AccessChanges = broadcast::Receiver<AccessChange>;
