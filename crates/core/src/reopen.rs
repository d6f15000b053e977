//! Reopening: which ended tasks of a run live again, and with which counters. The store writes what is planned here.
//!
//! An ended run goes on at the first stage with something to do again: what earlier stages did stays, later stages run again
//! at the new end. In an open run only tasks of the stage that it is in are taken back, with what was decided because of
//! them; live tasks stay as they are, but those that still wait count their dependencies anew.

use std::collections::{BTreeMap, BTreeSet};

use crate::rule::{Counters, Verdict};
use crate::state::{TaskState, Upstream};
use crate::workflow::{Stage, Workflow};

#[cfg(test)]
mod tests;

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

impl Reopen {
    /// The word in the history of the run.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Failed | Self::FailedOf(_) => "retry",
            Self::From(_) => "rerun",
            Self::Settled { state: TaskState::Skipped, .. } => "skip",
            Self::Settled { .. } => "resolve_manually",
        }
    }
}

/// A task run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedTask {
    pub index: usize,
    /// Negative for the task itself.
    pub item: i32,
    pub state: TaskState,
    pub attempt: i32,
    /// Its failure counts as success.
    pub continues: bool,
    pub skipped_by_hand: bool,
    /// It was repeated over a list.
    pub is_expanded: bool,
}

/// A run as the planner sees it.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub workflow: &'a Workflow,
    pub ended: &'a [EndedTask],
    /// `None` of a run that has ended.
    pub open: Option<OpenStage<'a>>,
}

/// Where an open run is.
#[derive(Debug, Clone, Copy)]
pub struct OpenStage<'a> {
    pub stage: Stage,
    /// Live tasks whose dependencies are not settled.
    pub pending: &'a [usize],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReopenPlan {
    /// The stage in which the run goes on.
    pub stage: Stage,
    /// In order of index.
    pub tasks: Vec<ReopenedTask>,
    /// Index and item of the ends that are taken back, in order. The end that a settled task had is not among them.
    pub superseded: Vec<(usize, i32)>,
    /// How many ends that stay let the run fail.
    pub failed: usize,
    /// Live tasks whose dependencies count otherwise now.
    pub recounted: Vec<Recounted>,
}

/// A task that will be live again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReopenedTask {
    pub index: usize,
    /// Its last attempt so far.
    pub attempt: i32,
    /// Whether its rule lets it start now.
    pub starts: bool,
    /// Over what is not reopened.
    pub counters: Counters,
    /// Of a task that was repeated over a list: only these items are done again.
    pub items: Option<ReopenedItems>,
}

/// The items of one task that are done again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReopenedItems {
    /// How many results stay.
    pub kept: i32,
    /// Number and last attempt, in order.
    pub again: Vec<(i32, i32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recounted {
    pub index: usize,
    pub counters: Counters,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReopenRefused {
    #[error("nothing of it is to be done again: no task failed or was cancelled")]
    NothingToDo,
    #[error("task `{0}` has not ended: wait for its end, or cancel the run, then rerun it")]
    StillToEnd(String),
    #[error("task `{0}` succeeded, and what depends on it may be under way: rerun from it when the run has ended")]
    SucceededInOpenRun(String),
    #[error(
        "task `{task}` would end as {verdict} at once, because task `{cause}` is {was}: rerun from task `{cause}`, or skip or \
         resolve task `{cause}` first"
    )]
    SettledByOthers { task: String, verdict: TaskState, cause: String, was: TaskState },
    #[error("the run is open: act on its failed tasks one by one, or wait for its end")]
    StillOpen,
    #[error("the run is in its finalisers: wait for its end")]
    InFinalisers,
    #[error("only a main task can be settled by hand: run the finalisers again instead")]
    NotMain,
    #[error("the task has not ended: it has nothing to be replaced")]
    NotEnded,
    #[error("the task is {was}: that cannot become {wanted}")]
    NoSuchTransition { was: TaskState, wanted: TaskState },
}

impl EndedTask {
    /// How it counts for those that depend on it.
    pub fn outcome(&self) -> Option<Upstream> {
        self.state.counts_as(if self.state == TaskState::Skipped { self.skipped_by_hand } else { self.continues })
    }

    /// Whether it lets the run fail.
    fn is_bad(&self) -> bool {
        self.state == TaskState::UpstreamFailed || (self.state == TaskState::Failed && !self.continues)
    }

    /// Whether it ended because of others.
    fn is_consequence(&self) -> bool {
        matches!(self.state, TaskState::UpstreamFailed | TaskState::Cancelled)
            || (self.state == TaskState::Skipped && !self.skipped_by_hand)
    }
}

impl ReopenedItems {
    /// `None` if the task was not expanded, or none of its items failed.
    fn of(index: usize, ended: &[EndedTask]) -> Option<Self> {
        let of_task = ended.iter().filter(|task| task.index == index);
        of_task.clone().find(|task| task.item < 0 && task.is_expanded)?;
        let mut items = Self { kept: 0, again: Vec::new() };
        for task in of_task.filter(|task| task.item >= 0) {
            match task.outcome() {
                Some(Upstream::Failed) => items.again.push((task.item, task.attempt)),
                _ => items.kept += 1,
            }
        }
        (!items.again.is_empty()).then_some(items)
    }

    /// Whether this item's result stays.
    fn keeps(&self, item: i32) -> bool {
        item >= 0 && self.again.iter().all(|again| again.0 != item)
    }
}

/// What a reopening does to a run.
pub fn plan(situation: &Situation<'_>, what: &Reopen) -> Result<ReopenPlan, ReopenRefused> {
    let workflow = situation.workflow;
    let mut ended: BTreeMap<usize, EndedTask> =
        situation.ended.iter().filter(|task| task.item < 0).map(|task| (task.index, *task)).collect();
    if let Reopen::Settled { task, state, .. } = what {
        settle(workflow, &mut ended, *task, *state)?;
    }
    let mut targets = targets(workflow, &ended, what);
    let stage = first_stage(workflow, what, &targets);
    if let Some(open) = situation.open {
        // What depends on a success may be under way by now.
        targets.retain(|target| {
            ended
                .get(target)
                .is_some_and(|task| !matches!(task.state, TaskState::Success | TaskState::ResolvedManually))
        });
        refuse_open(what, stage, open.stage)?;
    }
    let chosen = chosen(situation, &ended, what, &targets, stage);
    if chosen.is_empty() && !matches!(what, Reopen::Settled { .. }) {
        return Err(nothing_to_do(situation, &ended, what));
    }
    let keeps_items = matches!(what, Reopen::Failed | Reopen::FailedOf(_));
    let tasks: Vec<ReopenedTask> = chosen
        .iter()
        .map(|index| {
            let counters = count(workflow, &ended, &chosen, *index);
            let starts = workflow.tasks[*index].rule.verdict(counters) == Verdict::Start;
            let items = if keeps_items && starts { ReopenedItems::of(*index, situation.ended) } else { None };
            ReopenedTask { index: *index, attempt: ended[index].attempt, starts, counters, items }
        })
        .collect();
    let counts_for_the_run = |task: &&EndedTask| {
        !chosen.contains(&task.index) && workflow.tasks.get(task.index).is_some_and(|task| task.stage <= stage)
    };
    Ok(ReopenPlan {
        stage,
        superseded: superseded(situation, &tasks, stage),
        failed: ended.values().filter(counts_for_the_run).filter(|task| task.is_bad()).count(),
        recounted: recounted(situation, &ended, &chosen, what),
        tasks,
    })
}

/// Why nothing of what was named can be done again: the cause of the first task.
fn nothing_to_do(situation: &Situation<'_>, ended: &BTreeMap<usize, EndedTask>, what: &Reopen) -> ReopenRefused {
    let workflow = situation.workflow;
    let Reopen::From(named) = what else { return ReopenRefused::NothingToDo };
    let Some((index, task)) = named.first().and_then(|index| Some((*index, workflow.tasks.get(*index)?))) else {
        return ReopenRefused::NothingToDo;
    };
    let name = task.name.to_string();
    match ended.get(&index).map(|task| task.state) {
        None => return ReopenRefused::StillToEnd(name),
        Some(TaskState::Success | TaskState::ResolvedManually) if situation.open.is_some() => {
            return ReopenRefused::SucceededInOpenRun(name);
        }
        Some(_) => {}
    }
    let verdict = match task.rule.verdict(count(workflow, ended, &BTreeSet::new(), index)) {
        Verdict::UpstreamFailed => TaskState::UpstreamFailed,
        Verdict::Skip => TaskState::Skipped,
        Verdict::Start | Verdict::Wait => return ReopenRefused::NothingToDo,
    };
    // What did not succeed settles most rules; the others (`all_failed`) are settled by what did.
    let mut needs = task.needs.iter().filter_map(|need| ended.get(&(*need as usize)));
    let cause = needs.clone().find(|need| need.outcome() != Some(Upstream::Succeeded)).or_else(|| needs.next());
    cause.map_or(ReopenRefused::NothingToDo, |cause| ReopenRefused::SettledByOthers {
        task: name,
        verdict,
        cause: workflow.tasks[cause.index].name.to_string(),
        was: cause.state,
    })
}

/// Gives a task that has ended its other end.
fn settle(
    workflow: &Workflow,
    ended: &mut BTreeMap<usize, EndedTask>,
    task: usize,
    state: TaskState,
) -> Result<(), ReopenRefused> {
    if workflow.tasks.get(task).is_none_or(|task| task.stage != Stage::Main) {
        return Err(ReopenRefused::NotMain);
    }
    let row = ended.get_mut(&task).ok_or(ReopenRefused::NotEnded)?;
    if !row.state.may_become(state) {
        return Err(ReopenRefused::NoSuchTransition { was: row.state, wanted: state });
    }
    row.state = state;
    row.skipped_by_hand = state == TaskState::Skipped;
    Ok(())
}

fn refuse_open(what: &Reopen, stage: Stage, open: Stage) -> Result<(), ReopenRefused> {
    match what {
        Reopen::Failed => Err(ReopenRefused::StillOpen),
        _ if stage != open => Err(ReopenRefused::InFinalisers),
        _ => Ok(()),
    }
}

/// What is asked for by name or by its outcome, whatever its stage.
fn targets(workflow: &Workflow, ended: &BTreeMap<usize, EndedTask>, what: &Reopen) -> Vec<usize> {
    match what {
        Reopen::Failed => ended
            .values()
            .filter(|task| matches!(task.state, TaskState::Failed | TaskState::Cancelled))
            .map(|task| task.index)
            .collect(),
        Reopen::From(tasks) => tasks.clone(),
        Reopen::FailedOf(tasks) => tasks
            .iter()
            .copied()
            .filter(|index| ended.get(index).is_some_and(|task| task.state != TaskState::Success))
            .collect(),
        Reopen::Settled { task, .. } => workflow.tasks[*task]
            .dependents
            .iter()
            .map(|dependent| *dependent as usize)
            .filter(|dependent| ended.get(dependent).is_some_and(EndedTask::is_consequence))
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

/// Which tasks of the stage live again.
fn chosen(
    situation: &Situation<'_>,
    ended: &BTreeMap<usize, EndedTask>,
    what: &Reopen,
    targets: &[usize],
    stage: Stage,
) -> BTreeSet<usize> {
    let workflow = situation.workflow;
    // Below a task of an open run others may be running: only what was decided because of it is taken back.
    let takes_everything = matches!(what, Reopen::From(_)) && situation.open.is_none();
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    let is_there = |index: &usize| workflow.tasks.get(*index).is_some_and(|task| task.stage == stage);
    let mut frontier: Vec<usize> = targets.iter().copied().filter(is_there).collect();
    while let Some(index) = frontier.pop() {
        if !ended.contains_key(&index) || !chosen.insert(index) {
            continue;
        }
        let dependents = workflow.tasks[index].dependents.iter().map(|dependent| *dependent as usize);
        frontier.extend(
            dependents
                .filter(|dependent| takes_everything || ended.get(dependent).is_some_and(EndedTask::is_consequence)),
        );
    }
    // A task whose rule is settled against it by what stays ended would end again at once: it stays ended too, and may
    // settle others in turn, so look until nothing changes.
    loop {
        let is_settled = |index: &usize| {
            let verdict = workflow.tasks[*index].rule.verdict(count(workflow, ended, &chosen, *index));
            matches!(verdict, Verdict::Skip | Verdict::UpstreamFailed)
        };
        let settled: Vec<usize> = chosen.iter().copied().filter(is_settled).collect();
        if settled.is_empty() {
            return chosen;
        }
        for index in settled {
            chosen.remove(&index);
        }
    }
}

/// The counters of a task over what has ended and stays so.
fn count(workflow: &Workflow, ended: &BTreeMap<usize, EndedTask>, chosen: &BTreeSet<usize>, index: usize) -> Counters {
    let needs = &workflow.tasks[index].needs;
    let mut counters = Counters::open(needs.len() as i32);
    for need in needs.iter().map(|need| *need as usize).filter(|need| !chosen.contains(need)) {
        if let Some(outcome) = ended.get(&need).and_then(EndedTask::outcome) {
            counters.record(outcome);
        }
    }
    counters
}

fn superseded(situation: &Situation<'_>, tasks: &[ReopenedTask], stage: Stage) -> Vec<(usize, i32)> {
    let by_index: BTreeMap<usize, &ReopenedTask> = tasks.iter().map(|task| (task.index, task)).collect();
    let is_taken_back = |ended: &&EndedTask| match by_index.get(&ended.index) {
        Some(task) => task.items.as_ref().is_none_or(|items| !items.keeps(ended.item)),
        None => situation.workflow.tasks.get(ended.index).is_none_or(|task| task.stage > stage),
    };
    situation.ended.iter().filter(is_taken_back).map(|ended| (ended.index, ended.item)).collect()
}

/// Live tasks that wait for one that lives again, or for one that got another end.
fn recounted(
    situation: &Situation<'_>,
    ended: &BTreeMap<usize, EndedTask>,
    chosen: &BTreeSet<usize>,
    what: &Reopen,
) -> Vec<Recounted> {
    let settled = if let Reopen::Settled { task, .. } = what { Some(*task) } else { None };
    let pending = situation.open.map_or(&[][..], |open| open.pending);
    let changes = |need: &i32| chosen.contains(&(*need as usize)) || settled == Some(*need as usize);
    pending
        .iter()
        .filter_map(|index| Some((*index, situation.workflow.tasks.get(*index)?)))
        .filter(|(_, task)| task.needs.iter().any(changes))
        .map(|(index, task)| {
            let counters = count(situation.workflow, ended, chosen, index);
            Recounted { index, counters, verdict: task.rule.verdict(counters) }
        })
        .collect()
}
