//! Limits on subscribers and their messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::watch;

use crate::problem::Problem;

/// The operator's settings for live updates.
#[derive(Debug, Clone, Copy)]
pub struct LiveLimits {
    /// Connections that one token may hold open.
    pub connections_per_token: usize,
    pub connections: usize,
    /// Subscriptions of one WebSocket.
    pub subscriptions: usize,
    /// The largest message of a client, in bytes.
    pub message_bytes: usize,
    /// Messages of a client per second, with a burst of twice as many.
    pub messages_per_second: u32,
    pub ping_every: Duration,
    /// A client that is silent for this long, even to a ping, is disconnected.
    pub idle: Duration,
    /// A client that does not take a message within this time is disconnected.
    pub patience: Duration,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self {
            connections_per_token: 1_000,
            connections: 5_000,
            subscriptions: 100,
            message_bytes: 64 * 1024,
            messages_per_second: 20,
            ping_every: Duration::from_secs(20),
            idle: Duration::from_secs(60),
            patience: Duration::from_secs(10),
        }
    }
}

/// Open connections by token. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct Caps {
    limits: LiveLimits,
    open: Arc<Mutex<HashMap<String, usize>>>,
    closing: Arc<watch::Sender<bool>>,
}

/// One open connection; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Place {
    caps: Caps,
    actor: String,
}

impl Caps {
    pub(crate) fn new(limits: LiveLimits) -> Self {
        Self { limits, open: Arc::default(), closing: Arc::new(watch::channel(false).0) }
    }

    pub(crate) fn limits(&self) -> LiveLimits {
        self.limits
    }

    /// Counts a connection of this token.
    pub(crate) fn enter(&self, actor: &str) -> Result<Place, Problem> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let own = open.get(actor).copied().unwrap_or(0);
        if own >= self.limits.connections_per_token || all >= self.limits.connections {
            let detail = format!(
                "too many live connections are open ({own} of this token, at most {}; {all} in all, at most {}): close some, \
                 or follow several runs on one WebSocket",
                self.limits.connections_per_token, self.limits.connections
            );
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).of_kind("too-many-connections"));
        }
        *open.entry(actor.to_owned()).or_insert(0) += 1;
        Ok(Place { caps: self.clone(), actor: actor.to_owned() })
    }

    /// How many connections are open.
    #[cfg(test)]
    fn open(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Closes every connection, because the server stops.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Returns when the server stops.
    pub(crate) async fn closed(&self) {
        let mut closing = self.closing.subscribe();
        // The sender lives as long as these limits.
        let _ = closing.wait_for(|closing| *closing).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.caps.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.actor) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.actor);
            }
        }
    }
}

/// Counts the messages of one client: a rate per second, and twice as many in a burst.
#[derive(Debug)]
pub(super) struct Pace {
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Pace {
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second.max(1));
        Self { per_second, left: per_second * 2.0, at: now }
    }

    /// Whether another message is within the pace.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        let gained = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.left = (self.left + gained).min(self.per_second * 2.0);
        self.at = now;
        self.left -= 1.0;
        self.left >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_per_token_and_given_back() {
        let caps = Caps::new(LiveLimits { connections_per_token: 2, connections: 3, ..LiveLimits::default() });
        let first = caps.enter("a").unwrap();
        let _second = caps.enter("a").unwrap();
        assert_eq!(caps.enter("a").unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
        let _third = caps.enter("b").unwrap();
        assert!(caps.enter("c").is_err(), "in all");
        drop(first);
        assert_eq!(caps.open(), 2);
        caps.enter("a").unwrap();
    }

    #[test]
    fn a_pace_has_a_burst_and_recovers() {
        let start = Instant::now();
        let mut pace = Pace::new(10, start);
        assert_eq!((0..30).filter(|_| pace.allows(start)).count(), 20);
        let mut pace = Pace::new(10, start);
        (0..20).for_each(|_| _ = pace.allows(start));
        assert!(pace.allows(start + Duration::from_millis(150)));
        assert!(!pace.allows(start + Duration::from_millis(150)));
    }
}
