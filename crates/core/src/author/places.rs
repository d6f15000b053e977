//! Which names have a value where: a text is evaluated at one moment, and sees what exists by then.

use crate::expr::Allowed;
use crate::workflow::{Foreach, Stage, Task, TriggerSource};

use super::spec::{Field, ImageField, StepField};

const NO_TASK_YET: Option<&str> = Some("no task has run yet where this expression is evaluated");
const NO_INPUTS_YET: Option<&str> = Some("the inputs are not known yet where this expression is evaluated");
const NO_INPUTS_OF_CHECK: Option<&str> =
    Some("a poll has no inputs: it is executed before there is a run of the workflow");
const NO_RUN_YET: Option<&str> = Some("there is no run yet where this expression is evaluated");
const NO_ENV: Option<&str> = Some("`env` belongs to tasks and cannot be read here");
const NO_SECRET: Option<&str> = Some(
    "`secrets` can be read in `env`, `headers`, `auth` and `payload` only — put it in `env`, where the task can read it as a variable",
);
const NO_ITEM: Option<&str> = Some("`NAME` exists only in a task with `foreach` or `matrix`");
const NO_ITEM_YET: Option<&str> =
    Some("`NAME` does not exist yet: `if` and `foreach` are evaluated once, before the items");
const NO_MATRIX: Option<&str> = Some("`matrix` exists only in a task with `matrix`");
const NO_EVENT: Option<&str> = Some("`event` exists only in triggers and in the `if` of `wait`");
const NO_EVENT_FIRES: Option<&str> = Some("`event` has no value: the clock or a person fires this trigger");

const NO_RUN_END: Option<&str> = Some("`run.NAME` exists only in `on_failure`, `on_success` and `finally`");

/// What a task sees of its run.
const TASK: Allowed = Allowed {
    inputs: None,
    run: None,
    run_end: NO_RUN_END,
    tasks: None,
    env: None,
    secrets: NO_SECRET,
    item: NO_ITEM,
    matrix: NO_MATRIX,
    event: NO_EVENT,
    answer: false,
    error: false,
};

/// What is known when a run is made.
const NEW_RUN: Allowed = Allowed { tasks: NO_TASK_YET, env: NO_ENV, ..TASK };

pub(super) fn of_task(field: &Field, task: &Task) -> Allowed {
    let item = match (&task.foreach, field.is_decisive()) {
        (None, _) => NO_ITEM,
        (Some(_), true) => NO_ITEM_YET,
        (Some(_), false) => None,
    };
    let matrix = match &task.foreach {
        Some(Foreach::Matrix(_)) => item,
        _ => NO_MATRIX,
    };
    let secrets = match field {
        Field::Step(_, StepField::Env(_)) | Field::Image(ImageField::Username | ImageField::Password) => None,
        Field::Env(_) | Field::Header(_) | Field::Username | Field::Password | Field::Bearer | Field::Payload(_) => {
            None
        }
        _ => NO_SECRET,
    };
    let event = if *field == Field::WaitCondition { None } else { NO_EVENT };
    let run_end = if task.stage == Stage::Main { NO_RUN_END } else { None };
    Allowed {
        item,
        matrix,
        secrets,
        event,
        run_end,
        answer: *field == Field::ExpectJson,
        error: *field == Field::RetryCondition,
        ..TASK
    }
}

/// What the check of a poll sees: there is no run of the workflow yet.
pub(super) fn of_check(field: &Field, task: &Task) -> Allowed {
    Allowed { inputs: NO_INPUTS_OF_CHECK, tasks: NO_TASK_YET, ..of_task(field, task) }
}

/// `sources` are those of the triggers.
pub(super) fn of_workflow(field: &Field, sources: &[TriggerSource]) -> Allowed {
    let event = |number: &usize| match sources.get(*number) {
        Some(TriggerSource::Poll(_)) => None,
        Some(source) if source.is_scheduled() || *source == TriggerSource::Manual => NO_EVENT_FIRES,
        _ => None,
    };
    match field {
        Field::Env(_) => Allowed { env: None, secrets: None, ..NEW_RUN },
        Field::InputDefault(_) => Allowed { inputs: Some("one input cannot read another"), ..NEW_RUN },
        Field::Output(..) => Allowed { tasks: None, ..NEW_RUN },
        Field::TriggerInput(number, ..) => Allowed { inputs: NO_INPUTS_YET, event: event(number), ..NEW_RUN },
        Field::TriggerCondition(number) | Field::DebounceKey(number) | Field::PollKey(number) => {
            Allowed { inputs: NO_INPUTS_YET, run: NO_RUN_YET, event: event(number), ..NEW_RUN }
        }
        _ => NEW_RUN,
    }
}
