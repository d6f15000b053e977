//! How the main tasks ended, as expressions of the tasks after them see it.

use serde_json::{Map, Value};

use crate::Workflow;
use crate::expr::TaskError;
use crate::retry::OnExhausted;
use crate::state::{RunState, TaskState};
use crate::workflow::Stage;

/// How a run stands when its main tasks have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedTasks {
    pub cancelled: bool,
    pub timed_out: bool,
    /// Those that neither succeeded nor were skipped, by index, ascending.
    pub unsuccessful: Vec<(i32, TaskState, TaskError)>,
}

impl EndedTasks {
    /// Why a task failed; `None` if it did not.
    pub fn error(&self, index: i32) -> Option<&TaskError> {
        self.unsuccessful.iter().find(|(task, ..)| *task == index).map(|(_, _, error)| error)
    }
}

impl Workflow {
    /// Adds `status` and `failed_tasks` to what expressions see as `run`.
    pub fn describe_end(&self, ended: &EndedTasks, run: &mut Map<String, Value>) {
        let answers_for = |index: i32, state: TaskState| {
            let task = &self.tasks[index as usize];
            task.stage == Stage::Main
                && match state {
                    TaskState::Failed => task.on_exhausted != OnExhausted::Continue,
                    TaskState::UpstreamFailed => true,
                    _ => false,
                }
        };
        let failed = ended.timed_out || ended.unsuccessful.iter().any(|(index, state, _)| answers_for(*index, *state));
        let status = match () {
            () if ended.cancelled => RunState::Cancelled,
            () if failed => RunState::Failed,
            () => RunState::Success,
        };
        let names = ended.unsuccessful.iter().filter(|(index, state, _)| {
            *state == TaskState::Failed && self.tasks[*index as usize].stage == Stage::Main
        });
        let names: Vec<Value> = names.map(|(index, ..)| self.tasks[*index as usize].name.clone().into()).collect();
        run.insert("status".into(), status.word().into());
        run.insert("failed_tasks".into(), names.into());
    }
}
