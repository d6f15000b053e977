//! Tasker's task templates: a step becomes a remote task, executed by a worker that knows its handler.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostics, Report};
use crate::document::Doc;
use crate::yaml;

use super::Imported;
use super::writer::{self, Names, Writer, is_variable, name, plain};

pub fn tasker(source: &str) -> Result<Imported, Diagnostics> {
    let tree = yaml::parse(source)?;
    let mut report = Report::default();
    let root = Doc::root(&tree).entries("a task template", &mut report);
    let get = |keys: [&str; 2]| root.iter().find(|entry| keys.contains(&entry.key)).map(|entry| entry.value);
    let Some(steps) = get(["steps", "step_templates"]).map(|steps| steps.items("`steps`", &mut report)) else {
        report.add_with_help(Doc::root(&tree).place(), "", "there are no `steps`", "name a task template of Tasker");
        return report.finish(None);
    };
    let text = |keys: [&str; 2]| get(keys).map(|value| plain(&value.value())).filter(|text| !text.is_empty());
    let workflow = name(&text(["name", "task_name"]).unwrap_or_default(), "workflow");
    let mut writer = Writer::default();
    writer.comment(0, "from a task template of Tasker");
    writer.text(0, "name", &workflow);
    if let Some(namespace) = text(["namespace_name", "namespace"]) {
        writer.text(0, "namespace", &name(&namespace, "default"));
    }
    if let Some(version) = text(["version", "version"]) {
        writer.text(0, "version", &version);
    }
    if let Some(description) = text(["description", "description"]) {
        writer.text(0, "description", &description);
    }
    const KNOWN: [&str; 8] =
        ["name", "task_name", "namespace_name", "namespace", "version", "description", "steps", "step_templates"];
    for entry in root.iter().filter(|entry| !KNOWN.contains(&entry.key)) {
        let value = entry.value.value();
        match entry.key {
            "lifecycle" => lifecycle(&mut writer, &value),
            "input_schema" => inputs(&mut writer, &value),
            "metadata" if value.is_object() => writer.value(0, "metadata", &literal(&value)),
            "domain_events" => domain_events(&mut writer, &value),
            _ => writer.left_out(0, &format!("{}: {}", entry.key, plain(&value))),
        }
    }
    writer.line(0, "tasks:");
    let mut names = Names::default();
    let fields: Vec<Map<String, Value>> = steps.iter().map(|step| step.object("a step", &mut report)).collect();
    let mut tasks: BTreeMap<String, String> = BTreeMap::new();
    let mut own = Vec::new();
    for step in &fields {
        let there = step.get("name").map(plain).unwrap_or_default();
        let ours = names.name(&there, "step");
        tasks.entry(there).or_insert_with(|| ours.clone());
        own.push(ours);
    }
    for (step, task) in fields.iter().zip(&own) {
        write_step(&mut writer, step, task, &tasks);
    }
    report.finish(Some(writer.finish(workflow)))
}

/// Thresholds under the names that they have here too.
fn lifecycle(writer: &mut Writer, value: &Value) {
    const KNOWN: [&str; 4] = [
        "max_waiting_for_dependencies_minutes",
        "max_waiting_for_retry_minutes",
        "max_steps_in_process_minutes",
        "max_duration_minutes",
    ];
    let mut ours = Map::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        let is_minutes = value.as_u64().is_some_and(|minutes| (1..=5_256_000).contains(&minutes));
        if KNOWN.contains(&key.as_str()) && is_minutes {
            ours.insert(key.clone(), value.clone());
        } else {
            writer.left_out(0, &format!("lifecycle.{key}: {}", plain(value)));
        }
    }
    if !ours.is_empty() {
        writer.value(0, "lifecycle", &ours.into());
    }
}

/// A JSON Schema of an object as inputs, as far as these say it.
fn inputs(writer: &mut Writer, schema: &Value) {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut lines = Vec::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if !is_variable(name) {
            writer.left_out(0, &format!("input_schema.{name}: {field}"));
            continue;
        }
        let mut ours = Map::new();
        let kind = match (field.get("type").and_then(Value::as_str), field.get("format").and_then(Value::as_str)) {
            (Some("string"), Some("date")) => "date",
            (Some("string"), Some("date-time")) => "datetime",
            (Some("integer"), _) => "integer",
            (Some("number"), _) => "number",
            (Some("boolean"), _) => "boolean",
            (Some("array"), _) => "list",
            (Some("object"), _) => "object",
            _ => "string",
        };
        ours.insert("type".into(), kind.into());
        for (theirs, key) in [
            ("description", "description"),
            ("default", "default"),
            ("enum", "enum"),
            ("minimum", "min"),
            ("maximum", "max"),
        ] {
            if let Some(value) = field.get(theirs).filter(|value| !value.is_null()) {
                ours.insert(key.into(), literal(value));
            }
        }
        if !required.contains(&name.as_str()) && !ours.contains_key("default") {
            ours.insert("required".into(), false.into());
        }
        lines.push((name.clone(), Value::Object(ours)));
    }
    if !lines.is_empty() {
        writer.line(0, "inputs:");
        lines.iter().for_each(|(name, input)| writer.value(2, name, input));
    }
    for key in schema.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        if !matches!(key, "type" | "properties" | "required") {
            writer.left_out(0, &format!("input_schema.{key}"));
        }
    }
}

/// Names, or objects that have one.
fn domain_events(writer: &mut Writer, value: &Value) {
    let mut names: Vec<Value> = Vec::new();
    for event in value.as_array().into_iter().flatten() {
        let text = event.as_str().or_else(|| event.get("name").and_then(Value::as_str)).unwrap_or_default();
        let ours = text.to_lowercase();
        if crate::author::is_name(&ours) {
            names.push(ours.into());
        } else {
            writer.left_out(0, &format!("domain_events: {event}"));
        }
    }
    if !names.is_empty() {
        writer.value(0, "domain_events", &names.into());
    }
}

fn write_step(writer: &mut Writer, step: &Map<String, Value>, task: &str, tasks: &BTreeMap<String, String>) {
    writer.line(2, &format!("{}:", Value::from(task)));
    let mut needs: Vec<Value> = Vec::new();
    let mut handler = None;
    let mut payload = Value::Null;
    let mut retry = Map::new();
    for (key, value) in step {
        match key.as_str() {
            "name" => {}
            "description" => writer.text(4, "description", &plain(value)),
            "depends_on" | "depends_on_step" | "depends_on_steps" | "dependencies" => {
                let there = match value {
                    Value::Array(items) => items.clone(),
                    Value::Null => Vec::new(),
                    other => vec![other.clone()],
                };
                for need in there.iter().map(plain) {
                    match tasks.get(&need).filter(|other| *other != task) {
                        Some(other) if !needs.contains(&other.as_str().into()) => needs.push(other.as_str().into()),
                        Some(_) => {}
                        None => writer.left_out(4, &format!("dependency {need}, there is no such step")),
                    }
                }
            }
            "handler" => {
                let fields = value.as_object().cloned().unwrap_or_default();
                handler = fields.get("callable").map(plain);
                for (part, value) in fields.iter().filter(|(part, _)| *part != "callable") {
                    match part.as_str() {
                        "initialization" => payload = literal(value),
                        _ => writer.left_out(4, &format!("handler.{part}: {}", plain(value))),
                    }
                }
            }
            "handler_class" => handler = Some(plain(value)),
            "handler_config" => payload = literal(value),
            "retry" => {
                for (part, value) in value.as_object().into_iter().flatten() {
                    retry_key(writer, &mut retry, part, value);
                }
            }
            "default_retryable" => retry_key(writer, &mut retry, "retryable", value),
            "default_retry_limit" => retry_key(writer, &mut retry, "limit", value),
            "timeout_seconds" => match value.as_u64().filter(|seconds| (1..=315_360_000).contains(seconds)) {
                Some(seconds) => writer.line(4, &format!("timeout: {seconds}s")),
                None => writer.left_out(4, &format!("timeout_seconds: {value}")),
            },
            _ => writer.left_out(4, &format!("{key}: {}", plain(value))),
        }
    }
    if !needs.is_empty() {
        writer.value(4, "needs", &needs.into());
    }
    if !retry.is_empty() {
        writer.value(4, "retry", &retry.into());
    }
    if handler.is_none() {
        writer.left_out(4, "a handler, the step names none");
    }
    let mut remote = Map::new();
    remote.insert("handler".into(), handler.filter(|text| !text.is_empty()).unwrap_or_else(|| task.to_owned()).into());
    if !payload.is_null() {
        remote.insert("payload".into(), payload);
    }
    writer.value(4, "remote", &remote.into());
}

fn retry_key(writer: &mut Writer, retry: &mut Map<String, Value>, key: &str, value: &Value) {
    let millis: Option<Value> =
        value.as_u64().filter(|millis| *millis <= 315_360_000_000).map(|millis| format!("{millis}ms").into());
    match (key, value) {
        ("retryable", Value::Bool(truth)) => _ = retry.insert("retryable".into(), (*truth).into()),
        // The limit counts attempts there too.
        ("limit" | "max_attempts", value) if value.as_u64().is_some_and(|limit| (1..=1_000).contains(&limit)) => {
            retry.insert("attempts".into(), value.clone());
        }
        ("backoff", Value::String(word)) if matches!(word.as_str(), "exponential" | "linear" | "fixed") => {
            retry.insert("backoff".into(), word.as_str().into());
        }
        ("backoff_base_ms" | "initial_delay_ms", _) if millis.is_some() => {
            _ = retry.insert("delay".into(), millis.into())
        }
        ("max_backoff_ms" | "max_delay_ms", _) if millis.is_some() => {
            _ = retry.insert("max_delay".into(), millis.into())
        }
        _ => writer.left_out(4, &format!("retry.{key}: {}", plain(value))),
    }
}

/// Without `${{`, which would begin an expression.
fn literal(value: &Value) -> Value {
    match value {
        Value::String(text) => writer::literal(text).into(),
        Value::Array(items) => items.iter().map(literal).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), literal(value))).collect())
        }
        other => other.clone(),
    }
}
