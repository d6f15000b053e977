//! Attempts and decisions that end their task run: their rows leave `task_runs` if they are claimed by exactly that token.

use std::collections::HashMap;

use mainspring_core::TaskKey;
use mainspring_core::state::TaskState;

use super::SqliteTx;
use super::bulk::{Bulk, Columns, SHORT, Script, Values};
use crate::error::Result;
use crate::names::sql;
use crate::runs::exchange::{Ended, Reply, TaskToken};
use crate::runs::settle::EndedTaskRun;

/// With more groups than this, one statement that compares row by row is cheaper.
const MAX_GROUPS: usize = 4;

// By number where everything else is known. The plus keeps the planner from the index by session.
pub(super) static END_GROUP: Bulk = Bulk::new(
    sql!(
        "DELETE FROM task_runs WHERE state = {task.running} AND +claim = ? AND +session = ? AND +attempt = ? AND rowid IN (VALUES "
    ),
    1,
    ")",
);

macro_rules! end_known {
    ($returning:literal) => {
        Bulk::new(
            "WITH v(at, claim, session, attempt) AS (VALUES ",
            4,
            sql!(concat!(
                ") DELETE FROM task_runs WHERE rowid IN ( \
                 SELECT t.rowid FROM v CROSS JOIN task_runs t ON t.rowid = v.at \
                 WHERE t.state = {task.running} AND +t.claim = v.claim AND +t.session = v.session AND t.attempt = v.attempt)",
                $returning
            )),
        )
    };
}

pub(super) static END_KNOWN: Bulk = end_known!("");
// Together with the statements that open the exchange, whose rows begin with 0 and 1.
pub(super) static END_FEW: Bulk = end_known!(" RETURNING 2, rowid");

// The live row must be claimed by exactly this session and attempt.
pub(super) static END: Bulk = Bulk::new(
    "WITH v(run, idx, item, state, session, attempt) AS (VALUES ",
    6,
    ") DELETE FROM task_runs WHERE rowid IN ( \
         SELECT t.rowid FROM v CROSS JOIN task_runs t ON t.run_id = v.run AND t.idx = v.idx AND t.item = v.item \
         WHERE +t.state = v.state AND +t.session = v.session AND t.attempt = v.attempt) \
     RETURNING run_id, idx, item, session, attempt, state, version, flags, generation, failures, lost, pool, started_at",
);

pub(super) static APPLIED: Bulk = Bulk::new(
    "WITH v(ord, run, idx, item, session, attempt) AS (VALUES ",
    6,
    ") SELECT v.ord FROM v CROSS JOIN history h ON h.run_id = v.run AND h.idx = v.idx AND h.item = v.item \
     WHERE h.attempt = v.attempt AND h.session = v.session",
);

/// Results whose rows are all known since they were claimed, so that nothing of them need be read.
#[derive(Debug)]
pub(super) struct Remembered {
    ended_rows: Vec<EndedTaskRun>,
    rows: Vec<RememberedRow>,
}

#[derive(Debug)]
struct RememberedRow {
    at: i64,
    claim: i64,
    token: TaskToken,
}

impl RememberedRow {
    /// What rows have in common that one exchange claimed for one session under the same attempt number.
    fn group(&self) -> (i64, i64, i32) {
        (self.claim, self.token.session, self.token.attempt)
    }

    fn add(&self, values: &mut Values) {
        values.add(self.at).add(self.claim).add(self.token.session).add(self.token.attempt);
    }
}

/// What is known of these results; `None` unless it is all that is needed.
pub(super) fn remembered(tx: &SqliteTx, ended: &[Ended]) -> Option<Remembered> {
    let mut all = Remembered { ended_rows: Vec::with_capacity(ended.len()), rows: Vec::with_capacity(ended.len()) };
    for result in ended {
        let token = result.token;
        let known = tx.running(&token).filter(|_| result.from == TaskState::Running)?;
        all.rows.push(RememberedRow { at: known.at, claim: known.claim, token });
        all.ended_rows.push(EndedTaskRun {
            key: token.key,
            version: known.version,
            state: result.state,
            flags: known.flags,
            generation: known.generation,
            attempt: token.attempt,
            failures: known.failures + i16::from(result.state == TaskState::Failed),
            lost: known.lost,
            session: Some(token.session),
            started_at: result.started_at.or(Some(known.started_at)),
            finished_at: result.finished_at,
            failure: result.failure.clone(),
            output: result.output.clone(),
            pool: known.pool,
        });
    }
    Some(all)
}

impl Remembered {
    fn are_few(&self) -> bool {
        (1..=SHORT).contains(&self.rows.len())
    }

    /// Adds the removal of the rows to a script, if they are few.
    pub(super) fn say_if_few(&self, script: &mut Script) {
        if self.are_few() {
            END_FEW.push_to(script, &|_| (), &self.rows, &mut RememberedRow::add);
        }
    }

    /// Removes the rows, unless they are few and were removed already. `None` if one of them is not there any more as it
    /// was: then the unit must be given up.
    pub(super) async fn end(mut self, tx: &mut SqliteTx, removed: usize) -> Result<Option<Vec<EndedTaskRun>>> {
        let removed = if self.are_few() { removed as u64 } else { self.remove(tx).await? };
        if removed != self.ended_rows.len() as u64 {
            return Ok(None);
        }
        for row in &self.rows {
            tx.runs_no_more(row.token);
        }
        Ok(Some(self.ended_rows))
    }

    async fn remove(&mut self, tx: &mut SqliteTx) -> Result<u64> {
        self.rows.sort_unstable_by_key(|row| (row.group(), row.at));
        let groups: Vec<&[RememberedRow]> = self.rows.chunk_by(|one, next| one.group() == next.group()).collect();
        if groups.len() > MAX_GROUPS {
            return END_KNOWN.execute_with(tx, |_| (), &self.rows, RememberedRow::add).await;
        }
        let mut removed = 0;
        for group in groups {
            let (claim, session, attempt) = group[0].group();
            let head = |values: &mut Values| {
                values.add(claim).add(session).add(attempt);
            };
            let add = |row: &RememberedRow, values: &mut Values| {
                values.add(row.at);
            };
            removed += END_GROUP.execute_with(tx, head, group, add).await?;
        }
        Ok(removed)
    }
}

/// Reads and removes the rows of what ended. What does not hold its row is fenced, unless it is the very one that was
/// applied already.
pub(super) async fn end(tx: &mut SqliteTx, ended: &[Ended], reply: &mut Reply) -> Result<Vec<EndedTaskRun>> {
    let add = |row: &Ended, values: &mut Values| {
        let TaskToken { key, session, attempt } = row.token;
        values.add(key.run).add(key.index).add(key.item).add(row.from.code()).add(session).add(attempt);
    };
    let rows = END.fetch(tx, ended, add).await?;
    // A result that is handed in twice is answered once.
    let mut handed_in: HashMap<TaskToken, (usize, &Ended)> = HashMap::with_capacity(ended.len());
    for (ord, row) in ended.iter().enumerate() {
        tx.runs_no_more(row.token);
        handed_in.entry(row.token).or_insert((ord, row));
    }
    let mut ended_rows = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut columns = Columns::of(row);
        let key = TaskKey { run: columns.uuid()?, index: columns.get()?, item: columns.get()? };
        let token = TaskToken { key, session: columns.get()?, attempt: columns.get()? };
        let was_running = columns.get::<i16>()? == TaskState::Running.code();
        let Some((_, result)) = handed_in.remove(&token) else { continue };
        ended_rows.push(EndedTaskRun {
            key,
            version: columns.get()?,
            state: result.state,
            flags: columns.get()?,
            generation: columns.get()?,
            attempt: token.attempt,
            failures: columns.get::<i16>()? + i16::from(result.state == TaskState::Failed),
            lost: columns.get()?,
            session: was_running.then_some(token.session),
            pool: columns.get::<Option<i32>>()?.filter(|_| was_running),
            started_at: result.started_at.or(columns.get()?),
            finished_at: result.finished_at,
            failure: result.failure.clone(),
            output: result.output.clone(),
        });
    }
    close_waits(tx, &ended_rows).await?;
    let refused: Vec<(usize, &Ended)> = handed_in.into_values().collect();
    fence(tx, &refused, reply).await?;
    Ok(ended_rows)
}

/// What was decided to end does not wait any more. No worker executed it, so it names no session.
async fn close_waits(tx: &mut SqliteTx, ended_rows: &[EndedTaskRun]) -> Result<()> {
    for row in ended_rows.iter().filter(|row| row.session.is_none()) {
        sqlx::query(sql!(
            "UPDATE waits SET outcome = {waited.moot}, happened_at = $4 \
             WHERE run_id = $1 AND idx = $2 AND item = $3 AND outcome IS NULL AND child IS NULL"
        ))
        .bind(row.key.run)
        .bind(row.key.index)
        .bind(row.key.item)
        .bind(row.finished_at)
        .execute(tx.connection().await?)
        .await?;
    }
    Ok(())
}

async fn fence(tx: &mut SqliteTx, refused: &[(usize, &Ended)], reply: &mut Reply) -> Result<()> {
    let add = |(ord, row): &(usize, &Ended), values: &mut Values| {
        let TaskToken { key, session, attempt } = row.token;
        values.add(*ord as i64).add(key.run).add(key.index).add(key.item).add(session).add(attempt);
    };
    let mut applied = Vec::new();
    for row in &APPLIED.fetch(tx, refused, add).await? {
        applied.push(Columns::of(row).get::<i64>()?);
    }
    let fenced = refused.iter().filter(|(ord, _)| !applied.contains(&(*ord as i64))).map(|(_, row)| row.token);
    reply.fenced.extend(fenced);
    Ok(())
}
