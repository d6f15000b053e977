//! How steadily etcd answers this node. Only a node in steady contact may conclude from an ended lease that its holder is
//! gone: an etcd that stood still ends the leases of all nodes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// How long an ended lease is remembered. After that the beats in the database show it too.
const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Contact {
    /// When the last answered renewal was sent.
    renewed: Option<Instant>,
    /// Since when renewals have been answered without a gap.
    steady_since: Option<Instant>,
    /// Members whose lease was seen to end, and when.
    ended: HashMap<Uuid, Instant>,
}

impl Contact {
    /// Notes that a renewal sent at this time was answered.
    pub(super) fn renewed(&mut self, sent: Instant, ttl: Duration) {
        let unbroken = self.renewed.is_some_and(|last| sent.saturating_duration_since(last) < ttl);
        if !unbroken || self.steady_since.is_none() {
            self.steady_since = Some(sent);
        }
        self.renewed = Some(sent);
        self.ended.retain(|_, ended| sent.saturating_duration_since(*ended) < REMEMBERED);
    }

    /// Whether any lease ended lately.
    pub(super) fn has_seen_ends(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Notes that this node's own lease ended or the watch broke off: nothing can be concluded from what it sees now.
    pub(super) fn interrupted(&mut self) {
        self.steady_since = None;
        self.renewed = None;
    }

    pub(super) fn ended(&mut self, node: Uuid, now: Instant) {
        self.ended.insert(node, now);
    }

    pub(super) fn came(&mut self, node: Uuid) {
        self.ended.remove(&node);
    }

    /// Whether a member is gone: its lease ended while this node was in steady contact for a whole lease, and contact
    /// was proven after it.
    pub(super) fn is_gone(&self, node: Uuid, ttl: Duration) -> bool {
        let (Some(ended), Some(renewed), Some(since)) = (self.ended.get(&node), self.renewed, self.steady_since) else {
            return false;
        };
        renewed > *ended && ended.saturating_duration_since(since) >= ttl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(3);

    fn steady(start: Instant, seconds: std::ops::Range<u64>) -> Contact {
        let mut contact = Contact::default();
        for second in seconds {
            contact.renewed(start + Duration::from_secs(second), TTL);
        }
        contact
    }

    #[test]
    fn a_lease_that_ends_during_steady_contact_means_gone() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let node = Uuid::from_u128(1);
        let mut contact = steady(start, 0..5);
        contact.ended(node, at(4) + Duration::from_millis(500));
        assert!(!contact.is_gone(node, TTL), "contact is not proven after it yet");
        contact.renewed(at(5), TTL);
        assert!(contact.is_gone(node, TTL));
        assert!(!contact.is_gone(Uuid::from_u128(2), TTL), "of others nothing was seen");
        contact.came(node);
        assert!(!contact.is_gone(node, TTL));
    }

    #[test]
    fn an_etcd_that_stood_still_proves_nothing() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let node = Uuid::from_u128(1);
        // etcd answered until the fifth second, stood still until the twentieth, and then ended every lease.
        let mut contact = steady(start, 0..5);
        contact.ended(node, at(20));
        contact.renewed(at(21), TTL);
        assert!(!contact.is_gone(node, TTL));
        // A node that has just started cannot tell either.
        let mut contact = steady(start, 0..2);
        contact.ended(node, at(1));
        contact.renewed(at(2), TTL);
        assert!(!contact.is_gone(node, TTL));
        // Neither can a node whose own lease ended.
        let mut contact = steady(start, 0..9);
        contact.ended(node, at(8));
        contact.interrupted();
        contact.renewed(at(9), TTL);
        assert!(!contact.is_gone(node, TTL));
    }
}
