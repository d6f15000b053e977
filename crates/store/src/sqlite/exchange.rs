//! The exchange: the twin of `exchange_v1`.

use std::collections::HashMap;

use mainspring_core::TaskKey;
use mainspring_core::state::{RunState, TaskState};
use sqlx::sqlite::SqliteRow;

use super::SqliteTx;
use super::bulk::{Bulk, Columns, Values};
use super::continuing::go_on;
use super::limits::limits;
use super::placing::{Candidate, Demand, Slots, candidate_columns, place};
use super::settle::{remove, settle_into};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::exchange::{Claimed, DecidedStart, Ended, Exchange, Lane, Reply, TaskToken};
use crate::flags::{HAS_CONDITION, is_stopped};
use crate::settle::Gone;

// Several statements in one text are one hop to the connection's thread.

// The guard makes the exchange happen once; then every session must be live.
const OPEN: &str = "BEGIN IMMEDIATE; \
    UPDATE lanes SET seq = $2 WHERE id = $1 AND seq = $2 - 1 RETURNING 0, id; \
    SELECT 1, id FROM sessions WHERE id IN (SELECT value FROM json_each($3)) AND NOT dead";

macro_rules! claim {
    () => {
        "UPDATE task_runs SET state = 2, attempt = attempt + 1, session = $3, claim = $4, started_at = $2 \
         WHERE (run_id, idx, item) IN \
             (SELECT s.run_id, s.idx, s.item FROM task_runs s WHERE s.state = 1 AND s.route = $5 ORDER BY s.rank, s.due_at LIMIT $6) \
         RETURNING 1, run_id, idx, item, attempt, failures, generation, version, session, route, rank, due_at"
    };
}

// Who has ended is not asked to stop any more.
macro_rules! finish {
    () => {
        "DELETE FROM cancel_requests WHERE session IN (SELECT value FROM json_each($1)) AND NOT EXISTS ( \
             SELECT 1 FROM task_runs t WHERE t.run_id = cancel_requests.run_id AND t.idx = cancel_requests.idx \
             AND t.item = cancel_requests.item AND t.state = 2 AND t.session = cancel_requests.session \
             AND t.attempt = cancel_requests.attempt); \
         SELECT 5, run_id, idx, item, attempt, 0, 0, 0, session, 0, 0, 0 FROM cancel_requests \
         WHERE session IN (SELECT value FROM json_each($1)); \
         COMMIT"
    };
}

const CLAIM: &str = claim!();
const CLAIM_AND_FINISH: &str = concat!(claim!(), "; ", finish!());
const FINISH: &str = finish!();

const TAKE_UNDECIDED: &str = "UPDATE task_runs SET session = $1, claim = $2 \
    WHERE (run_id, idx, item) IN \
        (SELECT s.run_id, s.idx, s.item FROM task_runs s WHERE s.state = 4 AND s.session IS NULL ORDER BY s.due_at LIMIT $3) \
    RETURNING 2, run_id, idx, item, attempt, failures, generation, version, session, route, rank, due_at";

// The live row must be claimed by exactly this session and attempt.
static ENDED: Bulk = Bulk::new(
    "WITH v(run, idx, item, state, session, attempt) AS (VALUES ",
    6,
    ") DELETE FROM task_runs WHERE (run_id, idx, item, state, session, attempt) IN (SELECT * FROM v) \
     RETURNING run_id, idx, item, session, attempt, state, version, flags, generation, failures, lost, pool, started_at",
);

static APPLIED: Bulk = Bulk::new(
    "WITH v(ord, run, idx, item, session, attempt) AS (VALUES ",
    6,
    ") SELECT v.ord FROM v CROSS JOIN history h ON h.run_id = v.run AND h.idx = v.idx AND h.item = v.item \
     WHERE h.attempt = v.attempt AND h.session = v.session",
);

static DECIDED: Bulk = Bulk::new(
    "WITH v(run, idx, item, session) AS (VALUES ",
    4,
    concat!(
        ") SELECT ",
        candidate_columns!(),
        ", r.state, r.stage, r.flags FROM v CROSS JOIN task_runs t ON t.run_id = v.run AND t.idx = v.idx AND t.item = v.item \
         CROSS JOIN runs r ON r.id = t.run_id WHERE t.state = 4 AND t.session = v.session"
    ),
);

pub(crate) async fn exchange(lane: &mut Lane, exchange: &Exchange) -> Result<Reply> {
    let Db::Sqlite(sqlite) = &*lane.store.db else {
        return Err(Error::Conflict("a SQLite lane on PostgreSQL".into()));
    };
    let sessions = serde_json::to_string(&exchange.sessions).unwrap_or_default();
    let mut tx = sqlite.reserve().await?;
    let mut reply = Reply::default();
    let live = open(&mut tx, lane, &sessions).await?;
    reply.dead_sessions = exchange.sessions.iter().copied().filter(|session| !live.contains(session)).collect();
    if !reply.dead_sessions.is_empty() {
        tx.commit().await?;
        return Ok(reply);
    }

    let now = exchange.now;
    let mut demand = Demand::of(exchange, lane.next_claim());
    let mut gone = end(&mut tx, &exchange.ended, &mut reply).await?;
    gone.extend(go_on(&mut tx, now, &exchange.goes_on, &mut reply).await?);
    gone.extend(start(&mut tx, exchange, &mut demand, &mut reply).await?);
    gone.sort_unstable_by_key(|row| row.key);
    if !gone.is_empty() {
        settle_into(&mut tx, now, &gone, &[], &mut demand, &mut reply).await?;
    }
    if exchange.look_for_undecided && demand.decide > 0 {
        let rows = sqlx::query(TAKE_UNDECIDED)
            .bind(demand.decide_session)
            .bind(demand.claim)
            .bind(demand.decide)
            .fetch_all(tx.connection())
            .await?;
        answer(&rows, &mut reply)?;
    }
    claim_and_finish(tx, exchange, &sessions, &demand, &mut reply).await?;
    Ok(reply)
}

/// Begins the unit and moves the guard. Returns the live sessions.
async fn open(tx: &mut SqliteTx, lane: &Lane, sessions: &str) -> Result<Vec<i64>> {
    let rows = sqlx::query(OPEN).bind(lane.id).bind(lane.seq + 1).bind(sessions).fetch_all(tx.connection()).await?;
    let mut moved = false;
    let mut live = Vec::new();
    for row in &rows {
        let mut columns = Columns::of(row);
        match columns.get::<i64>()? {
            0 => moved = true,
            _ => live.push(columns.get()?),
        }
    }
    if moved { Ok(live) } else { Err(Error::InDoubt("exchange")) }
}

/// Removes the rows of what ended. What does not hold its row is fenced, unless it is the very one that was applied already.
async fn end(tx: &mut SqliteTx, ended: &[Ended], reply: &mut Reply) -> Result<Vec<Gone>> {
    if ended.is_empty() {
        return Ok(Vec::new());
    }
    let add = |row: &Ended, values: &mut Values| {
        let token = row.token;
        values
            .add(token.key.run)
            .add(token.key.index)
            .add(token.key.item)
            .add(row.from.code())
            .add(token.session)
            .add(token.attempt);
    };
    let rows = ENDED.fetch(tx.connection(), ended, add).await?;
    // A result that is handed in twice is answered once.
    let mut handed_in: HashMap<TaskToken, (usize, &Ended)> = HashMap::with_capacity(ended.len());
    for (ord, row) in ended.iter().enumerate() {
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
        let token = row.token;
        values
            .add(*ord as i64)
            .add(token.key.run)
            .add(token.key.index)
            .add(token.key.item)
            .add(token.session)
            .add(token.attempt);
    };
    let mut applied = Vec::new();
    for row in &APPLIED.fetch(tx.connection(), refused, add).await? {
        applied.push(Columns::of(row).get::<i64>()?);
    }
    let fenced = refused.iter().filter(|(ord, _)| !applied.contains(&(*ord as i64))).map(|(_, row)| row.token);
    reply.fenced.extend(fenced);
    Ok(())
}

/// Decisions to start: straight to a slot where route and rank allow, else to the queue or its gate. Returns those that
/// come too late, because their stage is being cancelled.
async fn start(tx: &mut SqliteTx, exchange: &Exchange, demand: &mut Demand, reply: &mut Reply) -> Result<Vec<Gone>> {
    if exchange.starts.is_empty() {
        return Ok(Vec::new());
    }
    let add = |row: &DecidedStart, values: &mut Values| {
        values.add(row.key.run).add(row.key.index).add(row.key.item).add(row.session);
    };
    let mut candidates = Vec::with_capacity(exchange.starts.len());
    let mut late = Vec::new();
    for row in &DECIDED.fetch(tx.connection(), &exchange.starts, add).await? {
        let mut columns = Columns::of(row);
        let mut candidate = Candidate::read(&mut columns)?;
        candidate.run_is_running = columns.get::<i16>()? == RunState::Running.code();
        let (stage, flags) = (columns.get()?, columns.get()?);
        if is_stopped(flags, stage) {
            late.push(candidate.end(exchange.now, TaskState::Cancelled));
        } else {
            candidate.flags &= !HAS_CONDITION;
            candidates.push(candidate);
        }
    }
    let keys: Vec<TaskKey> = late.iter().map(|row| row.key).collect();
    remove(tx, &keys).await?;
    let touched = place(tx, exchange.now, candidates, demand, reply).await?;
    limits(tx, exchange.now, &[], &[], &touched).await?;
    Ok(late)
}

/// Claims route by route, reads who is to be cancelled, and commits with the last statement.
async fn claim_and_finish(
    mut tx: SqliteTx,
    exchange: &Exchange,
    sessions: &str,
    demand: &Demand,
    reply: &mut Reply,
) -> Result<()> {
    let open: Vec<&Slots> = demand.wants.iter().filter(|slots| slots.free > 0).collect();
    if open.is_empty() {
        let rows = sqlx::query(FINISH).bind(sessions).fetch_all(tx.connection()).await?;
        answer(&rows, reply)?;
    }
    for (at, slots) in open.iter().enumerate() {
        let text = if at + 1 == open.len() { CLAIM_AND_FINISH } else { CLAIM };
        let rows = sqlx::query(text)
            .bind(sessions)
            .bind(exchange.now)
            .bind(slots.session)
            .bind(demand.claim)
            .bind(slots.route)
            .bind(slots.free)
            .fetch_all(tx.connection())
            .await?;
        answer(&rows, reply)?;
    }
    tx.committed();
    Ok(())
}

fn answer(rows: &[SqliteRow], reply: &mut Reply) -> Result<()> {
    for row in rows {
        let mut columns = Columns::of(row);
        let kind = columns.get()?;
        let key = TaskKey { run: columns.uuid()?, index: columns.get()?, item: columns.get()? };
        let attempt = columns.get()?;
        let (failures, generation, version) = (columns.get()?, columns.get()?, columns.get()?);
        let token = TaskToken { key, session: columns.get()?, attempt };
        let claimed = Claimed {
            token,
            version,
            failures,
            generation,
            route: columns.get()?,
            rank: columns.get()?,
            due_at: columns.get()?,
        };
        reply.push(kind, claimed)?;
    }
    Ok(())
}
