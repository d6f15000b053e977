//! The run's state and the events that move it forward.

use std::collections::VecDeque;

use crate::plan::Decision;
use crate::retry::OnExhausted;
use crate::rule::{Counters, Verdict};
use crate::state::{RunState, TaskState};
use crate::work::Failure;
use crate::workflow::{Stage, Workflow};

/// One task of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub state: TaskState,
    /// Over its direct dependencies.
    pub counters: Counters,
    /// A failure that continues, or a skip by an operator: for others it succeeded.
    pub counts_as_success: bool,
    /// Attempts started, over all generations.
    pub attempts: u32,
    /// Attempts that failed, in this generation.
    pub failures: u32,
    /// Attempts whose worker was lost, in this generation.
    pub lost: u32,
    pub generation: u32,
    /// Its condition has been evaluated, in this generation.
    pub decided: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Success,
    Failed(Failure),
    /// It said itself that there was nothing to do.
    Skipped,
    Cancelled,
    /// Handed back unfinished; costs nothing.
    Released,
    /// Its worker is gone.
    Lost,
}

/// One transition, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    Task {
        index: usize,
        generation: u32,
        from: TaskState,
        to: TaskState,
    },
    /// A task begins anew under a higher generation; what it was before is superseded.
    Reopened {
        index: usize,
        generation: u32,
    },
    Run {
        from: RunState,
        to: RunState,
    },
}

/// An event that does not fit the state; nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the task is {0}")]
    Task(TaskState),
    #[error("the run is {0}")]
    Run(RunState),
}

#[derive(Debug, Clone)]
pub struct Board<'w> {
    pub(super) workflow: &'w Workflow,
    pub(super) slots: Vec<Slot>,
    pub(super) run: RunState,
    /// How often cancelling was asked for, in this generation of the run.
    pub(super) cancels: u32,
    /// Its time is up: main tasks are stopped, and the run has failed.
    pub(super) timed_out: bool,
    /// Tasks that are not terminal, by stage.
    pub(super) open: [usize; 4],
    /// The stage whose tasks may start.
    pub(super) stage: Stage,
    pub(super) changes: Vec<Change>,
}

impl<'w> Board<'w> {
    /// A run that has just been admitted: what can start is ready.
    pub fn new(workflow: &'w Workflow) -> Self {
        let slots = workflow.tasks.iter().map(|task| Slot::new(task.needs.len())).collect();
        let open =
            [Stage::Main, Stage::OnFailure, Stage::OnSuccess, Stage::Finally].map(|stage| workflow.stage(stage).len());
        let mut board = Self {
            workflow,
            slots,
            run: RunState::Running,
            cancels: 0,
            timed_out: false,
            open,
            stage: Stage::Main,
            changes: Vec::new(),
        };
        board.begin_stage();
        board
    }

    pub fn run_state(&self) -> RunState {
        self.run
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn state(&self, index: usize) -> TaskState {
        self.slots[index].state
    }

    /// Indexes of the tasks in a state, ascending.
    pub fn in_state(&self, state: TaskState) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().enumerate().filter(move |(_, slot)| slot.state == state).map(|(index, _)| index)
    }

    /// What happened since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// A worker claims a ready task.
    pub fn start(&mut self, index: usize) -> Result<(), Refused> {
        self.expect(index, TaskState::Ready)?;
        self.slots[index].attempts += 1;
        self.set(index, TaskState::Running);
        Ok(())
    }

    /// The attempt under way ended.
    pub fn finish(&mut self, index: usize, ending: Ending) -> Result<(), Refused> {
        self.expect(index, TaskState::Running)?;
        let task = &self.workflow.tasks[index];
        let slot = &mut self.slots[index];
        match ending {
            Ending::Success => self.end(index, TaskState::Success),
            Ending::Skipped => self.end(index, TaskState::Skipped),
            Ending::Cancelled => self.end(index, TaskState::Cancelled),
            Ending::Released => self.again(index, TaskState::Ready),
            Ending::Lost => {
                slot.lost += 1;
                if !task.retry.retryable || slot.lost > u32::from(task.max_lost) {
                    self.exhaust(index);
                } else {
                    self.again(index, TaskState::Ready);
                }
            }
            Ending::Failed(failure) => {
                slot.failures += 1;
                if task.retry.tries_again(slot.failures, &failure) {
                    self.again(index, TaskState::Retrying);
                } else {
                    self.exhaust(index);
                }
            }
        }
        Ok(())
    }

    /// A task that waited for its next attempt is due.
    pub fn due(&mut self, index: usize) -> Result<(), Refused> {
        self.expect(index, TaskState::Retrying)?;
        self.release(index);
        Ok(())
    }

    /// A condition was evaluated.
    pub fn decide(&mut self, index: usize, decision: &Decision) -> Result<(), Refused> {
        self.expect(index, TaskState::Deciding)?;
        self.slots[index].decided = true;
        match decision {
            Decision::Start => self.release(index),
            Decision::Skip => self.end(index, TaskState::Skipped),
            Decision::Fail(_) => self.exhaust(index),
        }
        Ok(())
    }

    /// Stops what has not started. Running attempts get a cancel request, and end by themselves. Finalisers run after the first
    /// request and are stopped by the second.
    pub fn cancel(&mut self) -> Result<(), Refused> {
        if self.run.is_terminal() {
            return Err(Refused::Run(self.run));
        }
        self.cancels += 1;
        for index in 0..self.slots.len() {
            let stage = self.workflow.tasks[index].stage;
            let state = self.slots[index].state;
            if state.is_terminal() || state == TaskState::Running || stage == Stage::Finally && self.cancels < 2 {
                continue;
            }
            // What follows a certain end of the main tasks and never began is not cancelled work.
            let unbegun = matches!(stage, Stage::OnFailure | Stage::OnSuccess) && self.stage < stage;
            self.close(index, if unbegun { TaskState::Skipped } else { TaskState::Cancelled });
        }
        for index in 0..self.slots.len() {
            self.slots[index].counters = self.recount(index);
        }
        self.move_on();
        Ok(())
    }

    /// Nothing more starts until the run is resumed.
    pub fn pause(&mut self) -> Result<(), Refused> {
        self.set_run(RunState::Running, RunState::Paused)?;
        for index in 0..self.slots.len() {
            if self.slots[index].state == TaskState::Ready {
                self.set(index, TaskState::Held);
            }
        }
        Ok(())
    }

    pub fn resume(&mut self) -> Result<(), Refused> {
        self.set_run(RunState::Paused, RunState::Running)?;
        for index in 0..self.slots.len() {
            if self.slots[index].state == TaskState::Held {
                self.release(index);
            }
        }
        Ok(())
    }

    fn expect(&self, index: usize, state: TaskState) -> Result<(), Refused> {
        match self.slots[index].state {
            current if current == state => Ok(()),
            current => Err(Refused::Task(current)),
        }
    }

    pub(super) fn set_run(&mut self, from: RunState, to: RunState) -> Result<(), Refused> {
        if self.run != from {
            return Err(Refused::Run(self.run));
        }
        debug_assert!(from.may_become(to), "run {from} to {to}");
        self.run = to;
        self.changes.push(Change::Run { from, to });
        Ok(())
    }

    fn set(&mut self, index: usize, to: TaskState) {
        let slot = &mut self.slots[index];
        let (from, generation) = (slot.state, slot.generation);
        debug_assert!(from.may_become(to), "task {index} {from} to {to}");
        slot.state = to;
        self.changes.push(Change::Task { index, generation, from, to });
    }

    /// A terminal state, without a look at what depends on it.
    pub(super) fn close(&mut self, index: usize, to: TaskState) {
        self.open[stage_number(self.workflow.tasks[index].stage)] -= 1;
        self.set(index, to);
    }

    /// Lets a task start, or asks its condition first, or holds it back.
    fn release(&mut self, index: usize) {
        let undecided = self.workflow.tasks[index].condition.is_some() && !self.slots[index].decided;
        let to = match self.run {
            RunState::Paused => TaskState::Held,
            _ if undecided => TaskState::Deciding,
            _ => TaskState::Ready,
        };
        self.set(index, to);
    }

    /// Back to the queue; but a run that is being cancelled starts nothing more, except finalisers.
    fn again(&mut self, index: usize, to: TaskState) {
        if self.is_stopped(self.workflow.tasks[index].stage) {
            self.end(index, TaskState::Cancelled);
        } else if to == TaskState::Ready {
            self.release(index);
        } else {
            self.set(index, to);
        }
    }

    pub(super) fn is_stopped(&self, stage: Stage) -> bool {
        self.cancels >= if stage == Stage::Finally { 2 } else { 1 } || self.timed_out && stage == Stage::Main
    }

    fn exhaust(&mut self, index: usize) {
        self.slots[index].counts_as_success = self.workflow.tasks[index].on_exhausted == OnExhausted::Continue;
        self.end(index, TaskState::Failed);
    }

    /// A terminal state, and everything that follows from it.
    fn end(&mut self, index: usize, to: TaskState) {
        self.close(index, to);
        self.propagate(index);
        self.move_on();
    }

    pub(super) fn propagate(&mut self, index: usize) {
        let mut ended = VecDeque::from([index]);
        while let Some(index) = ended.pop_front() {
            let slot = &self.slots[index];
            let Some(outcome) = slot.state.counts_as(slot.counts_as_success) else { continue };
            for dependent in &self.workflow.tasks[index].dependents {
                let dependent = *dependent as usize;
                self.slots[dependent].counters.record(outcome);
                if self.settle(dependent) {
                    ended.push_back(dependent);
                }
            }
        }
    }

    /// Applies a waiting task's rule. True if that ended it.
    fn settle(&mut self, index: usize) -> bool {
        if self.slots[index].state != TaskState::Pending {
            return false;
        }
        match self.workflow.tasks[index].rule.verdict(self.slots[index].counters) {
            Verdict::Wait => return false,
            Verdict::Start => {
                self.release(index);
                return false;
            }
            Verdict::Skip => self.close(index, TaskState::Skipped),
            Verdict::UpstreamFailed => self.close(index, TaskState::UpstreamFailed),
        }
        true
    }

    /// Settles the tasks of the stage that has just become the current one.
    pub(super) fn begin_stage(&mut self) {
        for index in self.workflow.stage(self.stage) {
            if self.settle(index) {
                self.propagate(index);
            }
        }
        self.move_on();
    }

    /// Goes to the next stage, or ends the run, when nothing of the current stage is open.
    pub(super) fn move_on(&mut self) {
        while self.open[stage_number(self.stage)] == 0 && !self.run.is_terminal() {
            let next = match self.stage {
                Stage::Main => Stage::OnFailure,
                Stage::OnFailure => Stage::OnSuccess,
                Stage::OnSuccess => Stage::Finally,
                Stage::Finally => return self.end_run(),
            };
            self.stage = next;
            let unwanted = match next {
                Stage::OnFailure => self.cancels > 0 || !self.has_failed(),
                Stage::OnSuccess => self.cancels > 0 || self.has_failed(),
                Stage::Main | Stage::Finally => false,
            };
            if unwanted {
                for index in self.workflow.stage(next) {
                    if !self.slots[index].state.is_terminal() {
                        self.close(index, TaskState::Skipped);
                    }
                }
                for index in self.workflow.stage(next) {
                    self.slots[index].counters = self.recount(index);
                }
                continue;
            }
            for index in self.workflow.stage(next) {
                if self.settle(index) {
                    self.propagate(index);
                }
            }
        }
    }

    fn end_run(&mut self) {
        let to = match () {
            () if self.cancels > 0 => RunState::Cancelled,
            () if self.has_failed() => RunState::Failed,
            () => RunState::Success,
        };
        let from = self.run;
        debug_assert!(from.may_become(to), "run {from} to {to}");
        self.run = to;
        self.changes.push(Change::Run { from, to });
    }

    /// Whether something failed that the run answers for.
    pub(super) fn has_failed(&self) -> bool {
        self.timed_out
            || self.slots.iter().any(|slot| match slot.state {
                TaskState::Failed => !slot.counts_as_success,
                TaskState::UpstreamFailed => true,
                _ => false,
            })
    }

    /// The counters as they follow from the states of the dependencies.
    pub(super) fn recount(&self, index: usize) -> Counters {
        let needs = &self.workflow.tasks[index].needs;
        let mut counters = Counters::open(needs.len() as i32);
        for need in needs {
            let slot = &self.slots[*need as usize];
            if let Some(outcome) = slot.state.counts_as(slot.counts_as_success) {
                counters.record(outcome);
            }
        }
        counters
    }
}

impl Slot {
    fn new(needs: usize) -> Self {
        Self {
            state: TaskState::Pending,
            counters: Counters::open(needs as i32),
            counts_as_success: false,
            attempts: 0,
            failures: 0,
            lost: 0,
            generation: 0,
            decided: false,
        }
    }
}

pub(super) fn stage_number(stage: Stage) -> usize {
    stage.code() as usize
}
