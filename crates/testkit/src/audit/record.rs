//! What the database remembers, read in one snapshot.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId, TaskKey};

use crate::invariants::Snapshot;

/// The end of an attempt, or of a task run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) generation: i32,
    pub(super) attempt: i32,
    pub(super) session: Option<i64>,
    pub(super) seq: i64,
    /// None: the attempt ended, the task run went on.
    pub(super) state: Option<TaskState>,
    /// The attempt failed and another one was due later.
    pub(super) retries: bool,
    /// The attempt was handed back.
    pub(super) released: bool,
    pub(super) started_at: Option<Micros>,
    pub(super) finished_at: Micros,
}

#[derive(sqlx::FromRow)]
struct EndRow {
    run: String,
    idx: i32,
    item: i32,
    generation: i16,
    attempt: i32,
    session: Option<i64>,
    seq: i64,
    /// None for attempts that did not end their task run.
    state: Option<i16>,
    outcome: Option<i16>,
    started_at: Option<Micros>,
    finished_at: Micros,
}

impl EndRow {
    fn end(&self) -> anyhow::Result<End> {
        let state = self.state.map(TaskState::try_from).transpose().context("reading the state of a task run")?;
        Ok(End {
            generation: self.generation.into(),
            attempt: self.attempt,
            session: self.session,
            seq: self.seq,
            state,
            retries: self.outcome == Some(FAILED),
            released: self.outcome == Some(RELEASED),
            started_at: self.started_at,
            finished_at: self.finished_at,
        })
    }
}

/// The outcome of an attempt that failed.
const FAILED: i16 = 0;
/// … and of one that was handed back.
const RELEASED: i16 = 2;

const ENDS: &str = "\
    SELECT ID(run_id) AS run, idx, item, generation, attempt, session, seq, state, CAST(NULL AS smallint) AS outcome, started_at, finished_at FROM history \
    UNION ALL SELECT ID(run_id), idx, item, generation, attempt, session, seq, state, CAST(NULL AS smallint), started_at, finished_at FROM history_superseded";
const ATTEMPTS: &str = "\
    SELECT ID(run_id) AS run, idx, item, CAST(0 AS smallint) AS generation, attempt, session, seq, CAST(NULL AS smallint) AS state, outcome, started_at, finished_at \
    FROM attempts";

#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) runs: BTreeMap<RunId, RunState>,
    pub(super) generations: BTreeMap<RunId, i16>,
    pub(super) submissions: BTreeMap<String, RunId>,
    /// Runs that the clock started.
    pub(super) fired: BTreeSet<RunId>,
    /// Dead letters by id: whether they are still pending.
    pub(super) letters: BTreeMap<String, bool>,
    pub(super) ends: BTreeMap<TaskKey, Vec<End>>,
    /// Tokens (session, attempt) that are held.
    pub(super) held: BTreeSet<(TaskKey, i64, i32)>,
}

impl Record {
    pub(super) async fn read(url: &str) -> anyhow::Result<Self> {
        let mut snapshot = Snapshot::open(url).await?;
        let mut record = Self::default();
        for (id, state, generation) in
            snapshot.rows::<(String, i16, i16)>("SELECT ID(id), state, generation FROM runs").await?
        {
            let id = id.parse()?;
            record.runs.insert(id, RunState::try_from(state).context("reading the state of a run")?);
            record.generations.insert(id, generation);
        }
        for (key, run) in snapshot.rows::<(String, String)>("SELECT key, ID(run_id) FROM submissions").await? {
            record.submissions.insert(key, run.parse()?);
        }
        for (run,) in snapshot.rows::<(String,)>("SELECT ID(run_id) FROM fires WHERE run_id IS NOT NULL").await? {
            record.fired.insert(run.parse()?);
        }
        for (id, status) in snapshot.rows::<(String, i16)>("SELECT ID(id), status FROM dead_letters").await? {
            record.letters.insert(id, status == 0);
        }
        for sql in [ENDS, ATTEMPTS] {
            for row in snapshot.rows::<EndRow>(sql).await? {
                let key = TaskKey { run: row.run.parse()?, index: row.idx, item: row.item };
                record.ends.entry(key).or_default().push(row.end()?);
            }
        }
        let held: Vec<(String, i32, i32, i64, i32)> = snapshot
            .rows(
                "SELECT ID(run_id), idx, item, session, attempt FROM task_runs WHERE state = 2 AND session IS NOT NULL",
            )
            .await?;
        for (run, index, item, session, attempt) in held {
            record.held.insert((TaskKey { run: run.parse()?, index, item }, session, attempt));
        }
        snapshot.close().await;
        for ends in record.ends.values_mut() {
            ends.sort_by_key(|end| (end.attempt, end.seq));
        }
        Ok(record)
    }

    /// How many attempts there were when the generations before this one had ended.
    pub(super) fn attempts_before(&self, key: TaskKey, generation: i16) -> i32 {
        let ends = self.ends.get(&key).map(Vec::as_slice).unwrap_or_default();
        let earlier = ends.iter().filter(|end| end.state.is_some() && end.generation < generation.into());
        earlier.map(|end| end.attempt).max().unwrap_or(0)
    }

    /// Whether this token was ever given out.
    pub(super) fn knows(&self, key: TaskKey, session: i64, attempt: i32) -> bool {
        self.held.contains(&(key, session, attempt))
            || self
                .ends
                .get(&key)
                .is_some_and(|ends| ends.iter().any(|end| end.attempt == attempt && end.session == Some(session)))
    }
}
