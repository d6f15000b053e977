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

/// The number of attempts of each task.
pub type Attempts = Vec<(TaskKey, i32)>;

/// A cancel that the store has acknowledged, and the attempts there were by then of what must not start any more.
#[derive(Debug, Clone)]
pub struct Cancelled {
    pub run: RunId,
    pub attempts: Attempts,
    /// The attempts there were when the run was reopened, if it was: what is claimed later is no violation.
    pub until: Option<Attempts>,
}

/// A pause that the store has acknowledged: the attempts right after it, and right before the run was let go on.
#[derive(Debug, Clone)]
pub struct Paused {
    pub run: RunId,
    /// Which generation of it: attempt numbers go on where the one before stopped.
    pub generation: i16,
    pub before: Attempts,
    pub after: Attempts,
}

/// A reopening that the store has acknowledged, and the attempts there were before.
#[derive(Debug, Clone)]
pub struct Reopened {
    pub run: RunId,
    /// The generation it began.
    pub generation: i16,
    pub attempts: Attempts,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub acknowledged: Vec<Acknowledged>,
    pub cancelled: Vec<Cancelled>,
    pub paused: Vec<Paused>,
    pub reopened: Vec<Reopened>,
    pub effects: Vec<Effect>,
    /// Runs that were asked for in another way than by a submission with a key: by requests over HTTP.
    pub requested: Vec<RunId>,
    /// Dead letters that an operator acted on, by their ids where that was acknowledged, and the runs they belong to: those may be
    /// reopened more often.
    pub acted: Vec<(Option<String>, RunId)>,
    /// Whether attempts were handed back only before they began, so that none of them may have left an effect. A server that
    /// stops hands back what runs, too.
    pub hands_back_unbegun: bool,
    /// Processes of killed servers that were still there when they should not have been.
    pub survivors: Vec<String>,
}
