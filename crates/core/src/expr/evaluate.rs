//! Evaluates expressions over a scope, and explains what went wrong.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value};

use crate::diagnostic::quoted;

use super::reference::{Reference, describe, references, take};
use super::scope::Scope;
use super::template::{Part, split};
use super::{MAX_EXPRESSION, MAX_RESULT};
use super::{comparison, filters, multiplication};

/// Instructions one expression may execute.
const FUEL: u64 = 50_000;

/// What one expression may look at, each mention counted: joining texts copies them over and over.
const MAX_DATA: usize = 4 * 1024 * 1024;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    for unwanted in ["debug", "namespace", "range"] {
        environment.remove_global(unwanted);
    }
    for unwanted in ["batch", "chain", "e", "escape", "format", "indent", "pprint", "safe", "slice", "zip"] {
        environment.remove_filter(unwanted);
    }
    filters::add(&mut environment);
    comparison::add(&mut environment);
    environment
});

pub(super) fn environment() -> &'static Environment<'static> {
    &ENVIRONMENT
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EvalError(pub(crate) String);

/// Evaluates one expression in stored form.
pub(crate) fn evaluate(source: &str, scope: &Scope, env: &Map<String, Value>) -> Result<Value, EvalError> {
    if source.len() > MAX_EXPRESSION {
        return Err(EvalError(format!("an expression is longer than {MAX_EXPRESSION} bytes")));
    }
    super::depth::check(source).map_err(EvalError)?;
    let used = references(source);
    let context = context(&used, scope, env);
    let explain = |reason: String| {
        used.iter()
            .find_map(|reference| explain_missing(reference, scope, env))
            .unwrap_or_else(|| format!("{} cannot be evaluated: {}", quoted(source), masked(reason, scope)))
    };
    let data: usize = used.iter().filter_map(|one| one.look_up(scope, env)).map(|value| rough_size(&value)).sum();
    if data > MAX_DATA {
        return Err(EvalError(format!("{} looks at more than 4 MiB of data", quoted(source))));
    }
    multiplication::check(source, &used, scope, env).map_err(EvalError)?;
    filters::begin();
    let expression = environment()
        .compile_expression_owned(comparison::rewrite(source))
        .map_err(|error| EvalError(explain(describe(&error))))?;
    let value = expression.eval(context).map_err(|error| EvalError(explain(describe(&error))))?;
    if value.is_undefined() {
        return Err(EvalError(explain("it is undefined".into())));
    }
    let value = serde_json::to_value(&value).map_err(|error| EvalError(explain(error.to_string())))?;
    limit(rough_size(&value), source)?;
    Ok(value)
}

/// What went wrong may repeat what went in.
fn masked(reason: String, scope: &Scope) -> String {
    let secrets = scope.secrets.values().filter_map(Value::as_str).filter(|secret| !secret.is_empty());
    secrets.fold(reason, |reason, secret| reason.replace(secret, "***"))
}

/// About as many bytes as the value takes as JSON.
fn rough_size(value: &Value) -> usize {
    let mut size = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        size += match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                open.extend(items);
                items.len() + 2
            }
            Value::Object(fields) => {
                open.extend(fields.values());
                fields.keys().map(|key| key.len() + 4).sum::<usize>() + 2
            }
            _ => 4,
        };
    }
    size
}

/// Renders a text: strings as they are, other values as JSON.
pub(crate) fn render_text(template: &str, scope: &Scope, env: &Map<String, Value>) -> Result<String, EvalError> {
    let mut rendered = String::new();
    for part in parts(template)? {
        match part {
            Part::Text(text) => rendered.push_str(text),
            Part::Expression { source, .. } => match evaluate(source, scope, env)? {
                Value::String(text) => rendered.push_str(&text),
                other => rendered.push_str(&other.to_string()),
            },
        }
        limit(rendered.len(), template)?;
    }
    Ok(rendered)
}

/// Renders every text inside a JSON value; a text that is one whole expression becomes its value, whatever its type.
pub(crate) fn render_json(value: &Value, scope: &Scope, env: &Map<String, Value>) -> Result<Value, EvalError> {
    match value {
        Value::String(text) => match parts(text)?[..] {
            [Part::Expression { source, .. }] => evaluate(source, scope, env),
            _ => render_text(text, scope, env).map(Value::String),
        },
        Value::Array(items) => items.iter().map(|item| render_json(item, scope, env)).collect(),
        Value::Object(fields) => {
            let mut rendered = Map::with_capacity(fields.len());
            for (key, field) in fields {
                rendered.insert(key.clone(), render_json(field, scope, env)?);
            }
            Ok(Value::Object(rendered))
        }
        other => Ok(other.clone()),
    }
}

/// Whether a condition's value lets its task run: the rules of the expression language.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn parts(template: &str) -> Result<Vec<Part<'_>>, EvalError> {
    split(template).map_err(|_| EvalError(format!("{} holds a `${{{{` that is never closed", quoted(template))))
}

fn limit(length: usize, template: &str) -> Result<(), EvalError> {
    if length > MAX_RESULT {
        return Err(EvalError(format!("{} gives more than 1 MiB", quoted(template))));
    }
    Ok(())
}

/// Only what the expression refers to is converted: an output may be large and the tasks many.
fn context(used: &[Reference], scope: &Scope, env: &Map<String, Value>) -> minijinja::Value {
    let mut roots: BTreeMap<&'static str, minijinja::Value> = BTreeMap::new();
    let mut tasks: BTreeMap<String, minijinja::Value> = BTreeMap::new();
    for reference in used {
        match (reference.root.as_str(), reference.path.first()) {
            ("inputs", _) => _ = roots.entry("inputs").or_insert_with(|| Serde(&scope.inputs).into()),
            ("run", _) => _ = roots.entry("run").or_insert_with(|| Serde(&scope.run).into()),
            ("workflow", _) => _ = roots.entry("workflow").or_insert_with(|| Serde(&scope.workflow).into()),
            ("item", _) => _ = roots.entry("item").or_insert_with(|| Serde(&scope.item).into()),
            ("matrix", _) => _ = roots.entry("matrix").or_insert_with(|| Serde(&scope.item).into()),
            ("index", _) => _ = roots.entry("index").or_insert_with(|| Serde(&scope.index).into()),
            ("event", _) => _ = roots.entry("event").or_insert_with(|| Serde(&scope.event).into()),
            ("secrets", _) => _ = roots.entry("secrets").or_insert_with(|| Serde(&scope.secrets).into()),
            ("env", _) => _ = roots.entry("env").or_insert_with(|| Serde(env).into()),
            ("tasks", Some(name)) => {
                if let Some(view) = scope.tasks.get(name)
                    && !tasks.contains_key(name)
                {
                    tasks.insert(name.clone(), Serde(view.to_json()).into());
                }
            }
            _ => {}
        }
    }
    roots.insert("tasks", minijinja::Value::from(tasks));
    for name in ["body", "status", "headers", "error"] {
        if let Some(value) = scope.answer.get(name)
            && used.iter().any(|reference| reference.root == name)
        {
            roots.insert(name, Serde(value).into());
        }
    }
    minijinja::Value::from(roots)
}

/// Says which part of a path does not exist, and what does.
fn explain_missing(reference: &Reference, scope: &Scope, env: &Map<String, Value>) -> Option<String> {
    let (mut value, mut at, rest) = match (reference.root.as_str(), reference.path.split_first()) {
        ("tasks", Some((name, rest))) => match scope.tasks.get(name) {
            Some(view) => (view.to_json(), name.as_str(), rest),
            None => return Some(format!("`tasks.{name}` is undefined: the task has not run")),
        },
        ("inputs", _) => (Value::Object(scope.inputs.clone()), "inputs", &reference.path[..]),
        ("run", _) => (Value::Object(scope.run.clone()), "run", &reference.path[..]),
        ("workflow", _) => (Value::Object(scope.workflow.clone()), "workflow", &reference.path[..]),
        ("env", _) => (Value::Object(env.clone()), "env", &reference.path[..]),
        ("secrets", Some((name, _))) if !scope.secrets.contains_key(name) => {
            return Some(format!("the secret {} has no value", quoted(name)));
        }
        ("item", _) => (scope.item.clone().unwrap_or_default(), "item", &reference.path[..]),
        ("matrix", _) => (scope.item.clone().unwrap_or_default(), "matrix", &reference.path[..]),
        ("event", _) => (scope.event.clone().unwrap_or_default(), "event", &reference.path[..]),
        (name @ ("body" | "status" | "headers" | "error"), _) => {
            (scope.answer.get(name).cloned().unwrap_or_default(), name, &reference.path[..])
        }
        _ => return None,
    };
    for segment in rest {
        match take(&mut value, segment) {
            Some(next) => value = next,
            None => {
                let path = format!("{}.{}", reference.root, reference.path.join("."));
                return Some(format!("{} is undefined: {at} {}", quoted(&path), what_exists(&value)));
            }
        }
        at = segment;
    }
    None
}

fn what_exists(value: &Value) -> String {
    const MOST: usize = 10;
    match value {
        Value::Object(fields) if fields.is_empty() => "is empty".into(),
        Value::Object(fields) => {
            let shown: Vec<String> = fields.keys().take(MOST).map(|key| quoted(key).replace('`', "")).collect();
            let more = if fields.len() > MOST { ", …" } else { "" };
            format!("has keys {}{more}", shown.join(", "))
        }
        Value::Array(items) => format!("is a list of {}", items.len()),
        Value::String(_) => "is a text".into(),
        Value::Number(_) => "is a number".into(),
        Value::Bool(_) => "is true or false".into(),
        Value::Null => "is null".into(),
    }
}
