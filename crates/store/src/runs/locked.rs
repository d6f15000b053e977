//! Runs whose rows a transaction has locked.

use std::collections::BTreeMap;

use mainspring_core::RunId;
use mainspring_core::state::RunState;

use crate::db::{Tx, locking, within};
use crate::error::{Error, Result};
use crate::over_rows::fetch_over_rows;
use crate::runs::flags::is_stopped;

/// A run whose row this transaction has locked.
#[derive(Debug, Clone)]
pub(crate) struct LockedRun {
    pub(crate) id: RunId,
    pub(crate) version: i64,
    pub(crate) state: RunState,
    pub(crate) stage: i16,
    pub(crate) flags: i16,
    pub(crate) generation: i16,
    /// How many task runs of its stage are live.
    pub(crate) open: i32,
    pub(crate) limit: Option<i32>,
    pub(crate) seq: i64,
}

impl LockedRun {
    /// Whether nothing more of its stage may start.
    pub(crate) fn is_stopped(&self) -> bool {
        is_stopped(self.flags, self.stage)
    }

    /// Takes the next number of the run's log, for a row that this transaction writes.
    pub(crate) async fn next_number(&mut self, tx: &mut Tx) -> Result<i64> {
        let (seq,): (i64,) =
            within!(tx, |conn| sqlx::query_as("UPDATE runs SET seq = seq + 1 WHERE id = $1 RETURNING seq")
                .bind(self.id)
                .fetch_one(conn)
                .await?);
        self.seq = seq;
        Ok(seq)
    }
}

#[derive(sqlx::FromRow)]
struct LockedRunRow {
    id: RunId,
    version: i64,
    state: i16,
    stage: i16,
    flags: i16,
    generation: i16,
    open: i32,
    limit_id: Option<i32>,
    seq: i64,
}

impl TryFrom<LockedRunRow> for LockedRun {
    type Error = Error;

    fn try_from(row: LockedRunRow) -> Result<Self> {
        let state = RunState::try_from(row.state).map_err(|error| Error::bad_row("runs", "state", row.id, error))?;
        Ok(Self {
            id: row.id,
            version: row.version,
            state,
            stage: row.stage,
            flags: row.flags,
            generation: row.generation,
            open: row.open,
            limit: row.limit_id,
            seq: row.seq,
        })
    }
}

pub(crate) async fn lock_run(tx: &mut Tx, id: RunId) -> Result<LockedRun> {
    let sql = locking!(
        tx,
        "SELECT id, version, state, stage, flags, generation, open, limit_id, seq FROM runs WHERE id = $1",
        "FOR NO KEY UPDATE"
    );
    let row: LockedRunRow = within!(tx, |conn| sqlx::query_as(sql).bind(id).fetch_optional(conn).await?)
        .ok_or_else(|| Error::not_found(format!("run {id}")))?;
    row.try_into()
}

/// Locks runs in order of id. Those that do not exist are left out.
pub(crate) async fn lock_runs(tx: &mut Tx, ids: &[RunId]) -> Result<BTreeMap<RunId, LockedRun>> {
    let sql = locking!(
        tx,
        "SELECT id, version, state, stage, flags, generation, open, limit_id, seq FROM runs \
         WHERE id IN (SELECT k.id FROM k) ORDER BY id",
        "FOR NO KEY UPDATE"
    );
    locked(tx, ids, sql).await
}

/// The same, but those that another transaction has locked are left out too.
pub(crate) async fn lock_free_runs(tx: &mut Tx, ids: &[RunId]) -> Result<BTreeMap<RunId, LockedRun>> {
    let sql = locking!(
        tx,
        "SELECT id, version, state, stage, flags, generation, open, limit_id, seq FROM runs \
         WHERE id IN (SELECT k.id FROM k) ORDER BY id",
        "FOR NO KEY UPDATE SKIP LOCKED"
    );
    locked(tx, ids, sql).await
}

async fn locked(tx: &mut Tx, ids: &[RunId], sql: &'static str) -> Result<BTreeMap<RunId, LockedRun>> {
    let rows: Vec<LockedRunRow> =
        fetch_over_rows!(tx, "id", ids, |values, id| _ = values.push_bind(*id), |query| _ = query.push(sql));
    rows.into_iter().map(|row| Ok((row.id, LockedRun::try_from(row)?))).collect()
}
