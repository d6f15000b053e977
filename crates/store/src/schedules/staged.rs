//! Fires in two steps: a unit is staged, which does all but the commit, and becomes true when it is committed.
//!
//! Until then no reader sees it, and dropping it changes nothing. Meanwhile others wait for its triggers, or to write at
//! all where [`FirePolicy::writes_alone`].

use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_core::Micros;

use crate::cluster::terms::Term;
use crate::db::{Db, Store, Tx};
use crate::error::Result;
use crate::postgres;
use crate::postgres::transaction::PgTx;
use crate::runs::create::Created;
use crate::schedules::fire_unit::{PlainUnit, fire_within};
use crate::schedules::fires::{Fired, Firing};

/// Where all who write wait for each other, a staged unit is committed or dropped within this time.
const LONGEST_WAIT_ALONE: Duration = Duration::from_secs(1);
/// Elsewhere the database itself ends a transaction that is idle for this long (`PgTx::begin_brief_on`).
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// How far ahead fires may be staged on this database, and how many.
#[derive(Debug, Clone, Copy)]
pub struct FirePolicy {
    /// How many units are staged side by side.
    pub units: usize,
    /// Whether all who write wait for a staged unit.
    pub writes_alone: bool,
    /// How long a staged unit may wait for its commit.
    pub longest_wait: Duration,
}

impl FirePolicy {
    /// Whether a firing may be staged before its time: where others can write meanwhile it must lock nothing but its
    /// trigger; where no other writer can, slots may be taken as well, because none could be given back.
    pub fn stages(&self, firing: &Firing) -> bool {
        if self.writes_alone { firing.goes_in_bulk() } else { firing.is_plain() }
    }
}

/// What became of staging a unit.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one value per unit of fires, never stored")]
pub enum Staged {
    Ready(StagedFires),
    /// A trigger has changed: nothing was done.
    Stale,
    /// Another leads: nothing was done.
    Deposed,
}

/// A unit of fires that wants nothing but its commit. Dropped without one, it is rolled back.
#[must_use = "a unit that is dropped is rolled back"]
pub struct StagedFires {
    store: Store,
    tx: Tx,
    created: Vec<Created>,
}

impl std::fmt::Debug for StagedFires {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StagedFires").field("created", &self.created).finish_non_exhaustive()
    }
}

#[boxed]
impl StagedFires {
    /// Makes it true; what became of its runs, in order.
    pub async fn commit(self) -> Result<Vec<Created>> {
        match (self.tx, &*self.store.db) {
            (Tx::Postgres(tx), Db::Postgres(pg)) => pg.warm.keep(tx.commit_keeping().await?),
            (tx, _) => tx.commit().await?,
        }
        Ok(self.created)
    }
}

#[boxed]
impl Store {
    pub fn fire_policy(&self) -> FirePolicy {
        match &*self.db {
            Db::Postgres(pg) => {
                FirePolicy { units: pg.warm.size().max(1), writes_alone: false, longest_wait: LONGEST_WAIT }
            }
            Db::Sqlite(_) => FirePolicy { units: 1, writes_alone: true, longest_wait: LONGEST_WAIT_ALONE },
        }
    }

    /// Stages fires, all of them or none, as the leader of this term. `now` is when the runs are made, `at` the time of day
    /// that the clock went by.
    pub async fn stage_fires(&self, now: Micros, at: Micros, term: &Term, firings: &[Firing]) -> Result<Staged> {
        let mut tx = match &*self.db {
            Db::Postgres(pg) => Tx::Postgres(PgTx::begin_brief_on(pg.warm.take(&pg.pool).await?).await?),
            Db::Sqlite(_) => self.begin().await?,
        };
        let plain = PlainUnit::of(now, firings);
        let fired = match (&mut tx, &plain) {
            (Tx::Postgres(tx), Some(unit)) => postgres::fires::make(tx, now, at, term, unit).await?,
            (tx, _) => fire_within(tx, now, at, term, firings).await?,
        };
        let refused = match fired {
            Fired::Done(created) => return Ok(Staged::Ready(StagedFires { store: self.clone(), tx, created })),
            Fired::Stale => Staged::Stale,
            Fired::Deposed => Staged::Deposed,
        };
        if let (Tx::Postgres(tx), Db::Postgres(pg)) = (tx, &*self.db) {
            pg.warm.keep(tx.roll_back().await?);
        }
        Ok(refused)
    }

    /// Fires triggers at once, all of them or none.
    pub async fn fire(&self, now: Micros, at: Micros, term: &Term, firings: &[Firing]) -> Result<Fired> {
        Ok(match self.stage_fires(now, at, term, firings).await? {
            Staged::Ready(staged) => Fired::Done(staged.commit().await?),
            Staged::Stale => Fired::Stale,
            Staged::Deposed => Fired::Deposed,
        })
    }
}
