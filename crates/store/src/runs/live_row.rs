//! A live row of `task_runs`, as the units read it that end it or return it to the queue.

use mainspring_core::state::TaskState;
use mainspring_core::work::Failure;
use mainspring_core::{Micros, RunId, TaskKey};

use super::settle::EndedTaskRun;
use crate::db::{Tx, within};
use crate::error::Result;

/// The columns of a [`LiveRow`].
macro_rules! live_columns {
    () => {
        "run_id, idx, item, state, flags, pool, attempt, failures, lost, max_lost, generation, version, session, started_at"
    };
}
pub(crate) use live_columns;

#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct LiveRow {
    pub(crate) run_id: RunId,
    pub(crate) idx: i32,
    pub(crate) item: i32,
    pub(crate) state: i16,
    pub(crate) flags: i16,
    pub(crate) pool: Option<i32>,
    pub(crate) attempt: i32,
    pub(crate) failures: i16,
    pub(crate) lost: i16,
    pub(crate) max_lost: i16,
    pub(crate) generation: i16,
    pub(crate) version: i64,
    pub(crate) session: Option<i64>,
    pub(crate) started_at: Option<Micros>,
}

impl LiveRow {
    pub(crate) fn key(&self) -> TaskKey {
        TaskKey { run: self.run_id, index: self.idx, item: self.item }
    }

    /// Takes the row out of the live ones. The caller holds its lock.
    pub(crate) async fn delete(&self, tx: &mut Tx) -> Result<()> {
        within!(
            tx,
            sqlx::query("DELETE FROM task_runs WHERE run_id = $1 AND idx = $2 AND item = $3")
                .bind(self.run_id)
                .bind(self.idx)
                .bind(self.item)
        );
        Ok(())
    }

    /// Whether the row held a slot of its pool.
    pub(crate) fn held_pool(&self) -> Option<i32> {
        self.pool.filter(|_| self.state == TaskState::Running.code() || self.state == TaskState::Ready.code())
    }

    pub(crate) fn ended(&self, now: Micros, state: TaskState, failure: Option<Failure>) -> EndedTaskRun {
        EndedTaskRun {
            key: self.key(),
            version: self.version,
            state,
            flags: self.flags,
            generation: self.generation,
            attempt: self.attempt,
            failures: self.failures,
            lost: self.lost,
            session: self.session,
            started_at: self.started_at,
            finished_at: now,
            failure,
            output: None,
            pool: self.held_pool(),
        }
    }
}
