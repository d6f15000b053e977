//! What was seen from outside the database.

use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId, TaskKey};

use crate::effects::Effect;

/// A submission that the store has acknowledged.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    /// The idempotency key, in the namespace `default`.
    pub key: String,
    pub run: RunId,
    /// The tasks that leave a line in the effect log when they are executed.
    pub effects: Vec<i32>,
    /// The shortest time between a failed attempt of a task and its next one.
    pub delays: Vec<(i32, Micros)>,
    /// How the run may end.
    pub ends: Vec<RunState>,
}

/// A cancel that the store has acknowledged, and the attempts there were by then of what must not start any more.
#[derive(Debug, Clone)]
pub struct Cancelled {
    pub run: RunId,
    pub attempts: Vec<(TaskKey, i32)>,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub acknowledged: Vec<Acknowledged>,
    pub cancelled: Vec<Cancelled>,
    pub effects: Vec<Effect>,
    /// Processes of killed servers that were still there when they should not have been.
    pub survivors: Vec<String>,
}
