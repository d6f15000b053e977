//! A task that is repeated over a list: its items have attempts of their own, and it ends when all have.

use serde_json::{Map, Value};

use crate::expr::render_text;
use crate::retry::OnExhausted;
use crate::state::TaskState;
use crate::work::Failure;

use super::outcome::{Conclusion, ItemOutcome};
use super::play::Player;

#[derive(Debug)]
pub(super) struct Items {
    values: Vec<Value>,
    pub(super) outcomes: Vec<ItemOutcome>,
    failures: Vec<u32>,
    /// The next that has not begun.
    next: usize,
    open: usize,
}

impl Player<'_> {
    pub(super) fn items_of(&mut self, index: usize) -> &mut Items {
        self.items.entry(index).or_insert_with(|| Items::new(Vec::new()))
    }

    /// The workflow's variables with their values.
    pub(super) fn env(&self) -> Result<Map<String, Value>, String> {
        let mut env = Map::new();
        for (name, text) in &self.workflow.env {
            let value = render_text(text, &self.scope, &env).map_err(|error| error.to_string())?;
            env.insert(name.clone(), Value::String(value));
        }
        Ok(env)
    }

    /// Evaluates the list and begins as many items as may run at once.
    pub(super) fn expand(&mut self, index: usize) {
        let values = match self.workflow.foreach_items(index, &self.scope) {
            Ok(values) => values,
            Err(failure) => return self.conclude(index, Conclusion::Failed(failure)),
        };
        let most = self.workflow.tasks[index].max_parallel.map_or(values.len(), |most| most as usize);
        let first = values.len().min(most);
        self.items.insert(index, Items::new(values));
        self.tasks[index].attempts = 1;
        for _ in 0..first {
            self.launch_next(index);
        }
        self.end_if_all_ended(index);
    }

    fn launch_next(&mut self, index: usize) {
        let items = self.items_of(index);
        let item = items.next;
        if item < items.values.len() {
            items.next += 1;
            self.launch(index, Some(item));
        }
    }

    /// Puts an item into scope and returns the number of its attempt.
    pub(super) fn begin_item(&mut self, index: usize, item: usize) -> u32 {
        let items = self.items_of(index);
        let outcome = &mut items.outcomes[item];
        outcome.attempts += 1;
        outcome.state = TaskState::Running;
        let (attempt, value) = (outcome.attempts, items.values[item].clone());
        self.scope.item = Some(value);
        self.scope.index = Some(item as u32);
        attempt
    }

    pub(super) fn conclude_item(&mut self, index: usize, item: usize, conclusion: Conclusion) {
        // The run may have been stopped while the item was under way.
        if self.tasks[index].ended.is_some() || self.items_of(index).outcomes[item].state.is_terminal() {
            return;
        }
        let task = &self.workflow.tasks[index];
        let items = self.items_of(index);
        let outcome = &mut items.outcomes[item];
        match conclusion {
            Conclusion::Success(output) => {
                outcome.state = TaskState::Success;
                outcome.output = Some(output);
                outcome.error = None;
            }
            Conclusion::Skipped => outcome.state = TaskState::Skipped,
            Conclusion::Failed(failure) => {
                items.failures[item] += 1;
                let failures = items.failures[item];
                let again = task.retry.tries_again(failures, &failure);
                outcome.error = Some(failure);
                if again {
                    outcome.state = TaskState::Retrying;
                    return self.retry_item(index, item, failures);
                }
                outcome.state = TaskState::Failed;
                if task.fail_fast && task.on_exhausted != OnExhausted::Continue {
                    items.stop();
                    return self.end_if_all_ended(index);
                }
            }
        }
        items.open -= 1;
        self.launch_next(index);
        self.end_if_all_ended(index);
    }

    fn end_if_all_ended(&mut self, index: usize) {
        let continues = self.workflow.tasks[index].on_exhausted == OnExhausted::Continue;
        let items = self.items_of(index);
        if items.open > 0 {
            return;
        }
        let failed: Vec<usize> =
            (0..items.outcomes.len()).filter(|item| items.outcomes[*item].state == TaskState::Failed).collect();
        let output = items.outcomes.iter().map(|outcome| outcome.output.clone().unwrap_or(Value::Null)).collect();
        let conclusion = match failed.first() {
            Some(first) if !continues => {
                let cause = items.outcomes[*first].error.as_ref().map_or("", |failure| failure.message.as_str());
                let message =
                    format!("{} of {} items failed; item {first}: {cause}", failed.len(), items.outcomes.len());
                Conclusion::Failed(Failure { kind: "items".into(), message, permanent: true, ..Failure::default() })
            }
            _ => Conclusion::Success(Value::Array(output)),
        };
        self.conclude(index, conclusion);
    }
}

impl Items {
    /// One has failed, and the others are not wanted any more.
    fn stop(&mut self) {
        for outcome in self.outcomes.iter_mut().filter(|outcome| !outcome.state.is_terminal()) {
            outcome.state = TaskState::Cancelled;
        }
        self.open = 0;
        self.next = self.values.len();
    }

    fn new(values: Vec<Value>) -> Self {
        let nothing = ItemOutcome {
            state: TaskState::Pending,
            attempts: 0,
            output: None,
            error: None,
            order: None,
            child_inputs: None,
        };
        let count = values.len();
        Self { values, outcomes: vec![nothing; count], failures: vec![0; count], next: 0, open: count }
    }
}
