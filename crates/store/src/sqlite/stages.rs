//! What comes after a stage: the next one, or the end of the run.

use mainspring_core::state::TaskState;
use mainspring_core::workflow::Stage;
use mainspring_core::{Micros, RunId};

use super::SqliteTx;
use crate::error::{Error, Result};
use crate::names::{sql, startable};
use crate::runs::flags::{
    RUN_CANCELLING, RUN_HAS_FINALLY, RUN_HAS_ON_FAILURE, RUN_HAS_ON_SUCCESS, RUN_NO_FINALISERS, RUN_TIMED_OUT,
};

#[derive(sqlx::FromRow)]
struct RunRow {
    stage: i16,
    flags: i16,
    failed: i32,
    generation: i16,
    version: i64,
    seq: i64,
}

/// Makes the rows of a stage. Returns how many there are. Rows without dependencies start in the state the run allows.
/// A reopened run enters its stages again: attempt numbers go on where they stopped.
async fn enter_stage(tx: &mut SqliteTx, now: Micros, run: RunId, stage: i16) -> Result<i32> {
    let made = sqlx::query(
        sql!(concat!("INSERT INTO task_runs (run_id, idx, attempt, state, rule, rank, flags, route, pool, max_failures, max_lost, generation, open, version, due_at) \
         SELECT r.id, vt.idx, \
                coalesce((SELECT max(h.attempt) FROM history_superseded h WHERE h.run_id = r.id AND h.idx = vt.idx), 0), \
                CASE WHEN vt.needs > 0 THEN {task.pending} ELSE ", startable!("r.state = {run.running}", "vt.flags", "vt.pool"), " END, \
                vt.rule, coalesce(vt.rank, r.rank), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, r.generation, vt.needs, \
                vt.version, $1 + vt.idx \
         FROM runs r CROSS JOIN version_tasks vt ON vt.version = r.version AND vt.stage = $3 \
         WHERE r.id = $2")),
    )
    .bind(now)
    .bind(run)
    .bind(stage)
    .execute(tx.connection().await?)
    .await?;
    Ok(made.rows_affected() as i32)
}

/// A run whose stage has no open task left enters its next one, or ends. Each of these is an event with a number: entering
/// a stage has its row, the end is what `runs` says of it.
pub(crate) async fn next_stage(tx: &mut SqliteTx, now: Micros, run: RunId) -> Result<()> {
    loop {
        let row: RunRow =
            sqlx::query_as("SELECT stage, flags, failed, generation, version, seq FROM runs WHERE id = $1")
                .bind(run)
                .fetch_optional(tx.connection().await?)
                .await?
                .ok_or_else(|| Error::not_found(format!("run {run}")))?;
        let has = |flag: i16| row.flags & flag != 0;
        let later = [
            (Stage::OnFailure, RUN_HAS_ON_FAILURE),
            (Stage::OnSuccess, RUN_HAS_ON_SUCCESS),
            (Stage::Finally, RUN_HAS_FINALLY),
        ];
        let Some((next, _)) = later.into_iter().find(|(stage, flag)| row.stage < stage.code() && has(*flag)) else {
            return end_run(tx, now, run).await;
        };
        let went_wrong = row.failed > 0 || has(RUN_TIMED_OUT);
        // What follows another end of the main tasks is skipped; what is called off is cancelled.
        let unwanted = match next {
            Stage::OnFailure => has(RUN_CANCELLING) || !went_wrong,
            Stage::OnSuccess => has(RUN_CANCELLING) || went_wrong,
            Stage::Main | Stage::Finally => false,
        };
        let next = next.code();
        let leave_out = if unwanted {
            Some(TaskState::Skipped.code())
        } else if has(RUN_NO_FINALISERS) {
            Some(TaskState::Cancelled.code())
        } else {
            None
        };
        match leave_out {
            None => {
                let open = enter_stage(tx, now, run, next).await?;
                sqlx::query(
                    "UPDATE runs SET stage = $2, open = $3, seq = seq + 1 WHERE id = $1; \
                     INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) \
                     SELECT id, seq, 1, state, stage, $4 FROM runs WHERE id = $1",
                )
                .bind(run)
                .bind(next)
                .bind(open)
                .bind(now)
                .execute(tx.connection().await?)
                .await?;
                if open > 0 {
                    return Ok(());
                }
            }
            Some(state) => leave_stage_out(tx, now, run, &row, next, state).await?,
        }
    }
}

async fn leave_stage_out(
    tx: &mut SqliteTx,
    now: Micros,
    run: RunId,
    row: &RunRow,
    stage: i16,
    state: i16,
) -> Result<()> {
    let left_out = sqlx::query(
        "INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, seq, finished_at) \
         SELECT $1, vt.idx, -1, $2, vt.flags, $3, \
                coalesce((SELECT max(h.attempt) FROM history_superseded h WHERE h.run_id = $1 AND h.idx = vt.idx), 0), \
                0, 0, $4 + row_number() OVER (ORDER BY vt.idx), $5 \
         FROM version_tasks vt WHERE vt.version = $6 AND vt.stage = $7",
    )
    .bind(run)
    .bind(state)
    .bind(row.generation)
    .bind(row.seq)
    .bind(now)
    .bind(row.version)
    .bind(stage)
    .execute(tx.connection().await?)
    .await?
    .rows_affected();
    sqlx::query("UPDATE runs SET stage = $2, seq = seq + $3 WHERE id = $1")
        .bind(run)
        .bind(stage)
        .bind(left_out as i64)
        .execute(tx.connection().await?)
        .await?;
    Ok(())
}

async fn end_run(tx: &mut SqliteTx, now: Micros, run: RunId) -> Result<()> {
    sqlx::query(
        sql!("UPDATE runs SET finished_at = $2, holds = NULL, deadline_at = NULL, seq = seq + 1, \
             state = CASE WHEN flags & {run_flag.cancelling} <> 0 THEN {run.cancelled} \
                          WHEN failed > 0 OR flags & {run_flag.timed_out} <> 0 THEN {run.failed} ELSE {run.success} END \
         WHERE id = $1; \
         INSERT INTO unsuccessful_runs (run_id, state) SELECT id, state FROM runs WHERE id = $1 AND state > {run.success} ON CONFLICT DO NOTHING; \
         INSERT INTO run_ends (run_id, generation, workflow_id, state, finished_at) \
         SELECT id, generation, workflow_id, state, finished_at FROM runs WHERE id = $1 AND flags & {run_flag.followed} <> 0 ON CONFLICT DO NOTHING"),
    )
    .bind(run)
    .bind(now)
    .execute(tx.connection().await?)
    .await?;
    // Whether a parent waits for it is a question of one key.
    super::items::child_ended(tx, now, run).await
}
