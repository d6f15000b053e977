//! The numbered events of a run, in order and without a gap.
//!
//! The log is not a table: it is read from the rows that carry the numbers. Every number from 1 to `runs.seq` is carried by
//! exactly one row, but for the end of an ended run, which `runs` itself tells. One statement reads them all, so what it
//! returns is one moment of the run.

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId, TaskKey};

use crate::db::{Acquired, Store, read};
use crate::error::{Error, Result};
use crate::reads::clauses::hex_ids;
use crate::runs::transitions::Transition;

/// One numbered event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    pub seq: i64,
    pub at: Micros,
    pub what: RunEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEventKind {
    /// A task run ended; also one that a reopening has taken back since.
    TaskEnded { key: TaskKey, state: TaskState, attempt: AttemptEnd },
    /// An attempt ended that did not end its task run: it failed and is tried again, was lost, or handed back.
    AttemptEnded { key: TaskKey, outcome: AttemptOutcome, attempt: AttemptEnd },
    /// An operator acted on the run, or on one of its task runs.
    Action { task: Option<TaskKey>, action: String, by: String, reason: Option<String> },
    /// The run itself went on.
    Run { how: Transition, state: RunState, stage: i16 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    Failed,
    Lost,
    Released,
}

/// How one attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptEnd {
    pub number: i32,
    pub session: Option<i64>,
    pub started_at: Option<Micros>,
    pub exit_code: Option<i32>,
    pub error_kind: Option<String>,
    pub error: Option<String>,
}

/// A page of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLog {
    /// The last number that the run has given.
    pub seq: i64,
    pub state: RunState,
    pub events: Vec<RunEvent>,
}

impl RunLog {
    /// Whether there is nothing behind this page.
    pub fn is_complete(&self, after: i64) -> bool {
        self.events.last().map_or(after, |event| event.seq) >= self.seq
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunMark {
    pub id: RunId,
    pub seq: i64,
    pub state: RunState,
}

/// Sources: 0 history, 1 attempts, 2 actions, 3 transitions, 9 the run itself. Tasks below 1,000 are found by their key; the
/// others, and items, by an index that only they are in.
const LOG: &str = "SELECT * FROM (SELECT 0 AS source, h.seq, h.finished_at AS at, h.idx, h.item, h.state, h.attempt, h.session, h.started_at, h.exit_code, \
            h.error_kind AS word, h.error AS text, CAST(NULL AS text) AS reason \
        FROM runs r CROSS JOIN version_tasks vt CROSS JOIN history h \
        WHERE r.id = $1 AND vt.version = r.version AND vt.idx < 1000 AND h.run_id = r.id AND h.idx = vt.idx AND h.item = -1 AND h.seq > $2 \
        ORDER BY h.seq LIMIT $3) a \
     UNION ALL SELECT * FROM (SELECT 0, h.seq, h.finished_at, h.idx, h.item, h.state, h.attempt, h.session, h.started_at, h.exit_code, \
            h.error_kind, h.error, CAST(NULL AS text) \
        FROM history h WHERE h.run_id = $1 AND h.seq > $2 AND (h.item >= 0 OR h.idx >= 1000) ORDER BY h.seq LIMIT $3) b \
     UNION ALL SELECT * FROM (SELECT 0, h.seq, h.finished_at, h.idx, h.item, h.state, h.attempt, h.session, h.started_at, h.exit_code, \
            h.error_kind, h.error, CAST(NULL AS text) \
        FROM history_superseded h WHERE h.run_id = $1 AND h.seq > $2 ORDER BY h.seq LIMIT $3) c \
     UNION ALL SELECT * FROM (SELECT 1, t.seq, t.finished_at, t.idx, t.item, t.outcome, t.attempt, t.session, t.started_at, t.exit_code, \
            t.error_kind, t.error, CAST(NULL AS text) \
        FROM attempts t WHERE t.run_id = $1 AND t.seq > $2 ORDER BY t.seq LIMIT $3) d \
     UNION ALL SELECT * FROM (SELECT 2, o.seq, o.created_at, o.idx, o.item, CAST(NULL AS smallint), CAST(NULL AS integer), CAST(NULL AS bigint), \
            CAST(NULL AS bigint), CAST(NULL AS integer), o.action, o.actor, o.reason \
        FROM operator_actions o WHERE o.run_id = $1 AND o.seq > $2 ORDER BY o.seq LIMIT $3) e \
     UNION ALL SELECT * FROM (SELECT 3, n.seq, n.created_at, CAST(n.kind AS integer), CAST(n.stage AS integer), n.state, CAST(NULL AS integer), \
            CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS integer), CAST(NULL AS text), CAST(NULL AS text), CAST(NULL AS text) \
        FROM run_transitions n WHERE n.run_id = $1 AND n.seq > $2 ORDER BY n.seq LIMIT $3) f \
     UNION ALL SELECT 9, r.seq, coalesce(r.finished_at, 0), CAST(NULL AS integer), CAST(r.stage AS integer), r.state, CAST(NULL AS integer), \
            CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS integer), CAST(NULL AS text), CAST(NULL AS text), CAST(NULL AS text) \
        FROM runs r WHERE r.id = $1 \
     ORDER BY 1, 2";

#[derive(sqlx::FromRow)]
struct Row {
    source: i32,
    seq: i64,
    at: Micros,
    idx: Option<i32>,
    item: Option<i32>,
    state: Option<i16>,
    attempt: Option<i32>,
    session: Option<i64>,
    started_at: Option<Micros>,
    exit_code: Option<i32>,
    word: Option<String>,
    text: Option<String>,
    reason: Option<String>,
}

#[boxed]
impl Store {
    /// The events of a run after a number, at most `limit`.
    pub async fn run_log(&self, run: RunId, after: i64, limit: i64) -> Result<RunLog> {
        let rows: Vec<Row> =
            read!(self, |conn| sqlx::query_as(LOG).bind(run).bind(after).bind(limit).fetch_all(conn).await?);
        let Some((head, rows)) = rows.split_last().filter(|(head, _)| head.source == 9) else {
            return Err(Error::not_found(format!("run {run}")));
        };
        let state = run_state(run, head)?;
        let mut events = rows.iter().map(|row| event(run, row)).collect::<Result<Vec<_>>>()?;
        events.sort_unstable_by_key(|event| event.seq);
        if state.is_terminal() {
            insert_end(run, &mut events, after, head, state);
        }
        events.truncate(usize::try_from(limit).unwrap_or(0));
        Ok(RunLog { seq: head.seq, state, events })
    }

    /// Where these runs stand; those that do not exist are missing.
    pub async fn run_marks(&self, runs: &[RunId]) -> Result<Vec<RunMark>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(RunId, i64, i16)> = match &mut self.to_read().await? {
            Acquired::Postgres(pg) => {
                sqlx::query_as("SELECT id, seq, state FROM runs WHERE id = ANY ($1)")
                    .bind(runs)
                    .fetch_all(pg.connection())
                    .await?
            }
            Acquired::Sqlite(sqlite) => {
                sqlx::query_as(
                    "SELECT r.id, r.seq, r.state FROM json_each($1) k CROSS JOIN runs r ON r.id = unhex(k.value)",
                )
                .bind(hex_ids(runs))
                .fetch_all(sqlite.connection().await?)
                .await?
            }
        };
        rows.into_iter()
            .map(|(id, seq, state)| {
                let state = RunState::try_from(state).map_err(|error| Error::bad_row("runs", "state", id, error))?;
                Ok(RunMark { id, seq, state })
            })
            .collect()
    }
}

fn run_state(run: RunId, row: &Row) -> Result<RunState> {
    let code = row.state.unwrap_or(-1);
    RunState::try_from(code).map_err(|error| Error::bad_row("runs", "state", run, error))
}

/// The end of an ended run is the number that no row carries. In a page it is where the numbers jump, or behind its last
/// row if the page goes on to the end.
fn insert_end(run: RunId, events: &mut Vec<RunEvent>, after: i64, head: &Row, state: RunState) {
    let mut expected = after + 1;
    let at = events.iter().position(|event| {
        let jumps = event.seq != expected;
        expected = event.seq + 1;
        jumps
    });
    let (at, seq) = match at {
        Some(at) => (at, events[at].seq - 1),
        None => (events.len(), events.last().map_or(after, |event| event.seq) + 1),
    };
    if seq > head.seq {
        return;
    }
    let what = RunEventKind::Run { how: Transition::Ended, state, stage: head.item.unwrap_or(0) as i16 };
    debug_assert!(events.iter().all(|event| event.seq != seq), "run {run} has given number {seq} twice");
    events.insert(at, RunEvent { seq, at: head.at, what });
}

fn event(run: RunId, row: &Row) -> Result<RunEvent> {
    let key = TaskKey { run, index: row.idx.unwrap_or(0), item: row.item.unwrap_or(-1) };
    let code = row.state.unwrap_or(-1);
    let attempt = || AttemptEnd {
        number: row.attempt.unwrap_or(0),
        session: row.session,
        started_at: row.started_at,
        exit_code: row.exit_code,
        error_kind: row.word.clone(),
        error: row.text.clone(),
    };
    let what = match row.source {
        0 => RunEventKind::TaskEnded {
            key,
            state: TaskState::try_from(code).map_err(|error| Error::bad_row("history", "state", key, error))?,
            attempt: attempt(),
        },
        1 => RunEventKind::AttemptEnded {
            key,
            outcome: match code {
                0 => AttemptOutcome::Failed,
                1 => AttemptOutcome::Lost,
                2 => AttemptOutcome::Released,
                other => return Err(Error::bad_row("attempts", "outcome", key, other)),
            },
            attempt: attempt(),
        },
        2 => RunEventKind::Action {
            task: row.idx.map(|_| key),
            action: row.word.clone().unwrap_or_default(),
            by: row.text.clone().unwrap_or_default(),
            reason: row.reason.clone(),
        },
        _ => RunEventKind::Run {
            how: Transition::try_from(row.idx.unwrap_or(-1) as i16)
                .map_err(|code| Error::bad_row("run_transitions", "kind", run, code))?,
            state: run_state(run, row)?,
            stage: row.item.unwrap_or(0) as i16,
        },
    };
    Ok(RunEvent { seq: row.seq, at: row.at, what })
}
