//! The bits in `task_runs.flags` and `runs.flags`. The SQL of the hot units uses the same numbers.

use mainspring_core::retry::OnExhausted;
use mainspring_core::state::{TaskState, Upstream};
use mainspring_core::workflow::{Action, Stage, Task, Workflow};

/// Somebody depends on this task.
pub(crate) const HAS_DEPENDENTS: i16 = 1;
/// A node decides what becomes of it before it may start: it has a condition (then cleared once decided), a list to be
/// repeated over, or a kind that waits instead of being executed (then never cleared).
pub(crate) const HAS_CONDITION: i16 = 2;
/// Exhausted attempts make an entry in the dead letter queue.
pub(crate) const DEAD_LETTER: i16 = 4;
/// A failure counts as success for others and for the run.
pub(crate) const CONTINUES: i16 = 8;
/// Neither a failure nor a lost worker leads to another attempt.
pub(crate) const NOT_RETRYABLE: i16 = 16;
/// So many dependents that they are counted in chunks, in units of their own.
pub(crate) const BIG_FAN_OUT: i16 = 32;
/// It was an operator who skipped it: that counts as success for others.
pub(crate) const SKIPPED_BY_HAND: i16 = 64;
/// It was expanded into items, and its counters count them.
pub(crate) const EXPANDED: i16 = 128;

pub(crate) const RUN_HAS_ON_FAILURE: i16 = 1;
pub(crate) const RUN_HAS_FINALLY: i16 = 2;
pub(crate) const RUN_CANCELLING: i16 = 4;
pub(crate) const RUN_TIMED_OUT: i16 = 8;
pub(crate) const RUN_NO_FINALISERS: i16 = 16;
/// Its rows are still being made, chunk by chunk.
pub(crate) const RUN_BEING_MADE: i16 = 32;
/// It holds its concurrency slot already while it is being made.
pub(crate) const RUN_ADMITTED: i16 = 64;
/// A task of another run waits for its end.
pub(crate) const RUN_HAS_PARENT: i16 = 128;
/// Somebody follows how it ends: the unit that ends it leaves a row in `run_ends`.
pub(crate) const RUN_FOLLOWED: i16 = 256;

/// How many rows one unit touches at most before it leaves the rest to a continuation.
pub(crate) const CHUNK: usize = 5_000;

/// How an ended task counts for those that depend on it; `None` while it is open.
pub(crate) fn upstream(state: TaskState, flags: i16) -> Option<Upstream> {
    let by_flag = if state == TaskState::Skipped { SKIPPED_BY_HAND } else { CONTINUES };
    state.counts_as(flags & by_flag != 0)
}

/// Whether nothing more of the run's stage may start. Cancelling stops all but `finally`, the run's timeout only the main
/// tasks; finalisers that are called off stop everything.
pub(crate) fn is_stopped(flags: i16, stage: i16) -> bool {
    flags & RUN_NO_FINALISERS != 0
        || flags & RUN_CANCELLING != 0 && stage < Stage::Finally.code()
        || flags & RUN_TIMED_OUT != 0 && stage == Stage::Main.code()
}

pub(crate) fn of_task(task: &Task) -> i16 {
    let mut flags = 0;
    if !task.dependents.is_empty() {
        flags |= HAS_DEPENDENTS;
    }
    if task.condition.is_some() || task.foreach.is_some() || task.action.parks() {
        flags |= HAS_CONDITION;
    }
    match task.on_exhausted {
        // What a person refused is not a letter that could not be delivered.
        OnExhausted::DeadLetter if matches!(task.action, Action::Approval(_)) => {}
        OnExhausted::DeadLetter => flags |= DEAD_LETTER,
        OnExhausted::Continue => flags |= CONTINUES,
        OnExhausted::Fail => {}
    }
    if !task.retry.retryable {
        flags |= NOT_RETRYABLE;
    }
    if task.dependents.len() > CHUNK {
        flags |= BIG_FAN_OUT;
    }
    flags
}

pub(crate) fn of_run(workflow: &Workflow) -> i16 {
    let mut flags = 0;
    if !workflow.stage(Stage::OnFailure).is_empty() {
        flags |= RUN_HAS_ON_FAILURE;
    }
    if !workflow.stage(Stage::Finally).is_empty() {
        flags |= RUN_HAS_FINALLY;
    }
    flags
}

/// Lower ranks are served first.
pub(crate) fn rank(priority: i16) -> i16 {
    mainspring_core::workflow::MAX_PRIORITY - priority
}
