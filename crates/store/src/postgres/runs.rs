//! Calls `create_runs_v1` with columns instead of rows.

use mainspring_core::Micros;
use sqlx::PgConnection;

use crate::error::Result;
use crate::runs::create::RunSeed;

/// Makes the runs and their first rows, and what they were given, as one statement.
pub(crate) async fn create(connection: &mut PgConnection, now: Micros, seeds: &[RunSeed], pools: &[i32]) -> Result<()> {
    let given: Vec<&RunSeed> = seeds.iter().filter(|seed| seed.has_details()).collect();
    call(connection, now, seeds, pools, (!given.is_empty()).then_some(&given)).await
}

/// Makes nothing, so that the database knows how when it has to be quick.
pub(crate) async fn prepare(connection: &mut PgConnection) -> Result<()> {
    call(connection, 0, &[], &[], Some(&[])).await
}

async fn call(
    connection: &mut PgConnection,
    now: Micros,
    seeds: &[RunSeed],
    pools: &[i32],
    given: Option<&[&RunSeed]>,
) -> Result<()> {
    let sql = if given.is_none() {
        "SELECT create_runs_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    } else {
        "WITH details AS (INSERT INTO run_details (run_id, inputs, correlation_id, trigger) SELECT * FROM unnest($12::uuid[], $13::text[], $14::text[], $15::text[])) \
         SELECT create_runs_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    };
    let mut query = sqlx::query(sql)
        .bind(now)
        .bind(seeds.iter().map(|seed| seed.id).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.version).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.workflow).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.state.code()).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.flags).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.rank).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.open).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.limit).collect::<Vec<_>>())
        .bind(seeds.iter().map(|seed| seed.deadline_at).collect::<Vec<_>>())
        .bind(pools.to_vec());
    if let Some(given) = given {
        query = query
            .bind(given.iter().map(|seed| seed.id).collect::<Vec<_>>())
            .bind(given.iter().map(|seed| seed.inputs.clone()).collect::<Vec<_>>())
            .bind(given.iter().map(|seed| seed.correlation_id.clone()).collect::<Vec<_>>())
            .bind(given.iter().map(|seed| seed.trigger.clone()).collect::<Vec<_>>());
    }
    query.execute(connection).await?;
    Ok(())
}
