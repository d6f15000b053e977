//! What follows from task runs having ended, for every unit but the hot one (which has it inside).

use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId, TaskKey};

use crate::db::Tx;
use crate::error::Result;
use crate::runs::exchange::Reply;
use crate::{postgres, sqlite};

/// A row that has just left `task_runs`, with the terminal state it got.
#[derive(Debug, Clone)]
pub(crate) struct EndedTaskRun {
    pub(crate) key: TaskKey,
    pub(crate) version: i64,
    pub(crate) state: TaskState,
    pub(crate) flags: i16,
    pub(crate) generation: i16,
    pub(crate) attempt: i32,
    pub(crate) failures: i16,
    pub(crate) lost: i16,
    pub(crate) session: Option<i64>,
    pub(crate) started_at: Option<Micros>,
    pub(crate) finished_at: Micros,
    pub(crate) failure: Option<Failure>,
    pub(crate) output: Option<String>,
    /// The pool whose slot the row held; `None` if it held none.
    pub(crate) pool: Option<i32>,
}

/// A dependent to be counted now whose upstream ended in an earlier unit: 1 succeeded, 2 failed, 3 skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count {
    pub(crate) run: RunId,
    pub(crate) dependent: i32,
    pub(crate) counts: i16,
}

/// Writes history and counters, places, skips or fails dependents until nothing more follows, ends stages and runs, hands
/// slots on. The caller holds the locks of the runs; nothing is claimed here. Returns the runs that ended.
pub(crate) async fn settle(
    tx: &mut Tx,
    now: Micros,
    mut ended_rows: Vec<EndedTaskRun>,
    counts: Vec<Count>,
) -> Result<Reply> {
    ended_rows.sort_by_key(|row| row.key);
    match tx {
        Tx::Postgres(tx) => postgres::settle::settle(tx, now, &ended_rows, &counts).await,
        Tx::Sqlite(tx) => sqlite::settle::settle(tx, now, &ended_rows, &counts).await,
    }
}
