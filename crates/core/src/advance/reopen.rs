//! Reopening finished work, by an operator's action only.

use std::collections::VecDeque;

use crate::state::{RunState, TaskState};
use crate::workflow::Stage;

use super::board::{Board, Change, Refused, stage_number};

/// What an operator does with a finished task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reopening {
    /// Run it again, with a fresh budget.
    Retry,
    /// Go on as if it had succeeded, without output.
    Skip,
    /// A person did the work by hand.
    Resolve,
}

impl Board<'_> {
    /// Reopens a task together with what was decided because of it: its descendants that were skipped, cancelled or
    /// failed with it, and the finalisers. Each of them begins a new generation; the run is running again.
    pub fn reopen(&mut self, index: usize, how: Reopening) -> Result<(), Refused> {
        self.reopen_all(&[index], how)
    }

    /// Reopens several tasks in one step, all of them or none. One after the other, a task could be let go by the outcome
    /// of another that is reopened only after it.
    pub fn reopen_all(&mut self, targets: &[usize], how: Reopening) -> Result<(), Refused> {
        for target in targets {
            self.check_reopening(*target, how)?;
        }
        let Some(stage) = targets.iter().map(|target| self.workflow.tasks[*target].stage).min() else { return Ok(()) };
        let mut again = self.decided_because_of(targets);
        // Finalisers run again, also those that succeeded: they looked at a run that was not over.
        for later in Stage::ALL.iter().copied().filter(|later| *later > stage) {
            let ended = |other: &usize| self.slots[*other].state.is_terminal() && !targets.contains(other);
            again.extend(self.workflow.stage(later).filter(ended));
        }
        // A finaliser may depend on another that is reopened.
        again.sort_unstable();
        again.dedup();
        for other in again.iter().chain(targets) {
            self.restart(*other);
        }
        if how != Reopening::Retry {
            targets.iter().for_each(|target| self.settle_by_hand(*target, how));
        }
        for other in again.iter().chain(targets) {
            self.slots[*other].counters = self.recount(*other);
            for dependent in &self.workflow.tasks[*other].dependents {
                self.slots[*dependent as usize].counters = self.recount(*dependent as usize);
            }
        }
        self.cancels = 0;
        self.timed_out = false;
        self.stage = stage.min(self.stage);
        if self.run.is_terminal() {
            self.set_run(self.run, RunState::Running)?;
        }
        self.begin_stage();
        Ok(())
    }

    fn check_reopening(&self, index: usize, how: Reopening) -> Result<(), Refused> {
        use TaskState::{Cancelled, Failed, Skipped, UpstreamFailed};
        let state = self.slots[index].state;
        if !matches!(state, Failed | UpstreamFailed | Skipped | Cancelled) || how == Reopening::Skip && state == Skipped
        {
            return Err(Refused::Task(state));
        }
        // Finalisers that are under way, and a cancellation, cannot be taken back; the operator waits for the end.
        let stage = self.workflow.tasks[index].stage;
        let ending = !self.run.is_terminal() && (self.stage > stage || self.cancels > 0);
        if self.run == RunState::Success || ending { Err(Refused::Run(self.run)) } else { Ok(()) }
    }

    /// Descendants whose outcome was only a consequence. An operator's own skip is not one.
    fn decided_because_of(&self, targets: &[usize]) -> Vec<usize> {
        let mut seen = vec![false; self.slots.len()];
        let mut found = Vec::new();
        let mut queue: VecDeque<usize> = targets.iter().copied().collect();
        targets.iter().for_each(|target| seen[*target] = true);
        while let Some(next) = queue.pop_front() {
            for dependent in &self.workflow.tasks[next].dependents {
                let dependent = *dependent as usize;
                let slot = &self.slots[dependent];
                let consequence =
                    matches!(slot.state, TaskState::UpstreamFailed | TaskState::Skipped | TaskState::Cancelled)
                        && !slot.counts_as_success;
                if consequence && !std::mem::replace(&mut seen[dependent], true) {
                    found.push(dependent);
                    queue.push_back(dependent);
                }
            }
        }
        found
    }

    fn restart(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.state.is_terminal() {
            self.open[stage_number(self.workflow.tasks[index].stage)] += 1;
        }
        slot.state = TaskState::Pending;
        slot.generation += 1;
        slot.failures = 0;
        slot.lost = 0;
        slot.decided = false;
        slot.counts_as_success = false;
        self.changes.push(Change::Reopened { index, generation: slot.generation });
    }

    fn settle_by_hand(&mut self, index: usize, how: Reopening) {
        let to = if how == Reopening::Skip { TaskState::Skipped } else { TaskState::ResolvedManually };
        self.open[stage_number(self.workflow.tasks[index].stage)] -= 1;
        let slot = &mut self.slots[index];
        slot.counts_as_success = true;
        slot.state = to;
        self.changes.push(Change::Task { index, generation: slot.generation, from: TaskState::Pending, to });
    }
}
