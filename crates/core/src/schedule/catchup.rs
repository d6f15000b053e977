//! Which fires are made up for after a time without fires: an outage, or a pause that ends.

use crate::Micros;
use crate::workflow::{Catchup, CatchupPolicy};

use super::timetable::{Due, Fire, Schedule};

/// How many fires of `all` are made up for unless the trigger says so.
pub const DEFAULT_CATCHUP_MAX: u32 = 100;
/// However much is asked for, no more are made up for at once.
pub const MOST_CATCHUP: u32 = 100_000;
/// Missed fires are counted up to here.
pub const MOST_COUNTED: u64 = 100_000;

/// Fires that were due and will not be made up for, all between the first and the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    pub first: Micros,
    pub last: Micros,
    /// At most [`MOST_COUNTED`].
    pub count: u64,
    /// Whether there were no more than `count`.
    pub exact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatchupFires {
    /// In the order of their nominal instants; never more than the bound. The schedule goes on after the last nominal
    /// instant of these or of `missed`, not after `now`: a fire that was moved may lie between. One whose jitter has not passed yet is still
    /// to come: its `fire_at` is after `now`.
    pub fire: Vec<Fire>,
    pub missed: Option<Missed>,
}

impl Schedule {
    /// Sorts what fell due after `since` and up to `now` into what is made up for and what is not.
    ///
    /// `none` makes up for nothing, `latest` for the last one, `all` for the last `max` (100 unless given, never more
    /// than 100,000); none of them for what is older than the window or more than `max_executions` leaves. Fires on
    /// closed days are neither owed nor missed. A trigger that fires once is owed whenever it has not fired, also if
    /// its instant lies before `since`.
    ///
    /// Without a policy it is `latest`: one run after an outage, however long it was.
    pub fn owed(&self, since: Micros, fired_so_far: u64, now: Micros, catchup: Option<Catchup>) -> CatchupFires {
        let catchup = catchup.unwrap_or(Catchup { policy: CatchupPolicy::Latest, window_ms: None, max: None });
        let left = self.max_executions.map_or(u64::MAX, |most| most.saturating_sub(fired_so_far));
        let since = match self.once() {
            Some(_) if fired_so_far > 0 => return CatchupFires::default(),
            Some(at) => since.min(at.saturating_sub(1)),
            None => since,
        };
        if left == 0 || since >= now {
            return CatchupFires::default();
        }
        let (most, oldest) = match catchup.policy {
            // What only its jitter holds back is not late.
            CatchupPolicy::None => (MOST_CATCHUP, Some(self.jitter_ms)),
            CatchupPolicy::Latest => (1, catchup.window_ms),
            CatchupPolicy::All => (catchup.max.unwrap_or(DEFAULT_CATCHUP_MAX).min(MOST_CATCHUP), catchup.window_ms),
        };
        let oldest = oldest.map_or(since, |ms| since.max(now.saturating_sub(micros(ms))));
        let most = usize::try_from(left.min(u64::from(most))).unwrap_or(usize::MAX);
        let mut fire: Vec<Fire> = self.latest(oldest, now, most).into_iter().map(|due| self.fire(due)).collect();
        if catchup.policy == CatchupPolicy::None {
            let pending = fire.iter().position(|fire| fire.fire_at > now).unwrap_or(fire.len());
            fire.drain(..pending);
        }
        let until = fire.first().map_or(Micros::MAX, |fire| fire.nominal);
        let missed = self.missed(since, now, until);
        CatchupFires { fire, missed }
    }

    /// The last `most` that fell due after `since` and up to `now`, in order.
    fn latest(&self, since: Micros, now: Micros, most: usize) -> Vec<Due> {
        let mut found = Vec::new();
        let mut below = Micros::MAX;
        let mut distance = 1_000_000;
        while found.len() < most {
            let Some(due) = self.last_before(since, now, below, distance) else { break };
            // Fires come at even distances more often than not, so the next search begins with the last distance.
            if below != Micros::MAX {
                distance = (below - due.nominal).max(1);
            }
            below = due.nominal;
            found.push(due);
        }
        found.reverse();
        found
    }

    /// The last with a nominal instant before `below`. No walk backwards through a calendar is needed: the
    /// next fire after an instant only grows with the instant, so a search by halves finds where it passes the end.
    fn last_before(&self, since: Micros, now: Micros, below: Micros, distance: Micros) -> Option<Due> {
        let fits = |after: Micros| self.due_after(after).filter(|due| due.at <= now && due.nominal < below);
        let top = now.min(below.saturating_sub(1));
        let (mut low, mut high) = (since, top.max(since));
        let mut reach = distance;
        while high.saturating_sub(low) > reach {
            let probe = top.saturating_sub(reach).max(since);
            if fits(probe).is_some() {
                low = probe;
                break;
            }
            high = probe;
            reach = reach.saturating_mul(2);
        }
        let mut found = fits(low)?;
        while found.nominal < high {
            // Whatever fits lies after `found`, so the search may go on from there.
            let Some(next) = fits(found.nominal) else { break };
            found = next;
            let middle = found.nominal + (high - found.nominal) / 2;
            match fits(middle) {
                Some(later) => found = later,
                None => high = middle,
            }
        }
        Some(found)
    }

    /// What fell due after `since` and up to `now`, with a nominal instant before `until`.
    fn missed(&self, since: Micros, now: Micros, until: Micros) -> Option<Missed> {
        let fits = |after: Micros| self.due_after(after).filter(|due| due.at <= now && due.nominal < until);
        let first = fits(since)?.nominal;
        let (mut count, mut last, mut exact) = (1, first, true);
        while let Some(due) = fits(last) {
            if count == MOST_COUNTED {
                exact = false;
                break;
            }
            count += 1;
            last = due.nominal;
        }
        if !exact {
            last = self.last_before(last, now, until, 1_000_000).map_or(last, |due| due.nominal);
        }
        Some(Missed { first, last, count, exact })
    }
}

fn micros(ms: u64) -> Micros {
    Micros::try_from(ms).unwrap_or(Micros::MAX).saturating_mul(1_000)
}
