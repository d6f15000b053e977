//! Rate limits: per address before authentication, per identity after it, and a low one for wrong credentials.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::address::counted;
use crate::problem::Problem;

/// Requests per second, with a burst of twice as many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub per_address: u32,
    pub per_identity: u32,
    /// Wrong credentials, per address and minute.
    pub failures_per_minute: u32,
}

impl Default for Rates {
    fn default() -> Self {
        // High enough for busy producers; the limits protect the process.
        Self { per_address: 20_000, per_identity: 20_000, failures_per_minute: 60 }
    }
}

#[derive(Debug)]
pub(crate) struct Limits {
    addresses: DefaultKeyedRateLimiter<IpAddr>,
    identities: DefaultKeyedRateLimiter<String>,
    failures: DefaultKeyedRateLimiter<IpAddr>,
    clock: DefaultClock,
}

impl Limits {
    pub(crate) fn new(rates: Rates) -> Self {
        let number = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let per_second = |rate: u32| Quota::per_second(number(rate)).allow_burst(number(rate.saturating_mul(2)));
        Self {
            addresses: RateLimiter::dashmap(per_second(rates.per_address)),
            identities: RateLimiter::dashmap(per_second(rates.per_identity)),
            failures: RateLimiter::dashmap(Quota::per_minute(number(rates.failures_per_minute))),
            clock: DefaultClock::default(),
        }
    }

    pub(crate) fn address(&self, address: IpAddr) -> Result<(), Problem> {
        self.check(&self.addresses, &counted(address))
    }

    pub(crate) fn identity(&self, actor: &str) -> Result<(), Problem> {
        self.check(&self.identities, &actor.to_owned())
    }

    pub(crate) fn failure(&self, address: IpAddr) -> Result<(), Problem> {
        self.check(&self.failures, &counted(address))
    }

    /// Removes entries that were not used for long.
    pub(crate) fn tidy(&self) {
        self.addresses.retain_recent();
        self.identities.retain_recent();
        self.failures.retain_recent();
    }

    fn check<K: Hash + Eq + Clone>(&self, limiter: &DefaultKeyedRateLimiter<K>, key: &K) -> Result<(), Problem> {
        limiter.check_key(key).map_err(|not_until| {
            let wait = not_until.wait_time_from(self.clock.now());
            Problem::too_many(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
        })
    }
}
