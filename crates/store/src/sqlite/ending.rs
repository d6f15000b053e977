//! Attempts and decisions that end their task run: their rows leave `task_runs` if they are claimed by exactly that token.

use std::collections::HashMap;

use mainspring_core::TaskKey;
use mainspring_core::state::TaskState;

use super::SqliteTx;
use super::bulk::{Bulk, Columns, Values};
use crate::error::Result;
use crate::exchange::{Ended, Reply, TaskToken};
use crate::settle::Gone;

/// With more groups than this, reading the rows is cheaper.
const MAX_GROUPS: usize = 4;

// By number where everything else is known. The plus keeps the planner from the index by session.
static END_REMEMBERED: Bulk = Bulk::new(
    "DELETE FROM task_runs WHERE state = 2 AND +claim = ? AND +session = ? AND +attempt = ? AND rowid IN (VALUES ",
    1,
    ")",
);

// The live row must be claimed by exactly this session and attempt.
static END: Bulk = Bulk::new(
    "WITH v(run, idx, item, state, session, attempt) AS (VALUES ",
    6,
    ") DELETE FROM task_runs WHERE rowid IN ( \
         SELECT t.rowid FROM v CROSS JOIN task_runs t ON t.run_id = v.run AND t.idx = v.idx AND t.item = v.item \
         WHERE +t.state = v.state AND +t.session = v.session AND t.attempt = v.attempt) \
     RETURNING run_id, idx, item, session, attempt, state, version, flags, generation, failures, lost, pool, started_at",
);

static APPLIED: Bulk = Bulk::new(
    "WITH v(ord, run, idx, item, session, attempt) AS (VALUES ",
    6,
    ") SELECT v.ord FROM v CROSS JOIN history h ON h.run_id = v.run AND h.idx = v.idx AND h.item = v.item \
     WHERE h.attempt = v.attempt AND h.session = v.session",
);

/// Results whose rows are all known since they were claimed, so that nothing of them need be read.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    gone: Vec<Gone>,
    groups: Vec<Group>,
    tokens: Vec<TaskToken>,
}

/// Rows that one exchange claimed for one session under the same attempt number.
#[derive(Debug)]
struct Group {
    claim: i64,
    session: i64,
    attempt: i32,
    rows: Vec<i64>,
}

/// What is known of these results; `None` unless it is all that is needed.
pub(super) fn remembered(tx: &SqliteTx, ended: &[Ended]) -> Option<Remembered> {
    let mut all = Remembered { gone: Vec::with_capacity(ended.len()), ..Remembered::default() };
    for result in ended {
        let token = result.token;
        let known = tx.running(&token).filter(|_| result.from == TaskState::Running)?;
        let (claim, session, attempt) = (known.claim, token.session, token.attempt);
        let same = |group: &Group| (group.claim, group.session, group.attempt) == (claim, session, attempt);
        match all.groups.iter().position(same) {
            Some(at) => all.groups[at].rows.push(known.at),
            None if all.groups.len() == MAX_GROUPS => return None,
            None => all.groups.push(Group { claim, session, attempt, rows: vec![known.at] }),
        }
        all.tokens.push(token);
        all.gone.push(Gone {
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
    /// Removes the rows. `None` if one of them is not there any more as it was: then the unit must be given up.
    pub(super) async fn end(self, tx: &mut SqliteTx) -> Result<Option<Vec<Gone>>> {
        let mut removed = 0;
        for group in &self.groups {
            let head = |values: &mut Values| {
                values.add(group.claim).add(group.session).add(group.attempt);
            };
            let add = |row: &i64, values: &mut Values| {
                values.add(*row);
            };
            removed += END_REMEMBERED.execute_with(tx.connection(), head, &group.rows, add).await?;
        }
        if removed != self.gone.len() as u64 {
            return Ok(None);
        }
        for token in self.tokens {
            tx.runs_no_more(token);
        }
        Ok(Some(self.gone))
    }
}

/// Reads and removes the rows of what ended. What does not hold its row is fenced, unless it is the very one that was
/// applied already.
pub(super) async fn end(tx: &mut SqliteTx, ended: &[Ended], reply: &mut Reply) -> Result<Vec<Gone>> {
    let add = |row: &Ended, values: &mut Values| {
        let TaskToken { key, session, attempt } = row.token;
        values.add(key.run).add(key.index).add(key.item).add(row.from.code()).add(session).add(attempt);
    };
    let rows = END.fetch(tx.connection(), ended, add).await?;
    // A result that is handed in twice is answered once.
    let mut handed_in: HashMap<TaskToken, (usize, &Ended)> = HashMap::with_capacity(ended.len());
    for (ord, row) in ended.iter().enumerate() {
        tx.runs_no_more(row.token);
        handed_in.entry(row.token).or_insert((ord, row));
    }
    let mut gone = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut columns = Columns::of(row);
        let key = TaskKey { run: columns.uuid()?, index: columns.get()?, item: columns.get()? };
        let token = TaskToken { key, session: columns.get()?, attempt: columns.get()? };
        let was_running = columns.get::<i16>()? == TaskState::Running.code();
        let Some((_, result)) = handed_in.remove(&token) else { continue };
        gone.push(Gone {
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
    let refused: Vec<(usize, &Ended)> = handed_in.into_values().collect();
    fence(tx, &refused, reply).await?;
    Ok(gone)
}

async fn fence(tx: &mut SqliteTx, refused: &[(usize, &Ended)], reply: &mut Reply) -> Result<()> {
    let add = |(ord, row): &(usize, &Ended), values: &mut Values| {
        let TaskToken { key, session, attempt } = row.token;
        values.add(*ord as i64).add(key.run).add(key.index).add(key.item).add(session).add(attempt);
    };
    let mut applied = Vec::new();
    for row in &APPLIED.fetch(tx.connection(), refused, add).await? {
        applied.push(Columns::of(row).get::<i64>()?);
    }
    let fenced = refused.iter().filter(|(ord, _)| !applied.contains(&(*ord as i64))).map(|(_, row)| row.token);
    reply.fenced.extend(fenced);
    Ok(())
}
