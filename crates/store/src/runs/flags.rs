//! The bits in `task_runs.flags` and `runs.flags`. SQL names them: `{task_flag.expanded}`, `{run_flag.followed}`.

use mainspring_core::retry::OnExhausted;
use mainspring_core::state::{TaskState, Upstream};
use mainspring_core::workflow::{Action, Stage, Task, Workflow};

/// Constants, and the list of their names for the placeholders in SQL.
macro_rules! flags {
    ($list:ident: $($(#[$meta:meta])* $name:ident $word:literal = $value:expr;)+) => {
        $($(#[$meta])* pub(crate) const $name: i16 = $value;)+
        pub(crate) const $list: &[(&str, i16)] = &[$(($word, $name),)+];
    };
}

flags! { TASK_FLAGS:
    /// Other tasks depend on this one.
    HAS_DEPENDENTS "has_dependents" = 1;
    /// A node decides what becomes of it before it may start: it has a condition (then cleared once decided), a list to be
    /// repeated over, or a kind that waits instead of being executed (then never cleared).
    HAS_CONDITION "has_condition" = 2;
    /// Exhausted attempts make an entry in the dead letter queue.
    DEAD_LETTER "dead_letter" = 4;
    /// A failure counts as success for others and for the run.
    CONTINUES "continues" = 8;
    /// Neither a failure nor a lost worker leads to another attempt.
    NOT_RETRYABLE "not_retryable" = 16;
    /// It has too many dependents for one unit: they are counted in chunks, in units of their own.
    BIG_FAN_OUT "big_fan_out" = 32;
    /// Both of these.
    HAS_MANY_DEPENDENTS "has_many_dependents" = HAS_DEPENDENTS | BIG_FAN_OUT;
    /// It was an operator who skipped it: that counts as success for others.
    SKIPPED_BY_HAND "skipped_by_hand" = 64;
    /// It was expanded into items, and its counters count them.
    EXPANDED "expanded" = 128;
}

flags! { RUN_FLAGS:
    RUN_HAS_ON_FAILURE "has_on_failure" = 1;
    RUN_HAS_FINALLY "has_finally" = 2;
    RUN_CANCELLING "cancelling" = 4;
    RUN_TIMED_OUT "timed_out" = 8;
    RUN_NO_FINALISERS "no_finalisers" = 16;
    /// Its rows are still being made, chunk by chunk.
    RUN_BEING_MADE "being_made" = 32;
    /// It holds its concurrency slot already while it is being made.
    RUN_ADMITTED "admitted" = 64;
    /// A task of another run waits for its end.
    RUN_HAS_PARENT "has_parent" = 128;
    /// Its end is followed: the unit that ends it leaves a row in `run_ends`.
    RUN_FOLLOWED "followed" = 256;
    RUN_HAS_ON_SUCCESS "has_on_success" = 512;
    /// A stage comes after the main one.
    RUN_HAS_FINALISERS "has_finalisers" = RUN_HAS_ON_FAILURE | RUN_HAS_ON_SUCCESS | RUN_HAS_FINALLY;
    /// Its deadline does not matter: it is being made, cancelled, or past it.
    RUN_IGNORES_DEADLINE "ignores_deadline" = RUN_CANCELLING | RUN_TIMED_OUT | RUN_BEING_MADE;
}

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
    if !workflow.stage(Stage::OnSuccess).is_empty() {
        flags |= RUN_HAS_ON_SUCCESS;
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

/// The state a row without open dependencies takes up.
pub(crate) fn startable(run_is_running: bool, flags: i16, pool: Option<i32>) -> TaskState {
    TaskState::startable(run_is_running, flags & HAS_CONDITION != 0, pool.is_some())
}
