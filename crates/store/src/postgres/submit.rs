//! Runs with what their requests leave, as one statement over columns.

use mainspring_core::Micros;
use sqlx::PgConnection;

use crate::access::{AuditRow, KeptAnswer};
use crate::error::Result;
use crate::runs::create::RunSeed;
use crate::unit::RequestKey;

// Every part of one statement sees the same snapshot and is committed with it.
const SUBMIT: &str = "WITH \
    details AS (INSERT INTO run_details (run_id, inputs, correlation_id, trigger) \
        SELECT * FROM unnest($12::uuid[], $13::text[], $14::text[], $15::text[])), \
    keys AS (INSERT INTO idempotent_requests (actor, key, request_hash, claim, created_at, status, content_type, body) \
        SELECT * FROM unnest($16::text[], $17::text[], $18::bytea[], $19::uuid[], $20::bigint[], $21::smallint[], $22::text[], $23::bytea[])), \
    audit AS (INSERT INTO audit_log (id, at, actor, address, method, path, namespace, status, request_id, detail) \
        SELECT * FROM unnest($24::uuid[], $25::bigint[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[], $31::smallint[], $32::text[], $33::text[])) \
    SELECT create_runs_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

pub(crate) async fn submit(
    connection: &mut PgConnection,
    now: Micros,
    seeds: &[RunSeed],
    pools: &[i32],
    keys: &[&(RequestKey, KeptAnswer)],
    audit: &[&AuditRow],
) -> Result<()> {
    let given: Vec<&RunSeed> = seeds.iter().filter(|seed| seed.has_details()).collect();
    sqlx::query(SUBMIT)
        .bind(now)
        .bind(column(seeds, |seed| seed.id))
        .bind(column(seeds, |seed| seed.version))
        .bind(column(seeds, |seed| seed.workflow))
        .bind(column(seeds, |seed| seed.state.code()))
        .bind(column(seeds, |seed| seed.flags))
        .bind(column(seeds, |seed| seed.rank))
        .bind(column(seeds, |seed| seed.open))
        .bind(column(seeds, |seed| seed.limit))
        .bind(column(seeds, |seed| seed.deadline_at))
        .bind(pools.to_vec())
        .bind(column(&given, |seed| seed.id))
        .bind(column(&given, |seed| seed.inputs.clone()))
        .bind(column(&given, |seed| seed.correlation_id.clone()))
        .bind(column(&given, |seed| seed.trigger.clone()))
        .bind(column(keys, |(key, _)| key.actor.clone()))
        .bind(column(keys, |(key, _)| key.key.clone()))
        .bind(column(keys, |(key, _)| key.hash.to_vec()))
        .bind(column(keys, |(key, _)| key.claim))
        .bind(column(keys, |(key, _)| key.at))
        .bind(column(keys, |(_, answer)| i16::try_from(answer.status).unwrap_or(500)))
        .bind(column(keys, |(_, answer)| answer.content_type.clone()))
        .bind(column(keys, |(_, answer)| answer.body.clone()))
        .bind(column(audit, |row| row.id))
        .bind(column(audit, |row| row.at))
        .bind(column(audit, |row| row.actor.clone()))
        .bind(column(audit, |row| row.address.clone()))
        .bind(column(audit, |row| row.method.clone()))
        .bind(column(audit, |row| row.path.clone()))
        .bind(column(audit, |row| row.namespace.clone()))
        .bind(column(audit, |row| row.status))
        .bind(column(audit, |row| row.request_id.clone()))
        .bind(column(audit, |row| row.detail.clone()))
        .execute(connection)
        .await?;
    Ok(())
}

fn column<R, T>(rows: &[R], value: impl Fn(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}
