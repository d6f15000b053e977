//! Runs with what their requests leave, as one statement over columns.

use mainspring_core::Micros;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use super::exchange::connect;
use super::{AnswerRow, answer};
use crate::error::{Error, Result};
use crate::runs::create::RunSeed;
use crate::runs::exchange::{Lane, Want};
use crate::runs::submit::{Columns, Started};

// Every part of one statement sees the same snapshot and is committed with it.
macro_rules! leaving {
    ($call:literal) => {
        concat!(
            "WITH details AS (INSERT INTO run_details (run_id, inputs, correlation_id, trigger) \
                SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[])), \
            keys AS (INSERT INTO idempotent_requests (actor, key, request_hash, claim, created_at, status, content_type, body) \
                SELECT * FROM unnest($5::text[], $6::text[], $7::bytea[], $8::uuid[], $9::bigint[], $10::smallint[], $11::text[], $12::bytea[])), \
            audit AS (INSERT INTO audit_log (id, at, actor, address, method, path, namespace, status, request_id, detail) \
                SELECT * FROM unnest($13::uuid[], $14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::smallint[], $21::text[], $22::text[])) ",
            $call
        )
    };
}

/// Starts runs of requests that leave only their runs: three empty inserts would take longer than the call.
const START_ALONE: &str =
    "SELECT * FROM start_runs_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
const START: &str = leaving!(
    "SELECT * FROM start_runs_v1($23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38)"
);

type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// Makes the runs, outside of any lane, and starts nothing.
pub(crate) async fn submit(connection: &mut PgConnection, now: Micros, columns: &Columns<'_>) -> Result<()> {
    call(now, columns, None, &[]).execute(connection).await?;
    Ok(())
}

/// Creates runs as the next unit of a lane, and starts their first tasks.
pub(crate) async fn start(lane: &mut Lane, now: Micros, columns: &Columns<'_>, want: &[Want]) -> Result<Started> {
    let mut connection = match lane.connection.take() {
        Some(connection) => connection,
        None => connect(lane).await?,
    };
    let call = call(now, columns, Some((lane.id, lane.seq + 1)), want);
    let rows = match call.fetch_all(&mut connection).await {
        Ok(rows) => rows,
        Err(error) => {
            return Err(match Error::from(error) {
                // The connection broke: it may have been applied.
                Error::Unavailable(_) => Error::InDoubt("a submission"),
                other => {
                    lane.connection = Some(connection);
                    other
                }
            });
        }
    };
    lane.connection = Some(connection);
    let mut started = Started::default();
    for row in &rows {
        let row: AnswerRow = sqlx::FromRow::from_row(row)?;
        match row.kind {
            answer::CLAIMED => started.claimed.push(row.claimed()),
            _ => started.left = true,
        }
    }
    Ok(started)
}

fn call<'q>(now: Micros, columns: &Columns<'_>, unit: Option<(i64, i64)>, want: &[Want]) -> Bound<'q> {
    let seeds = &columns.seeds;
    let leaves_nothing =
        columns.keys.is_empty() && columns.audit.is_empty() && !seeds.iter().any(|seed| seed.has_details());
    let query = if leaves_nothing { sqlx::query(START_ALONE) } else { leaving(START, columns) };
    query
        .bind(now)
        .bind(column(seeds, |seed| seed.id))
        .bind(column(seeds, |seed| seed.version))
        .bind(column(seeds, |seed| seed.workflow))
        .bind(column(seeds, |seed| seed.only_latest))
        .bind(column(seeds, |seed| seed.flags))
        .bind(column(seeds, |seed| seed.rank))
        .bind(column(seeds, |seed| seed.open))
        .bind(column(seeds, |seed| seed.deadline_at))
        .bind(columns.pools.clone())
        .bind(unit.map(|unit| unit.0))
        .bind(unit.map(|unit| unit.1))
        .bind(want.first().map(|want| want.session))
        .bind(column(want, |want| want.route))
        .bind(column(want, |want| want.slots))
        .bind(column(want, |want| want.hand_over_rank))
}

fn leaving<'q>(sql: &'static str, columns: &Columns<'_>) -> Bound<'q> {
    let given: Vec<&RunSeed> = columns.seeds.iter().filter(|seed| seed.has_details()).collect();
    let (keys, audit) = (&columns.keys, &columns.audit);
    sqlx::query(sql)
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
}

fn column<R, T>(rows: &[R], value: impl Fn(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}
