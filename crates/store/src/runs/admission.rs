//! Who gets a slot of a concurrency limit: decided for many runs at once, under the locks of everything they share.
//!
//! The locks are taken once and in order of id, pools among them, so that units side by side never wait for each other in
//! a circle.

use std::collections::BTreeMap;

use mainspring_core::workflow::Overlap;

use crate::db::Tx;
use crate::error::{Error, Result};
use crate::runs::create::NewRun;
use crate::{postgres, sqlite};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    Queued,
    Refused,
}

/// A limit whose lock is held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) capacity: Option<i32>,
    pub(crate) held: i32,
    pub(crate) queued: i64,
}

impl Slots {
    /// What becomes of a run that comes now, which counts from now on.
    fn admit(&mut self, overlap: Overlap, max_queued: Option<u32>) -> Admission {
        let is_free = self.capacity.is_none_or(|capacity| self.held < capacity) && self.queued == 0;
        if is_free || overlap == Overlap::Allow {
            self.held += 1;
            return Admission::Admitted;
        }
        if overlap == Overlap::Skip || max_queued.is_some_and(|max| self.queued >= i64::from(max)) {
            return Admission::Refused;
        }
        self.queued += 1;
        Admission::Queued
    }
}

/// Locks every limit and pool that these runs share with others.
pub(crate) async fn lock(tx: &mut Tx, runs: &[&NewRun]) -> Result<()> {
    let shared = runs.iter().flat_map(|run| run.limit.iter().chain(&run.version.pools)).copied();
    let shared = sorted(shared);
    match tx {
        Tx::Postgres(tx) if !shared.is_empty() => postgres::limits::lock(tx, &shared).await,
        // There is one writer.
        _ => Ok(()),
    }
}

/// Takes slots for these runs, one after the other; what becomes of each, in order. Those without a limit need none.
pub(crate) async fn admit(tx: &mut Tx, runs: &[&NewRun]) -> Result<Vec<Admission>> {
    let limits = sorted(runs.iter().filter_map(|run| run.limit));
    if limits.is_empty() {
        return Ok(vec![Admission::Admitted; runs.len()]);
    }
    let mut slots: BTreeMap<i32, Slots> = match tx {
        Tx::Postgres(tx) => postgres::limits::slots(tx, &limits).await?,
        Tx::Sqlite(tx) => sqlite::limits::slots(tx, &limits).await?,
    };
    let before = slots.clone();
    let mut admissions = Vec::with_capacity(runs.len());
    for run in runs {
        let Some(limit) = run.limit else {
            admissions.push(Admission::Admitted);
            continue;
        };
        let slots = slots.get_mut(&limit).ok_or_else(|| Error::Conflict(format!("limit {limit} is gone")))?;
        let overlap = run.overlap().ok_or_else(|| Error::Conflict("a limit without concurrency".into()))?;
        let max_queued = run.version.concurrency.as_ref().and_then(|concurrency| concurrency.max_queued);
        admissions.push(slots.admit(overlap, max_queued));
    }
    let taken: Vec<(i32, i32)> = slots
        .iter()
        .map(|(limit, slots)| (*limit, slots.held - before[limit].held))
        .filter(|(_, taken)| *taken > 0)
        .collect();
    if !taken.is_empty() {
        match tx {
            Tx::Postgres(tx) => postgres::limits::take(tx, &taken).await?,
            Tx::Sqlite(tx) => sqlite::limits::take(tx, &taken).await?,
        }
    }
    Ok(admissions)
}

fn sorted(limits: impl Iterator<Item = i32>) -> Vec<i32> {
    let mut limits: Vec<i32> = limits.collect();
    limits.sort_unstable();
    limits.dedup();
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_to_who_comes_first() {
        use Admission::{Admitted, Queued, Refused};
        use Overlap::{Allow, CancelRunning, Queue, Skip};
        let check = |capacity, held, queued, comes: &[(Overlap, Option<u32>)], expected: &[Admission]| {
            let mut slots = Slots { capacity, held, queued };
            let found: Vec<Admission> = comes.iter().map(|(overlap, max)| slots.admit(*overlap, *max)).collect();
            assert_eq!(found, expected, "{capacity:?} {held} {queued} {comes:?}");
        };
        check(Some(1), 0, 0, &[(Queue, None), (Queue, None), (Queue, Some(1))], &[Admitted, Queued, Refused]);
        check(Some(2), 1, 0, &[(Skip, None), (Skip, None)], &[Admitted, Refused]);
        check(Some(2), 0, 1, &[(Queue, None), (Skip, None)], &[Queued, Refused]);
        check(
            Some(1),
            1,
            1,
            &[(Allow, None), (CancelRunning, Some(2)), (Queue, Some(2))],
            &[Admitted, Queued, Refused],
        );
        check(None, 7, 0, &[(Skip, None), (Queue, Some(0))], &[Admitted, Admitted]);
        check(Some(0), 0, 0, &[(Queue, Some(0)), (Queue, None)], &[Refused, Queued]);
    }
}
