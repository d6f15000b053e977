//! How long the beats of other processes have stood still, as this node measured it.
//!
//! Deadness is a mark, never a time: each node measures with its own monotonic clock, and only while it can read the store.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Measures how long each beat has stood still.
#[derive(Debug)]
pub(crate) struct StandstillTimer<K> {
    seen: HashMap<K, (i64, Duration)>,
    looked: Option<Instant>,
}

impl<K> Default for StandstillTimer<K> {
    fn default() -> Self {
        Self { seen: HashMap::new(), looked: None }
    }
}

impl<K: Eq + Hash> StandstillTimer<K> {
    /// Begins a pass, and returns the time that it adds. Time without a pass adds next to nothing: a member may have
    /// been cut off from the store just like this node, and must get the chance to beat again.
    pub(crate) fn look(&mut self, now: Instant, pace: Duration) -> Duration {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |last| now.duration_since(last));
        since.min(pace * 3 / 2)
    }

    /// Notes a beat, and returns how long it has stood still.
    pub(crate) fn note(&mut self, key: K, beat: i64, passed: Duration) -> Duration {
        match self.seen.get_mut(&key) {
            Some(entry) if entry.0 == beat => {
                entry.1 += passed;
                entry.1
            }
            _ => {
                self.seen.insert(key, (beat, Duration::ZERO));
                Duration::ZERO
            }
        }
    }

    /// Forgets the keys that no longer exist.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        self.seen.retain(|key, _| is_there(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_look_does_not_count() {
        let pace = Duration::from_secs(1);
        let start = Instant::now();
        let mut standing = StandstillTimer::default();
        let mut stood = |second: u64, beat: i64| {
            let passed = standing.look(start + Duration::from_secs(second), pace);
            standing.note(7, beat, passed).as_millis()
        };
        assert_eq!(stood(0, 1), 0);
        assert_eq!(stood(1, 1), 1_000);
        assert_eq!(stood(60, 1), 2_500, "the store was away for a minute, and so it was for the others");
        assert_eq!(stood(61, 2), 0);
        assert_eq!(stood(62, 2), 1_000);
        assert_eq!(stood(63, 2), 2_000);
    }
}
