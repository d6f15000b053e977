//! What an expression can see.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::state::TaskState;

/// The data of one run that expressions look at. Only the tasks that an expression reads have to be present.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope {
    /// The resolved inputs of the run.
    pub inputs: Map<String, Value>,
    /// `id`, `created_at`, `scheduled_for`, …: whatever the engine knows about the run.
    pub run: Map<String, Value>,
    /// `name`, `namespace`, `version`.
    pub workflow: Map<String, Value>,
    pub tasks: BTreeMap<String, TaskView>,
    /// The values of the secrets that the workflow lists.
    pub secrets: Map<String, Value>,
    /// Of one item of a `foreach`: the item, and its place in the list from 0.
    pub item: Option<Value>,
    pub index: Option<u32>,
    /// Where an event is looked at: the event as JSON.
    pub event: Option<Value>,
    /// Where the answer of a request is looked at: `body`, `status` and `headers`.
    pub answer: Map<String, Value>,
}

/// A task as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    pub status: TaskState,
    pub attempts: i32,
    /// `None` reads like an empty object.
    pub output: Option<Value>,
    /// Why its last attempt failed, if the task did not succeed.
    pub error: Option<TaskError>,
}

/// Why a task failed, as others see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskError {
    pub kind: String,
    pub message: String,
    /// The attempt that failed; 0 if there was none.
    pub attempt: i32,
}

impl TaskView {
    pub(super) fn to_json(&self) -> Value {
        let mut view = Map::with_capacity(4);
        view.insert("status".into(), self.status.word().into());
        view.insert("attempts".into(), self.attempts.into());
        view.insert("output".into(), self.output.clone().unwrap_or_else(|| Map::new().into()));
        // Every field is there, so that `tasks.x.error.message` is a text also after a success.
        let error = self.error.clone().unwrap_or_default();
        let mut fields = Map::with_capacity(3);
        fields.insert("kind".into(), error.kind.into());
        fields.insert("message".into(), error.message.into());
        fields.insert("attempt".into(), error.attempt.into());
        view.insert("error".into(), fields.into());
        view.into()
    }
}
