//! Reopening an ended run: finished work goes back to live rows under a new generation, in one unit.

use std::collections::{BTreeMap, BTreeSet};

use mainspring_core::dead_letter::Resolution;
use mainspring_core::rule::{Counters, Verdict};
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::workflow::{Stage, Workflow};
use mainspring_core::{Micros, RunId};
use uuid::Uuid;

use crate::db::{Store, Tx, locking, within};
use crate::dead_letters::{close_matching, close_stale};
use crate::error::{Error, Result};
use crate::names::sql;
use crate::runs::flags::{
    CONTINUES, RUN_CANCELLING, RUN_NO_FINALISERS, RUN_TIMED_OUT, SKIPPED_BY_HAND, of_task, upstream,
};
use crate::runs::limits::hand_on;
use crate::runs::operate::{LockedRun, Operator, end_stage, lock_run, record};
use crate::runs::reopen_items::ItemsAgain;
use crate::runs::repair::replace_end;
use crate::runs::transitions::keep_end;
use crate::workflows::versions::startable;

/// What to do again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reopen {
    /// What failed or was cancelled, and what did not run because of it. If that is only in finalisers, they alone.
    Failed,
    /// What failed or was cancelled of these tasks, items included, and what did not run because of it.
    FailedOf(Vec<usize>),
    /// These tasks and everything that depends on them, whatever became of it.
    From(Vec<usize>),
    /// What did not run because of this main task, which gets another end: `resolved_manually` with an output (JSON), or
    /// `skipped`, which by hand counts as success.
    Settled { task: usize, state: TaskState, output: Option<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reopened {
    pub tasks: usize,
    pub generation: i16,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct EndedRow {
    pub(crate) idx: i32,
    pub(crate) item: i32,
    pub(crate) state: i16,
    pub(crate) flags: i16,
    pub(crate) attempt: i32,
}

/// A task that will be live again, with its counters over what is not reopened.
struct Again {
    index: usize,
    attempt: i32,
    state: TaskState,
    counters: Counters,
    /// Of a task that was repeated over a list: only these items are done again.
    items: Option<ItemsAgain>,
}

impl Store {
    /// Reopens an ended run at the first stage with something to do again: what earlier stages did stays. Attempt numbers
    /// go on rising, budgets start afresh, later stages run again at the new end.
    pub async fn reopen_run(
        &self,
        now: Micros,
        action: Uuid,
        id: RunId,
        workflow: &Workflow,
        what: &Reopen,
        operator: &Operator,
    ) -> Result<Reopened> {
        self.reopen_run_with(now, action, id, workflow, what, None, operator).await
    }

    /// The same with other inputs (JSON) for everything that is done from now on.
    #[expect(clippy::too_many_arguments, reason = "one action on one run, with everything that is recorded of it")]
    pub async fn reopen_run_with(
        &self,
        now: Micros,
        action: Uuid,
        id: RunId,
        workflow: &Workflow,
        what: &Reopen,
        inputs: Option<&str>,
        operator: &Operator,
    ) -> Result<Reopened> {
        let mut tx = self.begin().await?;
        let mut run = lock_run(&mut tx, id).await?;
        if !run.state.may_become(RunState::Running) || !run.state.is_terminal() {
            return Err(Error::Conflict(format!(
                "run {id} is {}: only a failed or cancelled run can be reopened",
                run.state
            )));
        }
        let mut rows: Vec<EndedRow> = within!(tx, |conn| sqlx::query_as(
            "SELECT idx, item, state, flags, attempt FROM history WHERE run_id = $1 ORDER BY idx, item"
        )
        .bind(id)
        .fetch_all(conn)
        .await?);
        if let Reopen::Settled { task, state, output } = what {
            if workflow.tasks.get(*task).is_none_or(|task| task.stage != Stage::Main) {
                return Err(Error::Conflict(
                    "only a main task can be settled by hand: run the finalisers again instead".into(),
                ));
            }
            replace_end(&mut tx, now, &mut run, &mut rows, *task, *state, output.as_deref()).await?;
        }
        let ended: BTreeMap<usize, EndedRow> =
            rows.iter().filter(|row| row.item == -1).map(|row| (row.idx as usize, row.clone())).collect();
        let admitted = take_slot(&mut tx, &run).await?;
        let targets = targets(workflow, &ended, what);
        let stage = first_stage(workflow, what, &targets);
        let mut again = plan(workflow, &ended, what, &targets, stage, admitted);
        if matches!(what, Reopen::Failed | Reopen::FailedOf(_)) {
            for task in &mut again {
                task.items = ItemsAgain::of(task.index, &rows).filter(|_| task.state != TaskState::Pending);
            }
        }
        if again.is_empty() && !matches!(what, Reopen::Settled { .. }) {
            return Err(Error::Conflict(format!("run {id} has no task to do again")));
        }
        let reopened: BTreeSet<usize> = again.iter().map(|task| task.index).collect();
        keep_end(&mut tx, id).await?;
        let mut superseded: BTreeSet<i32> = BTreeSet::new();
        for row in &rows {
            let index = row.idx as usize;
            let stays = again
                .iter()
                .any(|task| task.index == index && task.items.as_ref().is_some_and(|items| items.keeps(row.item)));
            if stays {
                continue;
            }
            if reopened.contains(&index) || workflow.tasks.get(index).is_none_or(|task| task.stage > stage) {
                supersede(&mut tx, id, row).await?;
                superseded.insert(row.idx);
            }
        }
        // What was left to do belonged to the end that is taken back.
        within!(tx, sqlx::query("DELETE FROM continuations WHERE run_id = $1").bind(id));
        run.generation += 1;
        for task in &again {
            match &task.items {
                Some(items) => {
                    items.revive(&mut tx, now, &run, &workflow.tasks[task.index], task.index, admitted).await?
                }
                None => revive(&mut tx, now, &run, workflow, task).await?,
            }
        }
        let items: usize = again.iter().filter_map(|task| task.items.as_ref()).map(ItemsAgain::len).sum();
        let failed = ended
            .iter()
            .filter(|(index, row)| !reopened.contains(index) && workflow.tasks[**index].stage <= stage && is_bad(row))
            .count();
        let state = if admitted { RunState::Running } else { RunState::Pending };
        let deadline = workflow.deadline_ms().map(|timeout| now.saturating_add(timeout as i64 * 1_000));
        within!(
            tx,
            sqlx::query(
                sql!("UPDATE runs SET state = $2, stage = $9, \
                 flags = CAST($3 AS smallint) | coalesce((SELECT {run_flag.followed} FROM workflows w WHERE w.id = \
                 runs.workflow_id AND w.followed), 0), generation = $4, open = $5, failed = $6, \
                 finished_at = NULL, progress_at = $7, reopened_at = $7, deadline_at = $8, \
                 holds = CASE WHEN $2 = {run.running} THEN limit_id END, waits_for = CASE WHEN $2 = {run.pending} THEN limit_id END \
                 WHERE id = $1")
            )
            .bind(id)
            .bind(state.code())
            .bind(run.flags & !(RUN_CANCELLING | RUN_TIMED_OUT | RUN_NO_FINALISERS))
            .bind(run.generation)
            .bind((again.len() + items) as i32)
            .bind(failed as i32)
            .bind(now)
            .bind(deadline)
            .bind(stage.code())
        );
        within!(
            tx,
            sqlx::query("UPDATE run_details SET reason = NULL WHERE run_id = $1 AND reason IS NOT NULL").bind(id)
        );
        within!(tx, sqlx::query("DELETE FROM unsuccessful_runs WHERE run_id = $1").bind(id));
        if let Some(inputs) = inputs {
            within!(
                tx,
                sqlx::query(
                    "INSERT INTO run_details (run_id, inputs) VALUES ($1, $2) ON CONFLICT (run_id) DO UPDATE SET inputs = $2"
                )
                .bind(id)
                .bind(inputs)
            );
        }
        close_letters(&mut tx, now, id, what, &superseded, operator).await?;
        record(&mut tx, now, action, &mut run, what.word(), operator).await?;
        if again.is_empty() {
            end_stage(&mut tx, now, id).await?;
        }
        let pools: Vec<(i32,)> = within!(tx, |conn| sqlx::query_as(sql!(
            "SELECT DISTINCT pool FROM task_runs WHERE run_id = $1 AND state = {task.gated} AND pool IS NOT NULL"
        ))
        .bind(id)
        .fetch_all(conn)
        .await?);
        let pools: Vec<i32> = pools.into_iter().map(|pool| pool.0).collect();
        hand_on(&mut tx, now, &[], &[], &pools).await?;
        tx.commit().await?;
        Ok(Reopened { tasks: again.len(), generation: run.generation })
    }
}

impl Reopen {
    /// The word in the history of the run.
    fn word(&self) -> &'static str {
        match self {
            Self::Failed | Self::FailedOf(_) => "retry",
            Self::From(_) => "rerun",
            Self::Settled { state: TaskState::Skipped, .. } => "skip",
            Self::Settled { .. } => "resolve_manually",
        }
    }
}

/// Entries that wait for a person, of what this concerns: whatever will run again is retried, what was settled by hand is
/// closed as that, and a run that was given up as stale goes on. What else failed keeps its entry.
async fn close_letters(
    tx: &mut Tx,
    now: Micros,
    id: RunId,
    what: &Reopen,
    superseded: &BTreeSet<i32>,
    operator: &Operator,
) -> Result<()> {
    let settled = match what {
        Reopen::Failed => {
            close_matching(tx, now, id, None, None, Resolution::Retried, operator).await?;
            None
        }
        Reopen::FailedOf(_) | Reopen::From(_) => {
            close_stale(tx, now, id, Resolution::Retried, operator).await?;
            None
        }
        Reopen::Settled { task, state, .. } => {
            let status = if *state == TaskState::Skipped { Resolution::Skipped } else { Resolution::Resolved };
            close_stale(tx, now, id, status, operator).await?;
            close_matching(tx, now, id, Some(*task as i32), None, status, operator).await?;
            Some(*task as i32)
        }
    };
    for index in superseded.iter().filter(|index| Some(**index) != settled) {
        close_matching(tx, now, id, Some(*index), None, Resolution::Retried, operator).await?;
    }
    Ok(())
}

fn is_bad(row: &EndedRow) -> bool {
    row.state == TaskState::UpstreamFailed.code()
        || (row.state == TaskState::Failed.code() && row.flags & CONTINUES == 0)
}

/// Whether it ended because of others.
fn not_run(row: &EndedRow) -> bool {
    let state = row.state;
    state == TaskState::UpstreamFailed.code()
        || state == TaskState::Cancelled.code()
        || (state == TaskState::Skipped.code() && row.flags & SKIPPED_BY_HAND == 0)
}

/// What is asked for by name or by its outcome, whatever its stage.
fn targets(workflow: &Workflow, ended: &BTreeMap<usize, EndedRow>, what: &Reopen) -> Vec<usize> {
    match what {
        Reopen::Failed => ended
            .iter()
            .filter(|(_, row)| row.state == TaskState::Failed.code() || row.state == TaskState::Cancelled.code())
            .map(|(index, _)| *index)
            .collect(),
        Reopen::From(tasks) => tasks.clone(),
        Reopen::FailedOf(tasks) => tasks
            .iter()
            .copied()
            .filter(|index| ended.get(index).is_some_and(|row| row.state != TaskState::Success.code()))
            .collect(),
        Reopen::Settled { task, .. } => workflow.tasks[*task]
            .dependents
            .iter()
            .map(|dependent| *dependent as usize)
            .filter(|dependent| ended.get(dependent).is_some_and(not_run))
            .collect(),
    }
}

/// The stage in which the run goes on.
fn first_stage(workflow: &Workflow, what: &Reopen, targets: &[usize]) -> Stage {
    if let Reopen::Settled { task, .. } = what {
        return workflow.tasks[*task].stage;
    }
    let stages = targets.iter().filter_map(|target| workflow.tasks.get(*target)).map(|task| task.stage);
    stages.min().unwrap_or(Stage::Main)
}

/// Which tasks of the stage live again, in order of index, with counters recomputed from what stays ended.
fn plan(
    workflow: &Workflow,
    ended: &BTreeMap<usize, EndedRow>,
    what: &Reopen,
    targets: &[usize],
    stage: Stage,
    admitted: bool,
) -> Vec<Again> {
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    let is_there = |index: &usize| workflow.tasks.get(*index).is_some_and(|task| task.stage == stage);
    let mut frontier: Vec<usize> = targets.iter().copied().filter(is_there).collect();
    while let Some(index) = frontier.pop() {
        if !ended.contains_key(&index) || !chosen.insert(index) {
            continue;
        }
        for dependent in &workflow.tasks[index].dependents {
            let dependent = *dependent as usize;
            let follows = match what {
                Reopen::Failed | Reopen::FailedOf(_) | Reopen::Settled { .. } => {
                    ended.get(&dependent).is_some_and(not_run)
                }
                Reopen::From(_) => true,
            };
            if follows {
                frontier.push(dependent);
            }
        }
    }
    // A task whose rule is settled against it by what stays ended would end again at once: it stays ended too, and may
    // settle others in turn, so look until nothing changes.
    loop {
        let settled: Vec<usize> = chosen
            .iter()
            .copied()
            .filter(|index| {
                matches!(
                    workflow.tasks[*index].rule.verdict(count(workflow, ended, &chosen, *index)),
                    Verdict::Skip | Verdict::UpstreamFailed
                )
            })
            .collect();
        if settled.is_empty() {
            break;
        }
        for index in settled {
            chosen.remove(&index);
        }
    }
    chosen
        .iter()
        .map(|index| {
            let task = &workflow.tasks[*index];
            let counters = count(workflow, ended, &chosen, *index);
            let state = match task.rule.verdict(counters) {
                // The pool's id is not known here; a row with one is gated when it is written.
                Verdict::Start => startable(admitted, of_task(task), None),
                _ => TaskState::Pending,
            };
            Again { index: *index, attempt: ended[index].attempt, state, counters, items: None }
        })
        .collect()
}

fn count(workflow: &Workflow, ended: &BTreeMap<usize, EndedRow>, chosen: &BTreeSet<usize>, index: usize) -> Counters {
    let needs = &workflow.tasks[index].needs;
    let mut counters = Counters::open(needs.len() as i32);
    for need in needs {
        let need = *need as usize;
        if chosen.contains(&need) {
            continue;
        }
        let outcome = ended.get(&need).and_then(|row| upstream(TaskState::try_from(row.state).ok()?, row.flags));
        if let Some(outcome) = outcome {
            counters.record(outcome);
        }
    }
    counters
}

/// Takes a concurrency slot for the run again; false if it has to wait for one.
async fn take_slot(tx: &mut Tx, run: &LockedRun) -> Result<bool> {
    let Some(limit) = run.limit else { return Ok(true) };
    let sql = locking!(tx, "SELECT capacity, held FROM limits WHERE id = $1", "FOR NO KEY UPDATE");
    let (capacity, held): (Option<i32>, i32) =
        within!(tx, |conn| sqlx::query_as(sql).bind(limit).fetch_one(conn).await?);
    if capacity.is_some_and(|capacity| held >= capacity) {
        return Ok(false);
    }
    within!(tx, sqlx::query("UPDATE limits SET held = held + 1 WHERE id = $1").bind(limit));
    Ok(true)
}

pub(crate) async fn supersede(tx: &mut Tx, run: RunId, row: &EndedRow) -> Result<()> {
    within!(
        tx,
        sqlx::query(
            "INSERT INTO history_superseded SELECT * FROM history WHERE run_id = $1 AND idx = $2 AND item = $3"
        )
        .bind(run)
        .bind(row.idx)
        .bind(row.item)
    );
    within!(
        tx,
        sqlx::query("DELETE FROM history WHERE run_id = $1 AND idx = $2 AND item = $3")
            .bind(run)
            .bind(row.idx)
            .bind(row.item)
    );
    Ok(())
}

async fn revive(tx: &mut Tx, now: Micros, run: &LockedRun, workflow: &Workflow, task: &Again) -> Result<()> {
    let flags = of_task(&workflow.tasks[task.index]);
    // What it waited for, it waits for anew.
    within!(tx, sqlx::query("DELETE FROM waits WHERE run_id = $1 AND idx = $2").bind(run.id).bind(task.index as i32));
    within!(
        tx,
        sqlx::query(
            sql!("INSERT INTO task_runs (run_id, idx, item, state, rule, rank, flags, route, pool, attempt, \
             max_failures, max_lost, generation, open, succeeded, failed, skipped, version, due_at) \
             SELECT r.id, vt.idx, -1, CASE WHEN $3 = {task.ready} AND vt.pool IS NOT NULL THEN {task.gated} ELSE $3 END, vt.rule, \
             coalesce(vt.rank, r.rank), $4, vt.route, vt.pool, $5, \
                vt.max_failures, vt.max_lost, $6, $7, $8, $9, $10, vt.version, $11 \
             FROM runs r JOIN version_tasks vt ON vt.version = r.version AND vt.idx = $2 WHERE r.id = $1")
        )
        .bind(run.id)
        .bind(task.index as i32)
        .bind(task.state.code())
        .bind(flags)
        .bind(task.attempt)
        .bind(run.generation)
        .bind(task.counters.open)
        .bind(task.counters.succeeded)
        .bind(task.counters.failed)
        .bind(task.counters.skipped)
        .bind(now + task.index as i64)
    );
    Ok(())
}
