//! Claims, and the end of the exchange.

use mainspring_core::{Micros, TaskKey};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::SqliteTx;
use super::bulk::Columns;
use super::database::Running;
use super::placing::{Demand, Slots};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::exchange::{Claimed, Reply, TaskToken};

// What is claimed is read as one JSON text: a row of its own for each would cost more than the claim. Both statements
// choose the same rows, because the number settles every tie. The time is from before this unit waited for its turn: what
// was due later than that began later.
pub(super) const CLAIM: &str = sql!(
    "SELECT json_group_array(json_array(at, hex(run_id), idx, item, attempt, failures, generation, \
                                        version, rank, due_at, flags, lost, pool)) \
     FROM (SELECT rowid AS at, * FROM task_runs WHERE state = {task.ready} AND route = ? ORDER BY rank, due_at, rowid LIMIT ?); \
     UPDATE task_runs SET state = {task.running}, attempt = attempt + 1, session = ?, claim = ?, \
         started_at = CASE WHEN failures > 0 THEN max(?, due_at) ELSE ? END \
     WHERE rowid IN \
         (SELECT s.rowid FROM task_runs s WHERE s.state = {task.ready} AND s.route = ? ORDER BY s.rank, s.due_at, s.rowid LIMIT ?)"
);

// Who has ended is not asked to stop any more.
pub(super) const FINISH: &str = sql!(
    "DELETE FROM cancel_requests WHERE session IN (SELECT value FROM json_each(?)) AND NOT EXISTS ( \
         SELECT 1 FROM task_runs t WHERE t.run_id = cancel_requests.run_id AND t.idx = cancel_requests.idx \
         AND t.item = cancel_requests.item AND +t.state = {task.running} AND +t.session = cancel_requests.session \
         AND t.attempt = cancel_requests.attempt); \
     SELECT run_id, idx, item, session, attempt FROM cancel_requests WHERE session IN (SELECT value FROM json_each(?)); \
     COMMIT"
);

pub(super) const TAKE_UNDECIDED: &str = sql!(
    "UPDATE task_runs SET session = $1, claim = $2 \
    WHERE rowid IN (SELECT s.rowid FROM task_runs s WHERE s.state = {task.deciding} AND s.session IS NULL ORDER BY s.due_at LIMIT $3) \
    RETURNING run_id, idx, item, attempt, failures, generation, version, route, rank, due_at"
);

/// One claimed row as the JSON has it, before its attempt was counted.
type ClaimedRow<'j> = (i64, &'j str, i32, i32, i32, i16, i16, i64, i16, Micros, i16, i16, Option<i32>);

/// Claims route by route, reads who is to be cancelled, and commits with the last statement.
pub(super) async fn claim_and_finish(
    mut tx: SqliteTx,
    now: Micros,
    sessions: &str,
    demand: &Demand,
    reply: &mut Reply,
) -> Result<()> {
    let open: Vec<&Slots> = demand.wants.iter().filter(|slots| slots.free > 0).collect();
    for (nth, slots) in open.iter().enumerate() {
        let mut script = tx.script();
        let values = script.push(CLAIM).add(slots.route).add(slots.free).add(slots.session).add(demand.claim);
        values.add(now).add(now).add(slots.route).add(slots.free);
        if nth + 1 == open.len() {
            script.push(FINISH).add(sessions).add(sessions);
        }
        let rows = tx.fetch(script).await?;
        let Some((claimed, cancelled)) = rows.split_first() else { continue };
        read_claimed(&mut tx, now, claimed, slots, demand.claim, reply)?;
        read_cancelled(cancelled, reply)?;
    }
    if open.is_empty() {
        let mut script = tx.script();
        script.push(FINISH).add(sessions).add(sessions);
        read_cancelled(&tx.fetch(script).await?, reply)?;
    }
    tx.committed();
    Ok(())
}

/// Takes rows that no node decides yet.
pub(super) async fn take_undecided(tx: &mut SqliteTx, demand: &Demand, reply: &mut Reply) -> Result<()> {
    let session = demand.decide_session;
    let query = sqlx::query(TAKE_UNDECIDED).bind(session).bind(demand.claim).bind(demand.decide);
    for row in &query.fetch_all(tx.connection().await?).await? {
        let mut columns = Columns::of(row);
        let key = TaskKey { run: columns.uuid()?, index: columns.get()?, item: columns.get()? };
        reply.to_decide.push(Claimed {
            token: TaskToken { key, session, attempt: columns.get()? },
            failures: columns.get()?,
            generation: columns.get()?,
            version: columns.get()?,
            route: columns.get()?,
            rank: columns.get()?,
            due_at: columns.get()?,
        });
    }
    Ok(())
}

fn read_claimed(
    tx: &mut SqliteTx,
    now: Micros,
    row: &SqliteRow,
    slots: &Slots,
    claim: i64,
    reply: &mut Reply,
) -> Result<()> {
    let text: &str = Columns::of(row).get()?;
    let bad_row = |error: &dyn std::fmt::Display| Error::bad_row("task_runs", "claimed", slots.route, error);
    let rows: Vec<ClaimedRow<'_>> = serde_json::from_str(text).map_err(|error| bad_row(&error))?;
    for (at, run, index, item, attempt, failures, generation, version, rank, due_at, flags, lost, pool) in rows {
        let run = Uuid::try_parse(run).map_err(|error| bad_row(&error))?;
        let token = TaskToken { key: TaskKey { run, index, item }, session: slots.session, attempt: attempt + 1 };
        let started_at = if failures > 0 { now.max(due_at) } else { now };
        tx.now_runs(token, Running { at, claim, version, flags, generation, failures, lost, pool, started_at });
        reply.claimed.push(Claimed { token, version, route: slots.route, rank, due_at, failures, generation });
    }
    Ok(())
}

fn read_cancelled(rows: &[SqliteRow], reply: &mut Reply) -> Result<()> {
    for row in rows {
        debug_assert_eq!(row.len(), 5);
        let mut columns = Columns::of(row);
        let key = TaskKey { run: columns.uuid()?, index: columns.get()?, item: columns.get()? };
        reply.cancel.push(TaskToken { key, session: columns.get()?, attempt: columns.get()? });
    }
    Ok(())
}
