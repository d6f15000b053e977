//! Where a checked text is stored: the field of the model that a text was written for.

use serde_json::Value;

use crate::Workflow;
use crate::workflow::{Action, BodyExpect, Foreach, Http, HttpAuth, HttpBody, Task, Wait};

use super::spec::{Field, ImageField, StepField};

/// The text of a task; `script` and the condition, which change their form, apart.
pub(super) fn of_task<'m>(task: &'m mut Task, field: &Field) -> Option<&'m mut String> {
    match field {
        Field::Condition => task.condition.as_mut(),
        Field::Image(field) => {
            let container = task.container.as_mut()?;
            match field {
                ImageField::Name => Some(&mut container.image),
                ImageField::Command(index) => container.command.get_mut(*index),
                ImageField::Username => container.username.as_mut(),
                ImageField::Password => container.password.as_mut(),
            }
        }
        Field::ReuseKey => task.reuse.as_mut().map(|reuse| &mut reuse.key),
        Field::CacheKey => task.cache.as_mut().map(|cache| &mut cache.key),
        Field::RetryCondition => task.retry.condition.as_mut(),
        Field::Env(name) => task.env.get_mut(name),
        Field::Foreach | Field::ForeachMember(_) => of_foreach(task.foreach.as_mut()?, field),
        _ => of_action(&mut task.action, field),
    }
}

fn of_foreach<'m>(foreach: &'m mut Foreach, field: &Field) -> Option<&'m mut String> {
    match (foreach, field) {
        (Foreach::Expression(text), Field::Foreach) => Some(text),
        (Foreach::List(members), Field::ForeachMember(pointer)) => {
            let (index, rest) = pointer.strip_prefix('/').map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
            let member = members.get_mut(index.parse::<usize>().ok()?)?;
            if rest.is_empty() { text(member) } else { text_at(member, &format!("/{rest}")) }
        }
        (Foreach::Matrix(matrix), Field::ForeachMember(pointer)) => {
            let (part, rest) = pointer.strip_prefix('/').and_then(|rest| rest.split_once('/'))?;
            let part = match part {
                "axes" => &mut matrix.axes,
                "include" => &mut matrix.include,
                _ => &mut matrix.exclude,
            };
            text_at(part, &format!("/{rest}"))
        }
        _ => None,
    }
}

fn of_action<'m>(action: &'m mut Action, field: &Field) -> Option<&'m mut String> {
    match (action, field) {
        (Action::Run { cwd, .. } | Action::Steps { cwd, .. }, Field::Cwd) => cwd.as_mut(),
        (Action::Steps { steps, .. }, Field::Step(index, field)) => {
            let step = steps.get_mut(*index)?;
            match field {
                StepField::Condition => step.condition.as_mut(),
                StepField::Env(name) => step.env.get_mut(name),
                StepField::Cwd => step.cwd.as_mut(),
                StepField::Script => None,
            }
        }
        (Action::Function { payload, .. } | Action::Remote { payload, .. }, Field::Payload(pointer)) => {
            text_at(payload, pointer)
        }
        (Action::Http(http), _) => of_http(http, field),
        (Action::Workflow(child), Field::ChildName) => Some(&mut child.name),
        (Action::Workflow(child), Field::ChildInput(name, pointer)) => text_at(child.inputs.get_mut(name)?, pointer),
        (Action::Approval(approval), Field::Message) => approval.message.as_mut(),
        (Action::Wait(Wait::For(text)), Field::WaitFor) | (Action::Wait(Wait::Until(text)), Field::WaitUntil) => {
            Some(text)
        }
        (Action::Wait(Wait::Event { key, .. }), Field::WaitKey) => key.as_mut(),
        (Action::Wait(Wait::Event { condition, .. }), Field::WaitCondition) => condition.as_mut(),
        _ => None,
    }
}

fn of_http<'m>(http: &'m mut Http, field: &Field) -> Option<&'m mut String> {
    match (field, &mut http.body, &mut http.auth) {
        (Field::Url, _, _) => Some(&mut http.url),
        (Field::Header(name), _, _) => http.headers.get_mut(name),
        (Field::Query(name), _, _) => http.query.get_mut(name),
        (Field::Form(name), Some(HttpBody::Form(fields)), _) => fields.get_mut(name),
        (Field::BodyText, Some(HttpBody::Text(text)), _) => Some(text),
        (Field::BodyJson(pointer), Some(HttpBody::Json(value)), _) => text_at(value, pointer),
        (Field::Bearer, _, Some(HttpAuth::Bearer(token))) => Some(token),
        (Field::Username, _, Some(HttpAuth::Basic { username, .. })) => Some(username),
        (Field::Password, _, Some(HttpAuth::Basic { password, .. })) => Some(password),
        (Field::ExpectJson, _, _) => match &mut http.expect.body {
            Some(BodyExpect::Json(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn of_workflow<'m>(workflow: &'m mut Workflow, field: &Field) -> Option<&'m mut String> {
    match field {
        Field::Env(name) => workflow.env.get_mut(name),
        Field::ConcurrencyKey => workflow.concurrency.as_mut()?.key.as_mut(),
        Field::Output(name, pointer) => text_at(workflow.outputs.get_mut(name)?, pointer),
        Field::TriggerCondition(number) => workflow.triggers.get_mut(*number)?.condition.as_mut(),
        Field::TriggerInput(number, name, pointer) => {
            text_at(workflow.triggers.get_mut(*number)?.inputs.get_mut(name)?, pointer)
        }
        Field::DebounceKey(number) => workflow.triggers.get_mut(*number)?.debounce.as_mut()?.key.as_mut(),
        Field::PollKey(number) => Some(&mut workflow.triggers.get_mut(*number)?.poll.as_mut()?.key),
        // Tasks have no part in it, so it is stored as it was written.
        _ => None,
    }
}

fn text_at<'m>(value: &'m mut Value, pointer: &str) -> Option<&'m mut String> {
    text(value.pointer_mut(pointer)?)
}

fn text(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}
