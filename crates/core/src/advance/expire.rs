//! A run whose time is up.

use crate::state::TaskState;
use crate::workflow::Stage;

use super::board::{Board, Refused};

impl Board<'_> {
    /// Stops the main tasks: those that have not started are cancelled, running attempts get a cancel request and end by
    /// themselves. Finalisers run, `on_failure` too, and the run ends as failed.
    pub fn expire(&mut self) -> Result<(), Refused> {
        if self.run.is_terminal() {
            return Err(Refused::Run(self.run));
        }
        self.timed_out = true;
        for index in self.workflow.stage(Stage::Main) {
            let state = self.slots[index].state;
            if !state.is_terminal() && state != TaskState::Running {
                self.close(index, TaskState::Cancelled);
            }
        }
        for index in self.workflow.stage(Stage::Main) {
            self.slots[index].counters = self.recount(index);
        }
        self.move_on();
        Ok(())
    }
}
