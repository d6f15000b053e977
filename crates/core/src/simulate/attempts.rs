//! Attempts: when each one ends, and how, as the test says.

use serde_json::{Map, Value};

use crate::Micros;
use crate::work::Failure;
use crate::workflow::ExitMeaning;

use super::mock::{Mock, Step, StepResult};
use super::outcome::Conclusion;
use super::play::{Event, Player, micros};

impl Player<'_> {
    /// Begins one attempt of a task or of one of its items, and says when and how it will end.
    pub(super) fn launch(&mut self, index: usize, item: Option<usize>) {
        let moment = self.next_moment();
        let outcome = &mut self.tasks[index];
        outcome.began.get_or_insert(moment);
        let attempt = match item {
            None => {
                outcome.attempts += 1;
                outcome.attempts
            }
            Some(item) => self.begin_item(index, item),
        };
        let task = &self.workflow.tasks[index];
        if task.action.parks() {
            if let Some((delay, conclusion)) = self.parked(index, item, attempt) {
                self.schedule(delay, Event::Ends { task: index, item, conclusion });
            }
        } else {
            let (delay, conclusion) = self.executed(index, item, attempt);
            self.schedule(delay, Event::Ends { task: index, item, conclusion });
        }
        self.scope.item = None;
        self.scope.index = None;
    }

    fn executed(&mut self, index: usize, item: Option<usize>, attempt: u32) -> (Micros, Conclusion) {
        let order = match self.workflow.order(index, &self.scope) {
            Ok(order) => order,
            Err(failure) => return (0, Conclusion::Failed(failure)),
        };
        match item {
            None => self.tasks[index].order = Some(order),
            Some(item) => self.items_of(index).outcomes[item].order = Some(order),
        }
        let step = self.step(index, item, attempt);
        let task = &self.workflow.tasks[index];
        if let Some(limit) = task.timeout_ms.filter(|limit| step.takes_ms > *limit) {
            return (micros(limit), Conclusion::Failed(timed_out(limit)));
        }
        let conclusion = match step.result {
            StepResult::Fail(failure) => match task.exit_codes.meaning_of(&failure) {
                Some(ExitMeaning::Skip) => Conclusion::Skipped,
                Some(ExitMeaning::Succeed) => Conclusion::Success(Value::Object(Map::new())),
                None => Conclusion::Failed(failure),
            },
            StepResult::Output(output) => Conclusion::Success(output),
            StepResult::Approve | StepResult::Reject | StepResult::Event(_) | StepResult::Never => {
                Conclusion::Success(Value::Object(Map::new()))
            }
        };
        (micros(step.takes_ms), conclusion)
    }

    /// The outcome the test names, of the item before that of the whole task.
    pub(super) fn mock(&self, index: usize, item: Option<usize>) -> Option<&Mock> {
        let name = &self.workflow.tasks[index].name;
        let own = item.and_then(|item| self.setting.mocks.get(&format!("{name}[{item}]")));
        own.or_else(|| self.setting.mocks.get(name))
    }

    pub(super) fn step(&mut self, index: usize, item: Option<usize>, attempt: u32) -> Step {
        if let Some(mock) = self.mock(index, item) {
            return mock.step(attempt);
        }
        self.object(index);
        Step::default()
    }

    /// A strict test says of every task what becomes of it.
    pub(super) fn object(&mut self, index: usize) {
        let name = &self.workflow.tasks[index].name;
        if self.setting.strict && !self.unmocked.contains(name) {
            self.unmocked.push(name.clone());
        }
    }
}

pub(super) fn timed_out(limit_ms: u64) -> Failure {
    Failure {
        kind: "timeout".into(),
        message: format!("not done within {}", super::compare::duration(limit_ms)),
        ..Failure::default()
    }
}
