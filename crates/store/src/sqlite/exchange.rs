//! The exchange: the twin of `exchange_v1`.

use mainspring_core::state::{RunState, TaskState};

use super::bulk::{Bulk, Columns, Values};
use super::continuing::continue_attempts;
use super::ending::Remembered;
use super::limits::limits;
use super::placing::{Candidate, Demand, candidate_columns, place};
use super::settle::{remove, settle_into};
use super::{SqliteTx, claiming, ending};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::exchange::{DecidedStart, Exchange, Lane, Reply};
use crate::runs::flags::{HAS_CONDITION, is_stopped};
use crate::runs::settle::EndedTaskRun;

// The guard makes the exchange happen once; then every session must be live.
pub(super) const OPEN: &str = "BEGIN IMMEDIATE; \
    UPDATE lanes SET seq = seq + 1 WHERE id = ? AND seq = ? RETURNING 0, id; \
    SELECT 1, id FROM sessions WHERE id IN (SELECT value FROM json_each(?)) AND NOT dead";

pub(super) static DECIDED: Bulk = Bulk::new(
    "WITH v(run, idx, item, session) AS (VALUES ",
    4,
    sql!(concat!(
        ") SELECT ",
        candidate_columns!(),
        ", r.state, r.stage, r.flags FROM v CROSS JOIN task_runs t ON t.run_id = v.run AND t.idx = v.idx AND t.item = v.item \
         CROSS JOIN runs r ON r.id = t.run_id WHERE t.state = {task.deciding} AND t.session = v.session"
    )),
);

pub(crate) async fn exchange(lane: &mut Lane, exchange: &Exchange) -> Result<Reply> {
    match unit(lane, exchange, true).await? {
        Some(reply) => Ok(reply),
        None => unit(lane, exchange, false).await?.ok_or_else(|| Error::Conflict("a row ended twice".into())),
    }
}

/// One try. `None`: nothing was done, because what is remembered of the rows that ended did not fit (one of them is fenced);
/// then they must be read.
async fn unit(lane: &Lane, exchange: &Exchange, remembering: bool) -> Result<Option<Reply>> {
    let Db::Sqlite(sqlite) = &*lane.store.db else {
        return Err(Error::Conflict("a SQLite lane on PostgreSQL".into()));
    };
    let sessions = serde_json::to_string(&exchange.sessions).unwrap_or_default();
    let mut tx = sqlite.reserve().await?;
    let mut reply = Reply::default();
    let remembered = if remembering { ending::remembered(&tx, &exchange.ended) } else { None };
    let opened = open(&mut tx, lane, &sessions, remembered.as_ref()).await?;
    reply.dead_sessions = exchange.sessions.iter().copied().filter(|session| !opened.live.contains(session)).collect();
    if !reply.dead_sessions.is_empty() {
        if opened.removed > 0 {
            // A dead session ends nothing: once more, without removing anything.
            return Ok(None);
        }
        // Its number is used up and nothing was applied: who lost this answer must find that too.
        let void = sqlx::query("UPDATE lanes SET voided = seq WHERE id = $1").bind(lane.id);
        void.execute(tx.connection().await?).await?;
        tx.commit().await?;
        return Ok(Some(reply));
    }

    let now = exchange.now;
    let mut demand = Demand::of(exchange, lane.next_claim());
    let mut gone = match remembered {
        Some(remembered) => match remembered.end(&mut tx, opened.removed).await? {
            Some(gone) => gone,
            None => return Ok(None),
        },
        None => ending::end(&mut tx, &exchange.ended, &mut reply).await?,
    };
    gone.extend(continue_attempts(&mut tx, now, &exchange.continued, &mut reply).await?);
    gone.extend(start(&mut tx, exchange, &mut demand, &mut reply).await?);
    gone.sort_unstable_by_key(|row| row.key);
    if !gone.is_empty() {
        settle_into(&mut tx, now, &gone, &[], &mut demand, &mut reply).await?;
    }
    if exchange.look_for_undecided && demand.decide > 0 {
        claiming::take_undecided(&mut tx, &demand, &mut reply).await?;
    }
    claiming::claim_and_finish(tx, now, &sessions, &demand, &mut reply).await?;
    Ok(Some(reply))
}

/// Begins a unit of the lane that hands nothing in; which of the sessions are live.
pub(super) async fn open_guarded(tx: &mut SqliteTx, lane: &Lane, sessions: &[i64]) -> Result<Vec<i64>> {
    let sessions = serde_json::to_string(sessions).unwrap_or_default();
    Ok(open(tx, lane, &sessions, None).await?.live)
}

/// How an exchange begins.
#[derive(Debug, Default)]
struct Opened {
    live: Vec<i64>,
    /// How many rows of what ended are removed already.
    removed: usize,
}

/// Begins the unit, moves the guard, reads which sessions are live, and removes what ended if it is known and little.
async fn open(tx: &mut SqliteTx, lane: &Lane, sessions: &str, ended: Option<&Remembered>) -> Result<Opened> {
    let mut script = tx.script();
    script.push(OPEN).add(lane.id).add(lane.seq).add(sessions);
    if let Some(ended) = ended {
        ended.say_if_few(&mut script);
    }
    let mut opened = Opened::default();
    let mut moved = false;
    for row in &tx.fetch(script).await? {
        let mut columns = Columns::of(row);
        match columns.get::<i64>()? {
            0 => moved = true,
            1 => opened.live.push(columns.get()?),
            _ => opened.removed += 1,
        }
    }
    if moved { Ok(opened) } else { Err(Error::InDoubt("exchange")) }
}

/// Decisions to start: straight to a slot where route and rank allow, else to the queue or its gate. Returns those that
/// come too late, because their stage is being cancelled.
async fn start(
    tx: &mut SqliteTx,
    exchange: &Exchange,
    demand: &mut Demand,
    reply: &mut Reply,
) -> Result<Vec<EndedTaskRun>> {
    if exchange.starts.is_empty() {
        return Ok(Vec::new());
    }
    let add = |row: &DecidedStart, values: &mut Values| {
        values.add(row.key.run).add(row.key.index).add(row.key.item).add(row.session);
    };
    let mut candidates = Vec::with_capacity(exchange.starts.len());
    let (mut late, mut removed) = (Vec::new(), Vec::new());
    for row in &DECIDED.fetch(tx, &exchange.starts, add).await? {
        let mut columns = Columns::of(row);
        let mut candidate = Candidate::read(&mut columns)?;
        candidate.run_is_running = columns.get::<i16>()? == RunState::Running.code();
        let (stage, flags) = (columns.get()?, columns.get()?);
        if is_stopped(flags, stage) {
            removed.push(candidate.at);
            late.push(candidate.end(exchange.now, TaskState::Cancelled));
        } else {
            candidate.flags &= !HAS_CONDITION;
            candidates.push(candidate);
        }
    }
    remove(tx, &removed).await?;
    let touched = place(tx, exchange.now, candidates, demand, reply).await?;
    limits(tx, exchange.now, &[], &[], &touched).await?;
    Ok(late)
}
