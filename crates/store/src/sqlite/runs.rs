//! Making runs with their first rows.

use mainspring_core::Micros;

use super::SqliteTx;
use super::bulk::{Bulk, Values};
use super::limits::limits;
use crate::error::Result;
use crate::names::{sql, startable};
use crate::runs::create::RunSeed;

// A run of a workflow that was deleted meanwhile has no state, which the table refuses; so has one of a version that is not the
// newest any more, if that is asked for.
pub(super) static RUNS: Bulk = Bulk::new(
    "WITH v(id, version, workflow, state, flags, rank, open, lim, now, deadline, latest) AS (VALUES ",
    11,
    sql!(
        ") INSERT OR ROLLBACK INTO runs (id, version, workflow_id, state, flags, rank, open, limit_id, waits_for, holds, created_at, started_at, progress_at, deadline_at) \
     SELECT id, version, workflow, CASE WHEN EXISTS (SELECT 1 FROM workflows w WHERE w.id = v.workflow AND (v.latest IS NULL OR w.latest = v.latest)) THEN state END, \
            flags | coalesce((SELECT {run_flag.followed} FROM workflows w INDEXED BY workflows_followed WHERE w.id = v.workflow AND w.followed), 0), rank, open, lim, CASE WHEN state = {run.pending} THEN lim END, CASE WHEN state = {run.running} THEN lim END, now, CASE WHEN state = {run.running} THEN now END, now, deadline \
     FROM v WHERE v.id IS NOT NULL"
    ),
);

pub(super) static DETAILS: Bulk = Bulk::new(
    "WITH v(id, inputs, correlation, origin) AS (VALUES ",
    4,
    ") INSERT OR ROLLBACK INTO run_details (run_id, inputs, correlation_id, trigger) SELECT id, inputs, correlation, origin FROM v WHERE v.id IS NOT NULL",
);

pub(super) static TASK_RUNS: Bulk = Bulk::new(
    "WITH v(run, version, state, rank, due) AS (VALUES ",
    5,
    sql!(concat!(
        ") INSERT OR ROLLBACK INTO task_runs (run_id, idx, state, rule, rank, flags, route, pool, max_failures, max_lost, open, version, due_at) \
     SELECT v.run, vt.idx, \
            CASE WHEN vt.needs > 0 THEN {task.pending} ELSE ",
        startable!("v.state = {run.running}", "vt.flags", "vt.pool"),
        " END, \
            vt.rule, coalesce(vt.rank, v.rank), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, vt.needs, vt.version, v.due + vt.idx \
     FROM v CROSS JOIN version_tasks vt ON vt.version = v.version AND vt.stage = {stage.main}"
    )),
);

/// Makes the runs and their first rows, and what they were given.
pub(crate) async fn create(tx: &mut SqliteTx, now: Micros, seeds: &[RunSeed], pools: &[i32]) -> Result<()> {
    let run = |seed: &RunSeed, values: &mut Values| {
        values.add(seed.id).add(seed.version).add(seed.workflow).add(seed.state.code()).add(seed.flags).add(seed.rank);
        values.add(seed.open).add(seed.limit).add(now).add(seed.deadline_at);
        values.add(seed.only_latest.then_some(seed.version));
    };
    RUNS.defer(tx, seeds, run).await?;

    let given: Vec<&RunSeed> = seeds.iter().filter(|seed| seed.has_details()).collect();
    let details = |seed: &&RunSeed, values: &mut Values| {
        values
            .add(seed.id)
            .add(seed.inputs.as_deref())
            .add(seed.correlation_id.as_deref())
            .add(seed.trigger.as_deref());
    };
    DETAILS.defer(tx, &given, details).await?;

    // Earlier runs of the batch are due earlier.
    let mut due = now;
    let task_runs = |seed: &RunSeed, values: &mut Values| {
        due += 1;
        values.add(seed.id).add(seed.version).add(seed.state.code()).add(seed.rank).add(due);
    };
    TASK_RUNS.defer(tx, seeds, task_runs).await?;

    if !pools.is_empty() {
        limits(tx, now, &[], &[], pools).await?;
    }
    Ok(())
}
