//! Attempts after which the task run may go on: failed ones with a retry, and released ones.

use std::collections::HashMap;

use mainspring_core::state::TaskState;
use mainspring_core::{Micros, RunId, TaskKey};

use super::SqliteTx;
use super::bulk::{Bulk, Columns, Values};
use super::history::add_failure;
use super::limits::limits;
use super::settle::remove;
use crate::error::Result;
use crate::names::sql;
use crate::runs::exchange::{ContinuedAs, ContinuedAttempt, Reply};
use crate::runs::flags::is_stopped;
use crate::runs::settle::EndedTaskRun;

pub(super) static CLAIMED: Bulk = Bulk::new(
    "WITH v(ord, run, idx, item, session, attempt) AS (VALUES ",
    6,
    sql!(
        ") SELECT v.ord, t.rowid, t.version, t.flags, t.generation, t.failures, t.max_failures, t.lost, t.pool, t.started_at, r.state, r.stage, r.flags, r.seq \
     FROM v CROSS JOIN task_runs t ON t.run_id = v.run AND t.idx = v.idx AND t.item = v.item CROSS JOIN runs r ON r.id = t.run_id \
     WHERE t.state = {task.running} AND t.session = v.session AND t.attempt = v.attempt"
    ),
);

pub(super) static APPLIED: Bulk = Bulk::new(
    "WITH v(ord, run, idx, item, session, attempt) AS (VALUES ",
    6,
    ") SELECT v.ord FROM v WHERE \
         EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = v.run AND a.idx = v.idx AND a.item = v.item \
                 AND a.attempt = v.attempt AND a.session = v.session) \
      OR EXISTS (SELECT 1 FROM history h WHERE h.run_id = v.run AND h.idx = v.idx AND h.item = v.item \
                 AND h.attempt = v.attempt AND h.session = v.session)",
);

pub(super) static NUMBER: Bulk = Bulk::new(
    "WITH v(run, n, now) AS (VALUES ",
    3,
    ") UPDATE runs SET seq = seq + v.n, progress_at = v.now FROM v WHERE runs.id = v.run",
);

pub(super) static ATTEMPTS: Bulk = Bulk::new(
    "WITH v(run, idx, item, attempt, outcome, session, seq, started, finished, exit, kind, error, detail) AS (VALUES ",
    13,
    ") INSERT INTO attempts (run_id, idx, item, attempt, outcome, session, seq, started_at, finished_at, exit_code, error_kind, error, detail) \
     SELECT * FROM v WHERE v.run IS NOT NULL",
);

pub(super) static GO_ON: Bulk = Bulk::new(
    "WITH v(at, state, failures, due) AS (VALUES ",
    4,
    ") UPDATE task_runs SET state = v.state, failures = v.failures, due_at = v.due, session = NULL, claim = NULL, started_at = NULL \
     FROM v WHERE task_runs.rowid = v.at",
);

/// A row that is claimed by exactly the token that hands it in.
struct Row<'x> {
    handed_in: &'x ContinuedAttempt,
    at: i64,
    version: i64,
    flags: i16,
    generation: i16,
    failures: i16,
    max_failures: i16,
    lost: i16,
    pool: Option<i32>,
    started_at: Option<Micros>,
    run_state: i16,
    run_stage: i16,
    run_flags: i16,
    run_seq: i64,
}

impl Row<'_> {
    fn failed(&self) -> bool {
        matches!(self.handed_in.how, ContinuedAs::Retry { .. })
    }

    fn is_exhausted(&self) -> bool {
        self.failed() && self.failures + 1 >= self.max_failures
    }

    /// Used-up budgets, and stages that are being cancelled, make the end of the task run.
    fn is_final(&self) -> bool {
        is_stopped(self.run_flags, self.run_stage) || self.is_exhausted()
    }

    fn failures(&self) -> i16 {
        self.failures + i16::from(self.failed())
    }

    fn started_at(&self) -> Option<Micros> {
        self.handed_in.started_at.or(self.started_at)
    }

    fn key(&self) -> TaskKey {
        self.handed_in.token.key
    }
}

/// Continues the rows of attempts. Returns those that end instead, and reports the refused ones.
pub(super) async fn continue_attempts(
    tx: &mut SqliteTx,
    now: Micros,
    handed_in: &[ContinuedAttempt],
    reply: &mut Reply,
) -> Result<Vec<EndedTaskRun>> {
    if handed_in.is_empty() {
        return Ok(Vec::new());
    }
    let rows = claimed(tx, handed_in, reply).await?;
    for row in handed_in {
        tx.runs_no_more(row.token);
    }
    let (ending, staying): (Vec<Row<'_>>, Vec<Row<'_>>) = rows.into_iter().partition(Row::is_final);
    let removed: Vec<i64> = ending.iter().map(|row| row.at).collect();
    remove(tx, &removed).await?;
    write_attempts(tx, now, &staying).await?;
    let add = |row: &Row<'_>, values: &mut Values| {
        let (state, due) = match row.handed_in.how {
            ContinuedAs::Retry { due_at } => (TaskState::Retrying, due_at),
            ContinuedAs::Released if row.run_state != 1 => (TaskState::Held, now),
            ContinuedAs::Released if row.pool.is_some() => (TaskState::Gated, now),
            ContinuedAs::Released => (TaskState::Ready, now),
        };
        values.add(row.at).add(state.code()).add(row.failures()).add(due);
    };
    GO_ON.defer(tx, &staying, add).await?;
    let released: Vec<i32> = staying.iter().filter_map(|row| row.pool).collect();
    limits(tx, now, &released, &[], &[]).await?;
    Ok(ending.iter().map(end).collect())
}

/// The rows that the tokens hold, sorted by key. A token that holds none is fenced, unless it was applied before.
async fn claimed<'x>(tx: &mut SqliteTx, handed_in: &'x [ContinuedAttempt], reply: &mut Reply) -> Result<Vec<Row<'x>>> {
    let numbered: Vec<(i64, &ContinuedAttempt)> = (0..).zip(handed_in).collect();
    let add = |(ord, row): &(i64, &ContinuedAttempt), values: &mut Values| {
        let token = row.token;
        values
            .add(*ord)
            .add(token.key.run)
            .add(token.key.index)
            .add(token.key.item)
            .add(token.session)
            .add(token.attempt);
    };
    let mut rows = Vec::with_capacity(numbered.len());
    for row in &CLAIMED.fetch(tx, &numbered, add).await? {
        let mut columns = Columns::of(row);
        let ord: i64 = columns.get()?;
        rows.push(Row {
            handed_in: &handed_in[ord as usize],
            at: columns.get()?,
            version: columns.get()?,
            flags: columns.get()?,
            generation: columns.get()?,
            failures: columns.get()?,
            max_failures: columns.get()?,
            lost: columns.get()?,
            pool: columns.get()?,
            started_at: columns.get()?,
            run_state: columns.get()?,
            run_stage: columns.get()?,
            run_flags: columns.get()?,
            run_seq: columns.get()?,
        });
    }
    rows.sort_by_key(Row::key);
    rows.dedup_by_key(|row| row.key());
    if rows.len() < handed_in.len() {
        let held = |token| rows.binary_search_by_key(&token, Row::key).is_ok();
        let refused: Vec<(i64, &ContinuedAttempt)> =
            numbered.into_iter().filter(|(_, row)| !held(row.token.key)).collect();
        let mut applied = Vec::new();
        for row in &APPLIED.fetch(tx, &refused, add).await? {
            applied.push(Columns::of(row).get::<i64>()?);
        }
        let fenced = refused.iter().filter(|(ord, _)| !applied.contains(ord)).map(|(_, row)| row.token);
        reply.fenced.extend(fenced);
    }
    Ok(rows)
}

async fn write_attempts(tx: &mut SqliteTx, now: Micros, staying: &[Row<'_>]) -> Result<()> {
    let mut per_run: HashMap<RunId, i64> = HashMap::new();
    let mut seq = Vec::with_capacity(staying.len());
    for row in staying {
        let given = per_run.entry(row.key().run).or_default();
        *given += 1;
        seq.push((row, row.run_seq + *given));
    }
    let add = |(row, seq): &(&Row<'_>, i64), values: &mut Values| {
        let token = row.handed_in.token;
        let outcome = if row.failed() { 0i16 } else { 2 };
        values
            .add(token.key.run)
            .add(token.key.index)
            .add(token.key.item)
            .add(token.attempt)
            .add(outcome)
            .add(token.session)
            .add(*seq);
        values.add(row.started_at()).add(row.handed_in.finished_at);
        add_failure(values, row.handed_in.failure.as_ref());
    };
    ATTEMPTS.defer(tx, &seq, add).await?;
    let per_run: Vec<(RunId, i64)> = per_run.into_iter().collect();
    let add = |(run, n): &(RunId, i64), values: &mut Values| {
        values.add(*run).add(*n).add(now);
    };
    NUMBER.defer(tx, &per_run, add).await?;
    Ok(())
}

fn end(row: &Row<'_>) -> EndedTaskRun {
    let token = row.handed_in.token;
    EndedTaskRun {
        key: token.key,
        version: row.version,
        state: if row.is_exhausted() { TaskState::Failed } else { TaskState::Cancelled },
        flags: row.flags,
        generation: row.generation,
        attempt: token.attempt,
        failures: row.failures(),
        lost: row.lost,
        session: Some(token.session),
        started_at: row.started_at(),
        finished_at: row.handed_in.finished_at,
        failure: row.handed_in.failure.clone(),
        output: None,
        pool: row.pool,
    }
}
