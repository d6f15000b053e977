//! Firing many triggers with a few statements over lists of values.

use mainspring_core::Micros;

use super::SqliteTx;
use super::bulk::{Bulk, Values};
use crate::error::Result;
use crate::schedules::fire_unit::FireSeed;
use crate::schedules::fires::Firing;
use crate::schedules::trigger_sync::TriggerSeed;

pub(super) static SWAP: Bulk = Bulk::new(
    "WITH v(id, revision, expected, covered, next_nominal, next_fire, added, at) AS (VALUES ",
    8,
    ") UPDATE OR ROLLBACK triggers SET covered_at = v.covered, next_nominal = v.next_nominal, next_fire_at = v.next_fire, fired = fired + v.added, \
       last_fire_at = CASE WHEN v.added > 0 THEN v.at ELSE last_fire_at END, problem = NULL \
     FROM v WHERE triggers.id = v.id AND triggers.revision = v.revision AND triggers.next_fire_at = v.expected AND NOT paused AND present AND active",
);

pub(super) static FIRES: Bulk = Bulk::new(
    "WITH v(trigger_id, nominal, backfill, outcome, until, count, run, reason, at) AS (VALUES ",
    9,
    ") INSERT OR ROLLBACK INTO fires (trigger_id, nominal_at, backfill, outcome, until_at, count, run_id, reason, fired_at) \
     SELECT trigger_id, nominal, backfill, outcome, until, count, run, reason, at FROM v WHERE v.trigger_id IS NOT NULL",
);

pub(super) static TRIGGERS: Bulk = Bulk::new(
    "WITH v(id, workflow, namespace, name, kind, listens, calendar, spec, active, anchor, covered, next_nominal, next_fire, fired, now) AS (VALUES ",
    15,
    ") INSERT INTO triggers (id, workflow_id, namespace, name, kind, listens, calendar, spec, active, anchor_at, covered_at, next_nominal, \
       next_fire_at, fired, created_at, updated_at) \
     SELECT id, workflow, namespace, name, kind, listens, calendar, spec, active, anchor, covered, next_nominal, next_fire, fired, now, now \
     FROM v WHERE v.id IS NOT NULL",
);

/// Moves every trigger that is still as it was seen; returns how many were.
pub(crate) async fn swap(tx: &mut SqliteTx, at: Micros, firings: &[Firing]) -> Result<u64> {
    let row = |firing: &Firing, values: &mut Values| {
        values.add(firing.trigger).add(firing.revision).add(firing.next_fire_at).add(firing.covered);
        values.add(firing.next.map(|next| next.nominal)).add(firing.next.map(|next| next.fire_at));
        values.add(firing.executions()).add(at);
    };
    SWAP.execute_with(tx, |_| (), firings, row).await
}

pub(crate) async fn insert(tx: &mut SqliteTx, at: Micros, seeds: &[FireSeed]) -> Result<()> {
    let row = |seed: &FireSeed, values: &mut Values| {
        values.add(seed.trigger).add(seed.nominal).add(seed.backfill).add(seed.outcome).add(seed.until).add(seed.count);
        values.add(seed.run).add(seed.reason.as_deref()).add(at);
    };
    FIRES.execute_with(tx, |_| (), seeds, row).await?;
    Ok(())
}

pub(crate) async fn insert_triggers(tx: &mut SqliteTx, now: Micros, seeds: &[TriggerSeed]) -> Result<()> {
    let row = |seed: &TriggerSeed, values: &mut Values| {
        values.add(seed.id).add(seed.workflow_id).add(seed.namespace.as_str()).add(seed.name.as_str()).add(seed.kind);
        values.add(seed.listens.as_deref()).add(seed.calendar.as_deref()).add(seed.spec.as_str()).add(seed.active);
        values.add(seed.anchor_at).add(seed.covered_at).add(seed.next.map(|next| next.nominal));
        values.add(seed.next.map(|next| next.fire_at)).add(seed.fired as i64).add(now);
    };
    TRIGGERS.execute_with(tx, |_| (), seeds, row).await?;
    Ok(())
}
