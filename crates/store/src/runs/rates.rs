//! How many task runs of a pool may start per period.
//!
//! A window begins with the first start after the one before is over, and a task run counts when it takes its slot. The
//! window is in the row of the pool and changes under the lock of its slots, so nothing that stops can exceed the rate.
//! What a window leaves out stays gated until [`Store::let_in_by_rate`] finds the window over.

use mainspring_boxed::boxed;
use mainspring_core::Micros;

use crate::cluster::terms::{self, Term};
use crate::db::{Store, read};
use crate::error::Result;
use crate::names::sql;
use crate::runs::limits::hand_on;

/// Units carry the time at which they began and may wait for each other: a clock is taken for set back only when a window
/// begins later than that by more than this.
pub(crate) const DISORDER: Micros = 60_000_000;

/// The rate of a pool, with the window that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolRate {
    /// How many task runs may start in a window.
    pub starts: i32,
    /// How long a window is.
    pub period: Micros,
    /// How many have started in the window.
    pub used: i32,
    /// `None` while no window is under way.
    pub window_began: Option<Micros>,
}

impl PoolRate {
    /// What the columns `rate`, `period`, `used` and `window_began` say.
    pub(crate) fn of(columns: (Option<i32>, Option<i64>, i32, Option<i64>)) -> Option<Self> {
        let (starts, period, used, window_began) = columns;
        Some(Self { starts: starts?, period: period?, used, window_began })
    }

    /// The rate as it is now: a window that is over counts nothing. After the clock was set back the window begins anew with
    /// what was used, so that the pool waits for one period and lets in no more than before.
    #[must_use]
    pub fn at(mut self, now: Micros) -> Self {
        if self.window_began.is_some_and(|began| now < began - self.period.max(DISORDER)) {
            self.window_began = Some(now);
        } else if self.window_ends().is_some_and(|end| now >= end) {
            (self.window_began, self.used) = (None, 0);
        }
        self
    }

    pub fn window_ends(&self) -> Option<Micros> {
        self.window_began.map(|began| began + self.period)
    }

    /// How many more may start in this window.
    pub fn left(&self) -> i32 {
        (self.starts - self.used).max(0)
    }

    pub(crate) fn take(&mut self, now: Micros, started: i32) {
        if started > 0 {
            self.used += started;
            self.window_began.get_or_insert(now);
        }
    }
}

/// What a pass over the pools with a rate found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RatePass {
    /// Whether task runs may have been let in.
    pub let_in: bool,
    /// Whether task runs still wait which a window would let in: there are too many for one unit, or they were locked.
    pub has_more: bool,
    /// When the next window ends.
    pub next_end: Option<Micros>,
}

#[derive(Debug, sqlx::FromRow)]
struct RatedPool {
    id: i32,
    capacity: Option<i32>,
    held: i32,
    rate: Option<i32>,
    period: Option<i64>,
    used: i32,
    window_began: Option<i64>,
    has_gated: bool,
}

impl RatedPool {
    fn rate(&self, now: Micros) -> Option<PoolRate> {
        PoolRate::of((self.rate, self.period, self.used, self.window_began)).map(|rate| rate.at(now))
    }

    /// Whether its unit would let something in, or would have to write down that the clock was set back.
    fn has_work(&self, now: Micros) -> bool {
        let has_slots = self.capacity.is_none_or(|capacity| self.held < capacity);
        let is_open = |rate: PoolRate| rate.left() > 0 || rate.window_began != self.window_began;
        has_slots && self.has_gated && self.rate(now).is_some_and(is_open)
    }
}

#[boxed]
impl Store {
    /// Lets in what waited for the end of a window, and says when the next window ends. For the leader.
    pub async fn let_in_by_rate(&self, now: Micros, term: &Term) -> Result<RatePass> {
        let mut pass = RatePass::default();
        let mut pools = self.rated_pools().await?;
        for pool in pools.iter().filter(|pool| pool.has_work(now)) {
            let mut tx = self.begin().await?;
            if !terms::hold(&mut tx, term).await? {
                return Ok(pass);
            }
            hand_on(&mut tx, now, &[], &[], &[pool.id]).await?;
            tx.commit().await?;
            pass.let_in = true;
        }
        if pass.let_in {
            pools = self.rated_pools().await?;
        }
        pass.has_more = pools.iter().any(|pool| pool.has_work(now));
        pass.next_end = pools.iter().filter_map(|pool| pool.rate(now)?.window_ends()).min();
        Ok(pass)
    }

    async fn rated_pools(&self) -> Result<Vec<RatedPool>> {
        Ok(read!(self, |conn| sqlx::query_as(sql!(
            "SELECT l.id, l.capacity, l.held, l.rate, l.period, l.used, l.window_began, \
             EXISTS (SELECT 1 FROM task_runs t WHERE t.state = {task.gated} AND t.pool = l.id) AS has_gated \
             FROM limits l WHERE l.rate IS NOT NULL ORDER BY l.id"
        ))
        .fetch_all(conn)
        .await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;
    const MINUTE: Micros = 60 * SECOND;

    #[test]
    fn a_window_begins_with_its_first_start_and_is_over_after_its_period() {
        let mut rate = PoolRate { starts: 2, period: SECOND, used: 0, window_began: None };
        rate.take(5, 0);
        assert_eq!(rate.window_began, None);
        rate.take(5, 1);
        rate.take(9, 1);
        assert_eq!((rate.left(), rate.window_ends()), (0, Some(5 + SECOND)));
        assert_eq!(rate.at(4 + SECOND), rate);
        let next = rate.at(5 + SECOND);
        assert_eq!((next.left(), next.window_ends()), (2, None));
    }

    #[test]
    fn a_clock_that_is_set_back_stops_a_pool_for_a_period_at_most() {
        let began = 10 * MINUTE;
        let rate = PoolRate { starts: 2, period: SECOND, used: 2, window_began: Some(began) };
        assert_eq!(rate.at(began - MINUTE), rate, "units may come out of order");
        let again = rate.at(began - MINUTE - 1);
        assert_eq!((again.left(), again.window_ends()), (0, Some(began - MINUTE - 1 + SECOND)));
        assert_eq!(again.at(began - MINUTE - 1 + SECOND).left(), 2);
    }
}
