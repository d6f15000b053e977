//! Firing many triggers with a few statements over arrays.

use mainspring_core::Micros;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use super::transaction::PgTx;
use super::{hold_term, runs};
use crate::cluster::terms::Term;
use crate::error::Result;
use crate::runs::create::Created;
use crate::schedules::fire_unit::{FireSeed, PlainUnit};
use crate::schedules::fires::{Fired, Firing};
use crate::schedules::trigger_sync::TriggerSeed;

/// Everything of a unit but its commit.
pub(crate) async fn make(
    connection: &mut PgConnection,
    now: Micros,
    at: Micros,
    term: &Term,
    unit: &PlainUnit<'_>,
) -> Result<Fired> {
    if !hold_term(connection, &term.name, term.epoch, term.term_id).await? {
        return Ok(Fired::Deposed);
    }
    if swap(connection, at, unit.firings).await? != unit.firings.len() as u64 {
        return Ok(Fired::Stale);
    }
    if !unit.runs.is_empty() {
        runs::create(connection, now, &unit.runs, &[]).await?;
    }
    if !unit.fires.is_empty() {
        insert(connection, at, &unit.fires).await?;
    }
    Ok(Fired::Done(unit.runs.iter().map(|run| Created::New(run.id)).collect()))
}

/// A unit of nothing: its statements are parsed and planned, and the functions compiled.
pub(crate) async fn prepare(connection: PoolConnection<Postgres>) -> Result<PoolConnection<Postgres>> {
    let mut tx = PgTx::begin_on(connection).await?;
    hold_term(&mut tx, "", 0, Uuid::nil()).await?;
    swap(&mut tx, 0, &[]).await?;
    runs::prepare(&mut tx).await?;
    insert(&mut tx, 0, &[]).await?;
    tx.roll_back().await
}

/// Moves every trigger that is still as it was seen; returns how many were.
pub(crate) async fn swap(connection: &mut PgConnection, at: Micros, firings: &[Firing]) -> Result<u64> {
    let (swapped,): (i64,) = sqlx::query_as("SELECT swap_triggers_v1($1, $2, $3, $4, $5, $6, $7, $8)")
        .bind(at)
        .bind(firings.iter().map(|firing| firing.trigger).collect::<Vec<_>>())
        .bind(firings.iter().map(|firing| firing.revision).collect::<Vec<_>>())
        .bind(firings.iter().map(|firing| firing.next_fire_at).collect::<Vec<_>>())
        .bind(firings.iter().map(|firing| firing.covered).collect::<Vec<_>>())
        .bind(firings.iter().map(|firing| firing.next.map(|next| next.nominal)).collect::<Vec<_>>())
        .bind(firings.iter().map(|firing| firing.next.map(|next| next.fire_at)).collect::<Vec<_>>())
        .bind(firings.iter().map(Firing::executions).collect::<Vec<_>>())
        .fetch_one(connection)
        .await?;
    Ok(swapped.max(0) as u64)
}

pub(crate) async fn insert(connection: &mut PgConnection, at: Micros, seeds: &[FireSeed]) -> Result<()> {
    sqlx::query(
        "INSERT INTO fires (trigger_id, nominal_at, backfill, outcome, until_at, count, run_id, reason, fired_at) \
         SELECT u.*, $1 FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::smallint[], $6::bigint[], $7::bigint[], $8::uuid[], $9::text[]) u",
    )
    .bind(at)
    .bind(seeds.iter().map(|seed| seed.trigger).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.nominal).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.backfill).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.outcome).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.until).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.count).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.run).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.reason.clone()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn insert_triggers(connection: &mut PgConnection, now: Micros, seeds: &[TriggerSeed]) -> Result<()> {
    sqlx::query(
        "INSERT INTO triggers (id, workflow_id, namespace, name, kind, listens, calendar, spec, active, anchor_at, covered_at, next_nominal, \
                               next_fire_at, fired, created_at, updated_at) \
         SELECT u.*, $1, $1 FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::text[], $9::text[], \
                                        $10::boolean[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[]) u",
    )
    .bind(now)
    .bind(seeds.iter().map(|seed| seed.id).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.workflow_id).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.namespace.clone()).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.name.clone()).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.kind).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.listens.clone()).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.calendar.clone()).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.spec.clone()).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.active).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.anchor_at).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.covered_at).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.next.map(|next| next.nominal)).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.next.map(|next| next.fire_at)).collect::<Vec<_>>())
    .bind(seeds.iter().map(|seed| seed.fired as i64).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
