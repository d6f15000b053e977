//! The unit that fires.
//!
//! A unit is a compare-and-swap of all its triggers, their rows in `fires` and the runs, under the leader's term: all of
//! it happens or nothing. A unit prepared from rows that have changed since is stale, and its caller looks again.

use std::collections::HashMap;

use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::cluster::terms::{self, Term};
use crate::db::{Tx, within};
use crate::error::Result;
use crate::runs::create::{self, Created, NewRun, RunSeed};
use crate::schedules::fires::{FireOf, Fired, Firing, NO_BACKFILL, NewFire};
use crate::schedules::trigger_sync::TriggerSeed;
use crate::{postgres, sqlite};

/// Firings of runs that lock nothing: what is written of them is known before.
pub(crate) struct PlainUnit<'u> {
    pub(crate) firings: &'u [Firing],
    pub(crate) runs: Vec<RunSeed>,
    pub(crate) fires: Vec<FireSeed>,
}

impl<'u> PlainUnit<'u> {
    pub(crate) fn of(now: Micros, firings: &'u [Firing]) -> Option<Self> {
        let all = || firings.iter().flat_map(|firing| firing.fires.iter().map(|fire| (firing.trigger, fire)));
        let runs: Vec<&NewRun> = all().filter_map(|(_, fire)| fire.run()).collect();
        if !runs.iter().all(|run| is_plain(run)) {
            return None;
        }
        let runs = runs.iter().map(|run| RunSeed::new(run, now, RunState::Running)).collect();
        let fires = all().map(|(trigger, fire)| FireSeed::of(trigger, NO_BACKFILL, fire)).collect();
        Some(Self { firings, runs, fires })
    }
}

pub(super) fn is_plain(run: &NewRun) -> bool {
    create::is_plain(run) && !run.takes_slots()
}

/// The columns of a row of `fires`.
#[derive(Debug, Clone)]
pub(crate) struct FireSeed {
    pub(crate) trigger: Uuid,
    pub(crate) nominal: Micros,
    pub(crate) backfill: Uuid,
    pub(crate) outcome: i16,
    pub(crate) until: Option<Micros>,
    pub(crate) count: i64,
    pub(crate) run: Option<RunId>,
    pub(crate) reason: Option<String>,
}

/// Fires a unit within a transaction; all of it is to be undone if it is not done.
pub(crate) async fn fire_within(
    tx: &mut Tx,
    now: Micros,
    at: Micros,
    term: &Term,
    firings: &[Firing],
) -> Result<Fired> {
    if !terms::hold(tx, term).await? {
        return Ok(Fired::Deposed);
    }
    let swapped = match tx {
        Tx::Postgres(tx) => postgres::fires::swap(tx, at, firings).await?,
        Tx::Sqlite(tx) => sqlite::fires::swap(tx, at, firings).await?,
    };
    if swapped != firings.len() as u64 {
        return Ok(Fired::Stale);
    }
    let of: Vec<(Uuid, &NewFire)> =
        firings.iter().flat_map(|firing| firing.fires.iter().map(|fire| (firing.trigger, fire))).collect();
    let created = make(tx, now, at, NO_BACKFILL, &of).await?;
    uncount_refused(tx, firings, &created).await?;
    Ok(Fired::Done(created))
}

/// Takes back what was counted of fires whose runs were refused. `created` is in the order of the runs.
async fn uncount_refused(tx: &mut Tx, firings: &[Firing], created: &[Created]) -> Result<()> {
    let mut created = created.iter();
    for firing in firings {
        let runs = firing.executions() as usize;
        let refused = created.by_ref().take(runs).filter(|created| **created == Created::Refused).count();
        if refused == 0 {
            continue;
        }
        let next = firing.next.or(firing.next_if_refused);
        within!(
            tx,
            sqlx::query("UPDATE triggers SET fired = fired - $2, next_nominal = $3, next_fire_at = $4 WHERE id = $1")
                .bind(firing.trigger)
                .bind(refused as i64)
                .bind(next.map(|next| next.nominal))
                .bind(next.map(|next| next.fire_at))
        );
    }
    Ok(())
}

/// Makes the runs of these fires and writes all of them down; what became of the runs, in order.
pub(crate) async fn make(
    tx: &mut Tx,
    now: Micros,
    at: Micros,
    backfill: Uuid,
    fires: &[(Uuid, &NewFire)],
) -> Result<Vec<Created>> {
    let wanted: Vec<&NewRun> = fires.iter().filter_map(|(_, fire)| fire.run()).collect();
    let created = create::create_all(tx, now, &wanted).await?;
    let refused: HashMap<RunId, &Created> =
        wanted.iter().map(|run| run.id).zip(&created).filter(|(_, created)| **created == Created::Refused).collect();
    let seeds: Vec<FireSeed> = fires
        .iter()
        .map(|(trigger, fire)| {
            let seed = FireSeed::of(*trigger, backfill, fire);
            match seed.run {
                Some(run) if refused.contains_key(&run) => FireSeed {
                    outcome: 1,
                    run: None,
                    reason: Some("earlier runs have used its limit up".into()),
                    ..seed
                },
                _ => seed,
            }
        })
        .collect();
    insert(tx, at, &seeds).await?;
    Ok(created)
}

impl FireSeed {
    fn of(trigger: Uuid, backfill: Uuid, fire: &NewFire) -> Self {
        let (outcome, until, count, run, reason) = match &fire.what {
            FireOf::Run(run) => (0, None, 1, Some(run.id), None),
            FireOf::Missed { until, count, reason } => (2, Some(*until), *count as i64, None, Some(reason.clone())),
            FireOf::BlackedOut { until } => (3, Some(*until), 1, None, None),
            FireOf::Failed(reason) => (4, None, 1, None, Some(reason.replace('\0', ""))),
        };
        Self { trigger, nominal: fire.nominal, backfill, outcome, until, count, run, reason }
    }
}

/// Writes down what starts no run.
pub(crate) async fn insert_without_runs(tx: &mut Tx, at: Micros, trigger: Uuid, fires: &[NewFire]) -> Result<()> {
    debug_assert!(fires.iter().all(NewFire::describes_no_run));
    let seeds: Vec<FireSeed> = fires.iter().map(|fire| FireSeed::of(trigger, NO_BACKFILL, fire)).collect();
    insert(tx, at, &seeds).await
}

async fn insert(tx: &mut Tx, at: Micros, seeds: &[FireSeed]) -> Result<()> {
    if seeds.is_empty() {
        return Ok(());
    }
    match tx {
        Tx::Postgres(tx) => postgres::fires::insert(tx, at, seeds).await,
        Tx::Sqlite(tx) => sqlite::fires::insert(tx, at, seeds).await,
    }
}

pub(crate) async fn insert_triggers(tx: &mut Tx, now: Micros, seeds: &[TriggerSeed]) -> Result<()> {
    if seeds.is_empty() {
        return Ok(());
    }
    match tx {
        Tx::Postgres(tx) => postgres::fires::insert_triggers(tx, now, seeds).await,
        Tx::Sqlite(tx) => sqlite::fires::insert_triggers(tx, now, seeds).await,
    }
}

/// Whether the clock has settled a nominal instant of a trigger.
pub(crate) async fn is_settled(tx: &mut Tx, trigger: Uuid, nominal: Micros) -> Result<bool> {
    let found: Option<(i64,)> = within!(tx, |conn| sqlx::query_as(
        "SELECT nominal_at FROM fires WHERE trigger_id = $1 AND nominal_at = $2 AND backfill = $3"
    )
    .bind(trigger)
    .bind(nominal)
    .bind(NO_BACKFILL)
    .fetch_optional(conn)
    .await?);
    Ok(found.is_some())
}
