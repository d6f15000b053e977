//! The schedule of a full scan: not before its interval, and for at most a fiftieth of the time. A scan of all open
//! work takes longer the more work is queued, which is when the database has the least time for it.

use std::time::{Duration, Instant};

/// The share of the time that a scan may take, as its inverse.
const SHARE: u32 = 50;

#[derive(Debug)]
pub(crate) struct PeriodicScan {
    every: Duration,
    next: Instant,
}

impl PeriodicScan {
    /// The first scan is due after `delay`.
    pub(crate) fn new(every: Duration, delay: Duration, now: Instant) -> Self {
        Self { every, next: now + delay }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// The time until the next scan.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// Notes how long a scan took.
    pub(crate) fn scanned(&mut self, began: Instant, now: Instant) {
        self.next = now + self.every.max((now - began) * SHARE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_that_takes_long_is_made_less_often() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut scan = PeriodicScan::new(15 * second, second, start);
        assert!(!scan.is_due(start) && scan.is_due(start + second));
        scan.scanned(start + second, start + second + second / 10);
        assert_eq!(scan.wait(start + second + second / 10), 15 * second);
        scan.scanned(start, start + 2 * second);
        assert_eq!(scan.wait(start + 2 * second), 100 * second);
        assert!(!scan.is_due(start + 101 * second) && scan.is_due(start + 102 * second));
    }
}
