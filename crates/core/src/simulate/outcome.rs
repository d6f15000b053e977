//! What became of a run that was played, of its tasks and of their attempts.

use indexmap::IndexMap;
use serde_json::Value;

use crate::Micros;
use crate::diagnostic::Diagnostics;
use crate::state::{RunState, TaskState};
use crate::work::{Failure, Order};

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Not terminal if it waits for something that never comes.
    pub state: RunState,
    pub started: Micros,
    pub ended: Micros,
    /// By index.
    pub tasks: Vec<TaskOutcome>,
    pub outputs: IndexMap<String, Result<Value, String>>,
    /// What a strict test objects to.
    pub unmocked: Vec<String>,
    /// True if playing was given up because there was no end to it.
    pub endless: bool,
}

/// What became of a task. Moments are numbered over the whole run, so that those of one instant have an order too.
#[derive(Debug, Clone)]
pub struct TaskOutcome {
    pub state: TaskState,
    pub attempts: u32,
    pub output: Option<Value>,
    pub error: Option<Failure>,
    pub began: Option<u64>,
    pub ended: Option<u64>,
    pub items: Option<Vec<ItemOutcome>>,
    /// What the last attempt was given.
    pub order: Option<Order>,
    pub child_inputs: Option<Value>,
}

#[derive(Debug, Clone)]
pub struct ItemOutcome {
    /// `pending` if it never began.
    pub state: TaskState,
    pub attempts: u32,
    pub output: Option<Value>,
    pub error: Option<Failure>,
    pub order: Option<Order>,
    pub child_inputs: Option<Value>,
}

/// The run was not created.
#[derive(Debug)]
pub enum Refusal {
    Inputs(Diagnostics),
}

/// What one attempt, or one wait, came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Conclusion {
    Success(Value),
    Failed(Failure),
    Skipped,
}
