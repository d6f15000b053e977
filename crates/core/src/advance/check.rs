//! The invariants of a run, as a function.

use crate::rule::Verdict;
use crate::state::{RunState, TaskState};
use crate::workflow::Stage;

use super::board::{Board, stage_number};

impl Board<'_> {
    /// What is inconsistent, if anything is.
    pub fn check(&self) -> Result<(), String> {
        for index in 0..self.slots.len() {
            self.check_task(index).map_err(|cause| format!("task {index} ({:?}): {cause}", self.slots[index]))?;
        }
        self.check_run()
    }

    fn check_task(&self, index: usize) -> Result<(), String> {
        let slot = &self.slots[index];
        let task = &self.workflow.tasks[index];
        if slot.counters != self.recount(index) {
            return Err(format!("counters should be {:?}", self.recount(index)));
        }
        let verdict = task.rule.verdict(slot.counters);
        // What was let go by an outcome goes on when that outcome is reopened.
        let reopened_above = task.needs.iter().any(|need| self.slots[*need as usize].generation > 0);
        let begun = task.stage <= self.stage;
        match slot.state {
            TaskState::Pending if begun && verdict != Verdict::Wait => Err(format!("waits although it is {verdict:?}")),
            TaskState::Ready | TaskState::Running | TaskState::Retrying | TaskState::Deciding | TaskState::Held
                if !begun || verdict != Verdict::Start && !reopened_above =>
            {
                Err(format!("was let go although its rule says {verdict:?} (stage begun: {begun})"))
            }
            TaskState::UpstreamFailed if verdict != Verdict::UpstreamFailed && !reopened_above => {
                Err(format!("blames its dependencies although its rule says {verdict:?}"))
            }
            TaskState::Ready | TaskState::Retrying | TaskState::Deciding | TaskState::Held
                if self.is_stopped(task.stage) =>
            {
                Err("could start although the run is cancelled".into())
            }
            TaskState::Retrying if slot.failures >= u32::from(task.retry.attempts) => Err("is over its budget".into()),
            TaskState::Ready if self.run == RunState::Paused => Err("is ready although the run is paused".into()),
            TaskState::Ready if task.condition.is_some() && !slot.decided => Err("was never decided".into()),
            TaskState::Gated | TaskState::Waiting => Err("is a state this model lacks".into()),
            _ if slot.failures > u32::from(task.retry.attempts) => Err("failed more often than it may".into()),
            _ => Ok(()),
        }
    }

    fn check_run(&self) -> Result<(), String> {
        for stage in Stage::ALL {
            let open = self.workflow.stage(*stage).filter(|index| !self.slots[*index].state.is_terminal()).count();
            let counted = self.open[stage_number(*stage)];
            if open != counted {
                return Err(format!("{open} tasks of {stage} are open, but {counted} are counted"));
            }
        }
        let all_ended = self.open.iter().all(|open| *open == 0);
        if all_ended != self.run.is_terminal() {
            return Err(format!("the run is {} while all tasks ended: {all_ended}", self.run));
        }
        let earlier: usize = self.open[..stage_number(self.stage)].iter().sum();
        if earlier > 0 {
            return Err(format!("{} began while {earlier} tasks before it were open", self.stage));
        }
        let expected = match self.run {
            RunState::Success => !self.has_failed() && self.cancels == 0,
            RunState::Failed => self.has_failed() && self.cancels == 0,
            RunState::Cancelled => self.cancels > 0,
            _ => true,
        };
        if expected { Ok(()) } else { Err(format!("the run is {} without reason", self.run)) }
    }
}
