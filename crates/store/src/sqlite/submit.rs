//! Runs with what their requests leave, and the first tasks that start with them.

use mainspring_core::Micros;

use super::SqliteTx;
use super::bulk::{Bulk, Columns as Read, Values};
use super::exchange::open_guarded;
use super::placing::{Candidate, Demand, candidate_columns, place};
use super::runs::create;
use crate::access::{AuditRow, KeptAnswer};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::create::RunSeed;
use crate::runs::exchange::{Exchange, Lane, Reply, Want};
use crate::runs::submit::{Columns, Started};
use crate::unit::RequestKey;

static KEYS: Bulk = Bulk::new(
    "WITH v(actor, key, hash, claim, at, status, kind, body) AS (VALUES ",
    8,
    ") INSERT OR ROLLBACK INTO idempotent_requests (actor, key, request_hash, claim, created_at, status, content_type, body) \
     SELECT actor, key, hash, claim, at, status, kind, body FROM v WHERE v.actor IS NOT NULL",
);

static AUDIT: Bulk = Bulk::new(
    "WITH v(id, at, actor, address, method, path, namespace, status, request, detail) AS (VALUES ",
    10,
    ") INSERT OR ROLLBACK INTO audit_log (id, at, actor, address, method, path, namespace, status, request_id, detail) \
     SELECT id, at, actor, address, method, path, namespace, status, request, detail FROM v WHERE v.id IS NOT NULL",
);

// What pools gave slots to is left for the lanes.
pub(super) static FIRST: Bulk = Bulk::new(
    "WITH v(run) AS (VALUES ",
    1,
    sql!(concat!(
        ") SELECT t.state = {task.ready} AND t.pool IS NULL, ",
        candidate_columns!(),
        " FROM v CROSS JOIN task_runs t ON t.run_id = v.run WHERE t.state <> {task.pending}"
    )),
);

/// The next unit of a lane: makes the runs and starts first tasks.
pub(crate) async fn start(lane: &Lane, now: Micros, columns: &Columns<'_>, want: &[Want]) -> Result<Started> {
    let Db::Sqlite(sqlite) = &*lane.store.db else {
        return Err(Error::Conflict("a SQLite lane on PostgreSQL".into()));
    };
    let mut tx = sqlite.reserve().await?;
    let sessions: Vec<i64> = want.iter().map(|want| want.session).take(1).collect();
    let live = open_guarded(&mut tx, lane, &sessions).await?;
    create(&mut tx, now, &columns.seeds, &columns.pools).await?;
    leave(&mut tx, columns).await?;
    // Who is dead starts nothing, and the runs are made all the same.
    let want = want.iter().filter(|want| live.contains(&want.session)).copied().collect();
    let mut demand = Demand::of(&Exchange { want, ..Exchange::default() }, lane.next_claim());
    if demand.wants.is_empty() {
        tx.commit().await?;
        return Ok(Started { left: true, ..Started::default() });
    }
    let mut started = Started::default();
    let mut candidates = Vec::new();
    let add = |seed: &RunSeed, values: &mut Values| _ = values.add(seed.id);
    for row in &FIRST.fetch(&mut tx, &columns.seeds, add).await? {
        let mut row = Read::of(row);
        if row.get::<bool>()? {
            candidates.push(Candidate { run_is_running: true, ..Candidate::read(&mut row)? });
        } else {
            started.left = true;
        }
    }
    let waiting = candidates.len();
    let candidates = demand.fitting(candidates);
    started.left |= candidates.len() < waiting;
    let mut reply = Reply::default();
    place(&mut tx, now, candidates, &mut demand, &mut reply).await?;
    tx.commit().await?;
    started.claimed = reply.claimed;
    Ok(started)
}

/// Keys with their answers, and audit rows.
pub(crate) async fn leave(tx: &mut SqliteTx, columns: &Columns<'_>) -> Result<()> {
    let (keys, audit) = (&columns.keys, &columns.audit);
    let key = |(key, answer): &&(RequestKey, KeptAnswer), values: &mut Values| {
        values.add(key.actor.as_str()).add(key.key.as_str()).add(&key.hash[..]).add(key.claim).add(key.at);
        values.add(i16::try_from(answer.status).unwrap_or(500)).add(answer.content_type.as_deref());
        values.add(answer.body.as_deref());
    };
    KEYS.defer(tx, keys, key).await?;
    let row = |row: &&AuditRow, values: &mut Values| {
        values.add(row.id).add(row.at).add(row.actor.as_str()).add(row.address.as_deref());
        values.add(row.method.as_str()).add(row.path.as_str()).add(row.namespace.as_deref()).add(row.status);
        values.add(row.request_id.as_str()).add(row.detail.as_deref());
    };
    AUDIT.defer(tx, audit, row).await?;
    Ok(())
}
