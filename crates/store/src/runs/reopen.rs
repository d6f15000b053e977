//! Reopening runs: finished work goes back to live rows under a new generation, any number of runs in one unit.
//!
//! What lives again is planned by [`mainspring_core::reopen`] from rows that are read here under the locks of their runs. A
//! run that is refused is not touched, and does not disturb the others. Writing is in `reopen_write`, for many runs in as
//! many statements as for one; what only an open run needs is in `reopen_open`.

use std::collections::BTreeMap;

use mainspring_boxed::boxed;
use mainspring_core::reopen::{EndedTask, OpenStage, Reopen, ReopenPlan, ReopenRefused, Situation, plan};
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::workflow::{Stage, Workflow};
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::db::{Store, Tx};
use crate::dead_letters::pending_of;
use crate::error::{Error, Result};
use crate::names::sql;
use crate::over_rows::fetch_over_rows;
use crate::runs::flags::{CONTINUES, EXPANDED, RUN_BEING_MADE, SKIPPED_BY_HAND};
use crate::runs::locked::{LockedRun, lock_runs};
use crate::runs::operate::Operator;
use crate::runs::{reopen_open, reopen_write};
use crate::{postgres, sqlite};

/// One run that is to be reopened.
#[derive(Debug, Clone)]
pub struct ReopenRequest<'a> {
    /// The id of the action in the history of the run.
    pub action: Uuid,
    pub run: RunId,
    pub workflow: &'a Workflow,
    pub what: Reopen,
    /// Other inputs (JSON) for everything that is done from now on.
    pub inputs: Option<String>,
    /// Dead letters that it is about: nothing happens to the run unless they are pending.
    pub letters: Vec<Uuid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reopened {
    pub tasks: usize,
    pub generation: i16,
}

/// A run with what is written of it.
pub(crate) struct PlannedRun<'a> {
    pub(crate) request: &'a ReopenRequest<'a>,
    pub(crate) run: LockedRun,
    pub(crate) plan: ReopenPlan,
    /// Whether it runs, now or again; otherwise it waits for its limit, or is paused.
    pub(crate) admitted: bool,
}

impl PlannedRun<'_> {
    pub(crate) fn is_open(&self) -> bool {
        !self.run.state.is_terminal()
    }
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct EndedRow {
    run_id: RunId,
    idx: i32,
    item: i32,
    state: i16,
    flags: i16,
    attempt: i32,
}

impl TryFrom<&EndedRow> for EndedTask {
    type Error = Error;

    fn try_from(row: &EndedRow) -> Result<Self> {
        let state =
            TaskState::try_from(row.state).map_err(|error| Error::bad_row("history", "state", row.run_id, error))?;
        Ok(Self {
            index: row.idx as usize,
            item: row.item,
            state,
            attempt: row.attempt,
            continues: row.flags & CONTINUES != 0,
            skipped_by_hand: row.flags & SKIPPED_BY_HAND != 0,
            is_expanded: row.flags & EXPANDED != 0,
        })
    }
}

#[boxed]
impl Store {
    /// Reopens a run. Attempt numbers go on rising, budgets start afresh.
    pub async fn reopen_run(
        &self,
        now: Micros,
        action: Uuid,
        id: RunId,
        workflow: &Workflow,
        what: &Reopen,
        operator: &Operator,
    ) -> Result<Reopened> {
        let request =
            ReopenRequest { action, run: id, workflow, what: what.clone(), inputs: None, letters: Vec::new() };
        self.reopen_one(now, request, operator).await
    }

    /// Reopens a run by a request, which can change inputs.
    pub async fn reopen_one(&self, now: Micros, request: ReopenRequest<'_>, operator: &Operator) -> Result<Reopened> {
        let run = request.run;
        let outcome = self.reopen_runs(now, &[request], operator).await?.pop();
        outcome.unwrap_or_else(|| Err(Error::not_found(format!("run {run}"))))
    }

    /// Reopens many runs, each named once, in one transaction. A run that is refused is an error of its own, in its place.
    pub async fn reopen_runs(
        &self,
        now: Micros,
        requests: &[ReopenRequest<'_>],
        operator: &Operator,
    ) -> Result<Vec<Result<Reopened>>> {
        let ids: Vec<RunId> = requests.iter().map(|request| request.run).collect();
        let mut tx = self.begin().await?;
        let mut locked = lock_runs(&mut tx, &ids).await?;
        let mut ended = ended_tasks(&mut tx, &ids).await?;
        let letters: Vec<Uuid> =
            requests.iter().flat_map(|request| &request.letters).chain(&operator.letter).copied().collect();
        let pending = pending_of(&mut tx, &letters).await?;
        let mut outcomes: Vec<Result<Reopened>> = Vec::with_capacity(requests.len());
        let mut planned: Vec<PlannedRun<'_>> = Vec::with_capacity(requests.len());
        for request in requests {
            let run = locked.remove(&request.run);
            let run = run.ok_or_else(|| Error::not_found(format!("run {}", request.run)));
            let ended = ended.remove(&request.run).unwrap_or_default();
            let closed = request.letters.iter().chain(&operator.letter).find(|letter| !pending.contains(letter));
            let plan = match (run, closed) {
                (Err(error), _) => Err(error),
                (_, Some(letter)) => Err(Error::Conflict(format!("dead letter {letter} is closed already"))),
                (Ok(run), None) => plan_run(&mut tx, request, run, &ended).await,
            };
            outcomes.push(match plan {
                Ok(one) => {
                    let reopened = Reopened { tasks: one.plan.tasks.len(), generation: one.run.generation };
                    planned.push(one);
                    Ok(reopened)
                }
                Err(error @ (Error::Conflict(_) | Error::NotFound { .. })) => Err(error),
                Err(error) => return Err(error),
            });
        }
        if !planned.is_empty() {
            take_slots(&mut tx, &mut planned).await?;
            reopen_write::write(&mut tx, now, &mut planned, operator).await?;
            tx.commit().await?;
        }
        Ok(outcomes)
    }
}

async fn ended_tasks(tx: &mut Tx, runs: &[RunId]) -> Result<BTreeMap<RunId, Vec<EndedTask>>> {
    let rows: Vec<EndedRow> = fetch_over_rows!(tx, "id", runs, |values, id| _ = values.push_bind(*id), |query| _ =
        query.push(
            "SELECT h.run_id, h.idx, h.item, h.state, h.flags, h.attempt FROM k CROSS JOIN history h \
             WHERE h.run_id = k.id ORDER BY h.run_id, h.idx, h.item"
        ));
    let mut tasks: BTreeMap<RunId, Vec<EndedTask>> = BTreeMap::new();
    for row in &rows {
        tasks.entry(row.run_id).or_default().push(row.try_into()?);
    }
    Ok(tasks)
}

async fn plan_run<'a>(
    tx: &mut Tx,
    request: &'a ReopenRequest<'a>,
    mut run: LockedRun,
    ended: &[EndedTask],
) -> Result<PlannedRun<'a>> {
    let refused = |error: ReopenRefused| match error {
        ReopenRefused::StillOpen => not_ended(&run),
        error => Error::Conflict(format!("run {}: {error}", run.id)),
    };
    let mut situation = Situation { workflow: request.workflow, ended, open: None };
    let plan = if run.state.is_terminal() {
        if !run.state.may_become(RunState::Running) {
            return Err(not_ended(&run));
        }
        plan(&situation, &request.what).map_err(refused)?
    } else {
        refuse_unready(&run)?;
        let pending = reopen_open::pending_tasks(tx, run.id).await?;
        let stage = Stage::try_from(run.stage).map_err(|error| Error::bad_row("runs", "stage", run.id, error))?;
        situation.open = Some(OpenStage { stage, pending: &pending });
        plan(&situation, &request.what).map_err(refused)?
    };
    // The generation that follows; an open run keeps running, or stays paused.
    run.generation += 1;
    let admitted = run.state == RunState::Running || run.state.is_terminal();
    Ok(PlannedRun { request, run, plan, admitted })
}

fn not_ended(run: &LockedRun) -> Error {
    Error::Conflict(format!("run {} is {}: only a failed or cancelled run can be reopened", run.id, run.state))
}

/// Nothing can be taken back of an open run that is being made, stopped, or has not begun.
fn refuse_unready(run: &LockedRun) -> Result<()> {
    let why = if run.flags & RUN_BEING_MADE != 0 {
        "its tasks are not made yet: repeat once it has begun"
    } else if run.is_stopped() {
        "it is being stopped: wait for its end"
    } else if run.state == RunState::Pending {
        "it waits for its concurrency limit: wait, or cancel the run"
    } else {
        return Ok(());
    };
    Err(Error::Conflict(format!("run {} is {}: {why}", run.id, run.state)))
}

/// Takes concurrency slots again for runs that had ended; those that find none wait for one. Everything that these runs share
/// with others is locked in order of id first.
async fn take_slots(tx: &mut Tx, planned: &mut [PlannedRun<'_>]) -> Result<()> {
    let mut versions: Vec<i64> = planned.iter().map(|one| one.run.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let pools: Vec<(i32,)> = fetch_over_rows!(
        tx,
        "version",
        versions,
        |values, version| _ = values.push_bind(*version),
        |query| {
            _ = query.push(sql!(
            "SELECT DISTINCT vt.pool FROM k CROSS JOIN version_tasks vt WHERE vt.version = k.version AND vt.pool IS NOT NULL"
        ))
        }
    );
    let mut limits: Vec<i32> = planned.iter().filter(|one| !one.is_open()).filter_map(|one| one.run.limit).collect();
    limits.sort_unstable();
    limits.dedup();
    let mut shared: Vec<i32> = pools.into_iter().map(|pool| pool.0).chain(limits.iter().copied()).collect();
    shared.sort_unstable();
    let mut slots = match tx {
        Tx::Postgres(tx) if !shared.is_empty() => {
            postgres::limits::lock(tx, &shared).await?;
            postgres::limits::slots(tx, &limits).await?
        }
        Tx::Sqlite(tx) if !limits.is_empty() => sqlite::limits::slots(tx, &limits).await?,
        _ => return Ok(()),
    };
    let mut taken: BTreeMap<i32, i32> = BTreeMap::new();
    for one in planned.iter_mut().filter(|one| !one.is_open()) {
        let Some(limit) = one.run.limit else { continue };
        let slots = slots.get_mut(&limit).ok_or_else(|| Error::Conflict(format!("limit {limit} is gone")))?;
        one.admitted = slots.capacity.is_none_or(|capacity| slots.held < capacity);
        if one.admitted {
            slots.held += 1;
            *taken.entry(limit).or_default() += 1;
        }
    }
    let taken: Vec<(i32, i32)> = taken.into_iter().collect();
    match tx {
        _ if taken.is_empty() => Ok(()),
        Tx::Postgres(tx) => postgres::limits::take(tx, &taken).await,
        Tx::Sqlite(tx) => sqlite::limits::take(tx, &taken).await,
    }
}
