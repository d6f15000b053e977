//! The record of what ended: history rows and dead letters.

use mainspring_core::Micros;
use mainspring_core::dead_letter::Reason;
use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;

use super::SqliteTx;
use super::bulk::{Bulk, Values};
use super::settle::CountedRun;
use crate::dead_letters::new_id;
use crate::error::Result;
use crate::runs::flags::DEAD_LETTER;
use crate::runs::settle::EndedTaskRun;

pub(super) static HISTORY: Bulk = Bulk::new(
    "WITH v(run, idx, item, state, flags, generation, attempt, failures, lost, session, seq, started, finished, exit, kind, error, detail, output) \
     AS (VALUES ",
    18,
    ") INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, session, seq, started_at, finished_at, \
                            exit_code, error_kind, error, detail, output) \
     SELECT * FROM v WHERE v.run IS NOT NULL",
);

// What ended well and without a word: most rows.
pub(super) static PLAIN_HISTORY: Bulk = Bulk::new(
    "WITH v(run, idx, item, state, flags, generation, attempt, failures, lost, session, seq, started, finished) AS (VALUES ",
    13,
    ") INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, session, seq, started_at, finished_at) \
     SELECT * FROM v WHERE v.run IS NOT NULL",
);

pub(super) static DEAD_LETTERS: Bulk = Bulk::new(
    "WITH v(id, run, idx, item, version, reason, kind, error, detail, attempts, started, now) AS (VALUES ",
    12,
    ") INSERT INTO dead_letters (id, run_id, idx, item, version, reason, original_state, error_type, error_message, stack_trace, \
                                 total_attempts, last_attempt_at, created_at, updated_at) \
     SELECT id, run, idx, item, version, reason, 'running', kind, error, detail, attempts, started, now, now \
     FROM v WHERE v.run IS NOT NULL ON CONFLICT DO NOTHING",
);

/// Appends what ended, numbered within its run from the number the round has given it. Both are sorted by run.
pub(super) async fn write(tx: &mut SqliteTx, ended_rows: &[EndedTaskRun], runs: &[CountedRun]) -> Result<()> {
    // The numbers of a run are handed out while its rows pass by.
    let mut runs = runs.iter();
    let mut current = runs.next();
    let mut given = 0;
    let mut number = |row: &EndedTaskRun| {
        while current.is_some_and(|counted| counted.run != row.key.run) {
            current = runs.next();
            given = 0;
        }
        given += 1;
        current.map(|counted| counted.base + given)
    };
    let numbered: Vec<(&EndedTaskRun, Option<i64>)> = ended_rows.iter().map(|row| (row, number(row))).collect();
    let is_plain = |(row, _): &(&EndedTaskRun, _)| row.failure.is_none() && row.output.is_none();
    let (plain, full): (Vec<_>, Vec<_>) = numbered.into_iter().partition(is_plain);
    PLAIN_HISTORY.defer(tx, &plain, add_ended).await?;
    let add = |row: &(&EndedTaskRun, Option<i64>), values: &mut Values| {
        add_ended(row, values);
        add_failure(values, row.0.failure.as_ref());
        values.add(row.0.output.as_deref());
    };
    HISTORY.defer(tx, &full, add).await?;
    Ok(())
}

/// Makes entries for exhausted tasks that want one; one that is pending already stays the only one.
pub(super) async fn write_dead_letters(tx: &mut SqliteTx, now: Micros, ended_rows: &[EndedTaskRun]) -> Result<()> {
    let is_letter = |row: &&EndedTaskRun| row.state == TaskState::Failed && row.flags & DEAD_LETTER != 0;
    let letters: Vec<&EndedTaskRun> = ended_rows.iter().filter(is_letter).collect();
    let add = |row: &&EndedTaskRun, values: &mut Values| {
        let failure = row.failure.as_ref();
        let reason = Reason::of_failure(failure.map(|failure| failure.kind.as_str())).code();
        values.add(new_id(now)).add(row.key.run).add(row.key.index).add(row.key.item).add(row.version).add(reason);
        values.add(failure.map(|failure| failure.kind.as_str())).add(failure.map(|failure| failure.message.as_str()));
        values.add(failure.and_then(|failure| failure.detail.as_deref())).add(row.attempt).add(row.started_at).add(now);
    };
    DEAD_LETTERS.defer(tx, &letters, add).await?;
    Ok(())
}

/// The columns of `history` up to `finished_at`.
fn add_ended((row, seq): &(&EndedTaskRun, Option<i64>), values: &mut Values) {
    let key = row.key;
    values.add(key.run).add(key.index).add(key.item).add(row.state.code()).add(row.flags).add(row.generation);
    values.add(row.attempt).add(row.failures).add(row.lost).add(row.session).add(*seq);
    values.add(row.started_at).add(row.finished_at);
}

/// The columns `exit_code, error_kind, error, detail`.
pub(super) fn add_failure(values: &mut Values, failure: Option<&Failure>) {
    values.add(failure.and_then(|failure| failure.exit_code));
    values.add(failure.map(|failure| failure.kind.as_str()));
    values.add(failure.map(|failure| failure.message.as_str()));
    values.add(failure.and_then(|failure| failure.detail.as_deref()));
}
