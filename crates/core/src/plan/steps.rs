//! The steps of a task with every expression replaced by its value.

use serde_json::{Map, Value};

use crate::expr::{EvalError, Scope, evaluate, is_true, render_text};
use crate::work::StepOrder;
use crate::workflow::Step;

use super::text_of;

/// Conditions are evaluated here, before the attempt begins: a step that is left out renders nothing else.
pub(super) fn orders(
    steps: &[Step],
    shell: Option<&str>,
    scope: &Scope,
    env: &Map<String, Value>,
) -> Result<Vec<StepOrder>, (String, EvalError)> {
    let rendered = steps.iter().map(|step| {
        order(step, shell, scope, env).map_err(|(part, error)| (format!("`{part}` of step `{}`", step.name), error))
    });
    rendered.collect()
}

fn order(
    step: &Step,
    shell: Option<&str>,
    scope: &Scope,
    env: &Map<String, Value>,
) -> Result<StepOrder, (&'static str, EvalError)> {
    let mut order = StepOrder {
        name: step.name.clone(),
        skipped: false,
        script: step.script.clone(),
        shell: step.shell.clone().or_else(|| shell.map(str::to_owned)),
        cwd: None,
        env: Vec::with_capacity(step.env.len() + step.bindings.len()),
        continue_on_error: step.continue_on_error,
    };
    if let Some(condition) = &step.condition
        && !is_true(&evaluate(condition, scope, env).map_err(|error| ("if", error))?)
    {
        order.skipped = true;
        return Ok(order);
    }
    let mut own = env.clone();
    for (name, text) in &step.env {
        let value = render_text(text, scope, &own).map_err(|error| ("env", error))?;
        own.insert(name.clone(), Value::String(value.clone()));
        order.env.push((name.clone(), value));
    }
    for (variable, expression) in &step.bindings {
        let value = evaluate(expression, scope, &own).map_err(|error| ("run", error))?;
        order.env.push((variable.clone(), text_of(value)));
    }
    if let Some((name, _)) = order.env.iter().find(|(_, text)| text.contains('\0')) {
        return Err(("env", EvalError(format!("the value of `{name}` holds a NUL character"))));
    }
    let cwd = step.cwd.as_ref().map(|cwd| render_text(cwd, scope, &own)).transpose();
    order.cwd = cwd.map_err(|error| ("cwd", error))?;
    Ok(order)
}
