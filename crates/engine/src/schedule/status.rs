//! The status of the clock loop.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mainspring_core::Micros;

/// A clock that is behind by less than this was not set back.
const NOTABLE: Micros = 2_000_000;
/// Lags are counted by the millisecond up to here.
const LAGS: usize = 4_096;

/// The counters of the loop.
#[derive(Debug)]
pub(crate) struct Timekeeping {
    pub(crate) leads: AtomicBool,
    turns: AtomicU64,
    busy_us: AtomicU64,
    fired: AtomicU64,
    made_ahead: AtomicU64,
    behind_us: AtomicI64,
    lags: Mutex<Vec<u64>>,
}

/// The status of the clock loop on this node.
#[derive(Debug, Clone)]
pub struct TimekeepingStatus {
    pub leads: bool,
    /// How many passes it made.
    pub turns: u64,
    /// How long the passes took in total.
    pub busy: Duration,
    /// How many nominal instants it settled with a fire.
    pub fired: u64,
    /// How many triggers were prepared before they were due, so that only the commit was left.
    pub made_ahead: u64,
    /// The machine's clock was set back: nothing fires for this long.
    pub behind: Option<Duration>,
    /// Fires by lateness in milliseconds; the last counter has all later ones.
    pub lags: Vec<u64>,
}

impl Default for Timekeeping {
    fn default() -> Self {
        Self {
            leads: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            busy_us: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            made_ahead: AtomicU64::new(0),
            behind_us: AtomicI64::new(0),
            lags: Mutex::new(vec![0; LAGS]),
        }
    }
}

impl Timekeeping {
    pub(crate) fn status(&self) -> TimekeepingStatus {
        let behind = self.behind_us.load(Ordering::Relaxed);
        TimekeepingStatus {
            leads: self.leads.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            busy: Duration::from_micros(self.busy_us.load(Ordering::Relaxed)),
            fired: self.fired.load(Ordering::Relaxed),
            made_ahead: self.made_ahead.load(Ordering::Relaxed),
            behind: (behind > 0).then(|| Duration::from_micros(behind as u64)),
            lags: self.lags.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(crate) fn note_turn(&self, took: Duration) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.busy_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_made_ahead(&self, triggers: usize) {
        self.made_ahead.fetch_add(triggers as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_fires(&self, late: impl Iterator<Item = Micros>) {
        let mut lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner);
        for late in late {
            let at = usize::try_from(late / 1_000).unwrap_or(0).min(LAGS - 1);
            lags[at] += 1;
            self.fired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes how far the clock is behind the settled time; logged once per setback.
    pub(crate) fn note_behind(&self, behind: Micros) {
        let behind = if behind > NOTABLE { behind } else { 0 };
        let before = self.behind_us.swap(behind, Ordering::Relaxed);
        if behind > 0 && before == 0 {
            let seconds = behind / 1_000_000;
            tracing::warn!(seconds, "the clock was set back: schedules wait until it has caught up");
        } else if behind == 0 && before > 0 {
            tracing::info!("the clock has caught up: schedules go on");
        }
    }
}
