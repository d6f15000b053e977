//! Where a row that may start goes: straight to a wanted slot, to a node that decides it, behind its limit, or to the queue.

use mainspring_core::rule::{Counters, TriggerRule};
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, TaskKey};

use super::SqliteTx;
use super::bulk::{Bulk, Columns, Values};
use super::database::Running;
use crate::error::{Error, Result};
use crate::runs::exchange::{Claimed, Exchange, Reply, TaskToken};
use crate::runs::flags::startable;
use crate::runs::settle::EndedTaskRun;

/// What is still wanted while a unit goes on.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// What claimed rows carry.
    pub(super) claim: i64,
    pub(super) wants: Vec<Slots>,
    pub(super) decide_session: i64,
    pub(super) decide: i32,
}

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) session: i64,
    pub(super) route: i32,
    pub(super) free: i32,
    /// Rows up to this rank may skip the queue.
    pub(super) hand_over_rank: i16,
}

impl Demand {
    pub(super) fn of(exchange: &Exchange, claim: i64) -> Self {
        let slots = exchange.want.iter().map(|want| Slots {
            session: want.session,
            route: want.route,
            free: want.slots,
            hand_over_rank: want.hand_over_rank,
        });
        Self { claim, wants: slots.collect(), decide_session: exchange.decide_session, decide: exchange.decide }
    }

    /// The rows that get a slot at once; all of them may start.
    pub(super) fn fitting(&self, mut rows: Vec<Candidate>) -> Vec<Candidate> {
        rows.sort_unstable_by_key(|row| (row.rank, row.key));
        let mut free: Vec<i32> = self.wants.iter().map(|slots| slots.free).collect();
        rows.retain(|row| {
            let fits = |(slots, free): &(&Slots, &mut i32)| {
                slots.route == row.route && **free > 0 && row.rank <= slots.hand_over_rank
            };
            let found = self.wants.iter().zip(&mut free).find(fits);
            found.map(|(_, free)| *free -= 1).is_some()
        });
        rows
    }

    /// The state for a row that may start, and the session that gets it at once.
    fn place(&mut self, row: &Candidate) -> (TaskState, Option<i64>) {
        match startable(row.run_is_running, row.flags, row.pool) {
            TaskState::Deciding if self.decide > 0 => {
                self.decide -= 1;
                (TaskState::Deciding, Some(self.decide_session))
            }
            TaskState::Ready => {
                let fitting =
                    |slots: &&mut Slots| slots.route == row.route && slots.free > 0 && row.rank <= slots.hand_over_rank;
                match self.wants.iter_mut().find(fitting) {
                    Some(slots) => {
                        slots.free -= 1;
                        (TaskState::Running, Some(slots.session))
                    }
                    None => (TaskState::Ready, None),
                }
            }
            other => (other, None),
        }
    }
}

/// A live row that waits for its dependencies or for a decision.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The row's number in the table.
    pub(super) at: i64,
    pub(super) key: TaskKey,
    pub(super) version: i64,
    pub(super) rule: TriggerRule,
    pub(super) rank: i16,
    pub(super) flags: i16,
    pub(super) route: i32,
    pub(super) pool: Option<i32>,
    pub(super) attempt: i32,
    pub(super) failures: i16,
    pub(super) lost: i16,
    pub(super) generation: i16,
    pub(super) counters: Counters,
    pub(super) run_is_running: bool,
}

/// The columns that [`Candidate::read`] reads, of `task_runs t`.
macro_rules! candidate_columns {
    () => {
        "t.rowid, t.run_id, t.idx, t.item, t.version, t.rule, t.rank, t.flags, t.route, t.pool, t.attempt, t.failures, t.lost, t.generation, \
         t.open, t.succeeded, t.failed, t.skipped"
    };
}
pub(super) use candidate_columns;

impl Candidate {
    /// Reads the columns; whether the run is running is for the caller to say.
    pub(super) fn read(columns: &mut Columns<'_>) -> Result<Self> {
        let at = columns.get()?;
        let key = TaskKey { run: columns.uuid()?, index: columns.get()?, item: columns.get()? };
        let version = columns.get()?;
        let rule: i16 = columns.get()?;
        Ok(Self {
            at,
            key,
            version,
            rule: TriggerRule::try_from(rule).map_err(|error| Error::bad_row("task_runs", "rule", key, error))?,
            rank: columns.get()?,
            flags: columns.get()?,
            route: columns.get()?,
            pool: columns.get()?,
            attempt: columns.get()?,
            failures: columns.get()?,
            lost: columns.get()?,
            generation: columns.get()?,
            counters: Counters {
                open: columns.get()?,
                succeeded: columns.get()?,
                failed: columns.get()?,
                skipped: columns.get()?,
            },
            run_is_running: false,
        })
    }

    fn running(&self, now: Micros, claim: i64) -> Running {
        Running {
            at: self.at,
            claim,
            version: self.version,
            flags: self.flags,
            generation: self.generation,
            failures: self.failures,
            lost: self.lost,
            pool: self.pool,
            started_at: now,
        }
    }

    /// The row as it ends without having run.
    pub(super) fn end(&self, now: Micros, state: TaskState) -> EndedTaskRun {
        EndedTaskRun {
            key: self.key,
            version: self.version,
            state,
            flags: self.flags,
            generation: self.generation,
            attempt: self.attempt,
            failures: self.failures,
            lost: self.lost,
            session: None,
            started_at: None,
            finished_at: now,
            failure: None,
            output: None,
            pool: None,
        }
    }
}

pub(super) static PLACE: Bulk = Bulk::new(
    "WITH v(at, open, succeeded, failed, skipped, state, flags, due, attempt, session, claim, started) AS (VALUES ",
    12,
    ") UPDATE task_runs SET open = v.open, succeeded = v.succeeded, failed = v.failed, skipped = v.skipped, state = v.state, flags = v.flags, \
         due_at = v.due, attempt = v.attempt, session = v.session, claim = v.claim, started_at = v.started \
     FROM v WHERE task_runs.rowid = v.at",
);

struct Placed {
    row: Candidate,
    state: TaskState,
    session: Option<i64>,
    due: Micros,
}

/// Places rows that may start and reports the claimed ones. Returns the pools they wait for.
pub(super) async fn place(
    tx: &mut SqliteTx,
    now: Micros,
    mut candidates: Vec<Candidate>,
    demand: &mut Demand,
    reply: &mut Reply,
) -> Result<Vec<i32>> {
    candidates.sort_unstable_by_key(|row| (row.rank, row.key));
    let mut pools = Vec::new();
    let mut placed = Vec::with_capacity(candidates.len());
    for (nth, mut row) in candidates.into_iter().enumerate() {
        let (state, session) = demand.place(&row);
        let due = now + nth as i64 + 1;
        row.attempt += i32::from(state == TaskState::Running);
        if let Some(session) = session {
            let token = TaskToken { key: row.key, session, attempt: row.attempt };
            let claimed = Claimed {
                token,
                version: row.version,
                route: row.route,
                rank: row.rank,
                due_at: due,
                failures: row.failures,
                generation: row.generation,
            };
            if state == TaskState::Running {
                tx.now_runs(token, row.running(now, demand.claim));
                reply.claimed.push(claimed);
            } else {
                reply.to_decide.push(claimed);
            }
        }
        if state == TaskState::Gated {
            pools.extend(row.pool);
        }
        placed.push(Placed { row, state, session, due });
    }
    let claim = demand.claim;
    let add = |placed: &Placed, values: &mut Values| {
        let Placed { row, state, session, due } = placed;
        let counters = row.counters;
        values.add(row.at).add(counters.open).add(counters.succeeded).add(counters.failed).add(counters.skipped);
        values.add(state.code()).add(row.flags).add(*due).add(row.attempt).add(*session);
        values.add(session.map(|_| claim)).add((*state == TaskState::Running).then_some(now));
    };
    PLACE.defer(tx, &placed, add).await?;
    Ok(pools)
}
