//! One measured floor and its JSON line.

use std::time::Duration;

/// Singles are slow enough that fewer of them give a steady median.
pub(crate) const COMMITS: usize = 1_000;

/// How long a client rests between two commits that are paced.
pub(crate) const PACE: Duration = Duration::from_millis(20);
pub(crate) const PACED_COMMITS: usize = 300;
/// Clients of `commit_clients`, and how many rows they commit together.
pub(crate) const CLIENTS: usize = 32;
pub(crate) const CLIENT_COMMITS: usize = 10_000;

pub(crate) struct Measurement {
    pub(crate) floor: &'static str,
    pub(crate) database: &'static str,
    pub(crate) n: usize,
    pub(crate) elapsed: Duration,
    /// The median of single operations; otherwise the mean is printed.
    pub(crate) median: Option<Duration>,
}

impl Measurement {
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let seconds = self.elapsed.as_secs_f64();
        let ms = self.median.map_or(seconds * 1e3 / self.n as f64, |median| median.as_secs_f64() * 1e3);
        serde_json::json!({
            "floor": self.floor,
            "database": self.database,
            "n": self.n,
            "seconds": seconds,
            "rate": self.n as f64 / seconds,
            "ms": ms,
        })
    }
}

pub(crate) fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}
