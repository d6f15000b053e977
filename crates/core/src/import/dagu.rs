//! Dagu's workflows: a step becomes a task, a list of steps a chain.

use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostics, Report};
use crate::document::Doc;
use crate::yaml;

use super::Imported;
use super::writer::{Names, Writer, is_variable, literal, name, plain};

pub fn dagu(source: &str) -> Result<Imported, Diagnostics> {
    let tree = yaml::parse(source)?;
    let mut report = Report::default();
    let root = Doc::root(&tree).object("a workflow of Dagu", &mut report);
    let Some(steps) = root.get("steps") else {
        report.add_with_help(Doc::root(&tree).place(), "", "there are no `steps`", "name a workflow of Dagu");
        return report.finish(None);
    };
    let workflow = name(root.get("name").and_then(Value::as_str).unwrap_or_default(), "workflow");
    let mut writer = Writer::default();
    writer.comment(0, "from a workflow of Dagu");
    writer.text(0, "name", &workflow);
    for (key, value) in &root {
        of_workflow(&mut writer, key, value);
    }
    writer.line(0, "tasks:");
    let is_graph = root.get("type").and_then(Value::as_str) == Some("graph");
    tasks(&mut writer, steps, is_graph);
    if let Some(handlers) = root.get("handlerOn").and_then(Value::as_object) {
        for (theirs, step) in handlers {
            let ours = match theirs.as_str() {
                "success" => "on_success",
                "failure" => "on_failure",
                "exit" => "finally",
                _ => {
                    writer.left_out(0, &format!("handlerOn.{theirs}"));
                    continue;
                }
            };
            writer.line(0, &format!("{ours}:"));
            write_task(&mut writer, &format!("on-{theirs}"), step, &[]);
        }
    }
    report.finish(Some(writer.finish(workflow)))
}

fn of_workflow(writer: &mut Writer, key: &str, value: &Value) {
    match (key, value) {
        ("name" | "steps" | "handlerOn" | "type", _) => {}
        ("description", Value::String(text)) => writer.text(0, "description", text),
        ("tags", Value::String(text)) => {
            let tags: Vec<Value> = text.split([',', ' ']).filter(|tag| !tag.is_empty()).map(Into::into).collect();
            writer.value(0, "tags", &tags.into());
        }
        ("tags", Value::Array(_)) => writer.value(0, "tags", value),
        ("schedule", Value::String(cron)) => {
            writer.line(0, &format!("triggers: [{{cron: {}}}]", Value::from(cron.as_str())))
        }
        ("schedule", Value::Array(crons)) if crons.iter().all(Value::is_string) => {
            let all: Vec<String> = crons.iter().map(|cron| format!("{{cron: {cron}}}")).collect();
            writer.line(0, &format!("triggers: [{}]", all.join(", ")));
        }
        ("env", _) => variables(writer, 0, value),
        ("params", _) => params(writer, value),
        ("dotenv", Value::String(_) | Value::Array(_)) => writer.value(0, "env_file", value),
        ("timeoutSec", Value::Number(seconds)) => writer.line(0, &format!("timeout: {seconds}s")),
        ("maxActiveRuns", Value::Number(limit)) => writer.line(0, &format!("concurrency: {{limit: {limit}}}")),
        _ => writer.left_out(0, &format!("{key}: {}", plain(value))),
    }
}

/// A mapping, or a list of mappings or of `NAME=value`.
fn variables(writer: &mut Writer, indent: usize, value: &Value) {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut add =
        |fields: &Map<String, Value>| pairs.extend(fields.iter().map(|(name, value)| (name.clone(), plain(value))));
    match value {
        Value::Object(fields) => add(fields),
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(fields) => add(fields),
                    other => {
                        let text = plain(other);
                        let pair = text.split_once('=').unwrap_or((&text, ""));
                        add(&Map::from_iter([(pair.0.to_owned(), pair.1.into())]));
                    }
                }
            }
        }
        other => return writer.left_out(indent, &format!("env: {}", plain(other))),
    }
    let (ours, theirs): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(name, value)| is_variable(name) && !value.contains(['$', '`']));
    for (name, value) in theirs {
        writer.left_out(indent, &format!("env {name}={value}, which a shell would have to read"));
    }
    if !ours.is_empty() {
        writer.line(indent, "env:");
        ours.iter().for_each(|(name, value)| writer.text(indent + 2, name, &literal(value)));
    }
}

fn params(writer: &mut Writer, value: &Value) {
    let pairs: Vec<(String, Value)> = match value {
        Value::Object(fields) => fields.clone().into_iter().collect(),
        Value::Array(items) => {
            items.iter().filter_map(Value::as_object).flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
        }
        Value::String(text) => text
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.trim_matches('"').into()))
            .collect(),
        _ => Vec::new(),
    };
    if pairs.is_empty() {
        return writer.left_out(0, &format!("params: {}", plain(value)));
    }
    writer.line(0, "inputs:");
    for (name, value) in pairs {
        if is_variable(&name) {
            writer.line(2, &format!("{name}: {{default: {}}}", Value::from(literal(&plain(&value)))));
        } else {
            writer.left_out(2, &format!("param {name}"));
        }
    }
    writer.comment(
        0,
        "params were variables of the shell there; write `env: {NAME: \"${{ inputs.NAME }}\"}` where scripts read them",
    );
}

fn tasks(writer: &mut Writer, steps: &Value, is_graph: bool) {
    let listed: Vec<(String, Value)> = match steps {
        Value::Object(fields) => fields.clone().into_iter().collect(),
        Value::Array(items) => items
            .iter()
            .map(|step| {
                (
                    step.get("name").or_else(|| step.get("id")).and_then(Value::as_str).unwrap_or_default().to_owned(),
                    step.clone(),
                )
            })
            .collect(),
        _ => Vec::new(),
    };
    let mut names = Names::default();
    let named: Vec<(String, String)> =
        listed.iter().map(|(there, _)| (there.clone(), names.name(there, "step"))).collect();
    let is_chain = !is_graph && steps.is_array() && listed.iter().all(|(_, step)| step.get("depends").is_none());
    for (number, ((_, step), (_, ours))) in listed.iter().zip(&named).enumerate() {
        let mut needs: Vec<String> = Vec::new();
        let depends = match step.get("depends") {
            Some(Value::Array(items)) => items.clone(),
            Some(Value::String(one)) => vec![one.as_str().into()],
            _ => Vec::new(),
        };
        for need in depends.iter().map(plain) {
            match named.iter().find(|(there, _)| *there == need) {
                Some((_, other)) => needs.push(other.clone()),
                None => writer.left_out(2, &format!("dependency {need}, there is no such step")),
            }
        }
        if is_chain && number > 0 {
            needs.push("previous".into());
        }
        write_task(writer, ours, step, &needs);
    }
}

fn write_task(writer: &mut Writer, task: &str, step: &Value, needs: &[String]) {
    writer.line(2, &format!("{}:", Value::from(task)));
    if !needs.is_empty() {
        writer.line(4, &format!("needs: [{}]", needs.join(", ")));
    }
    let fields = match step {
        Value::Object(fields) => fields.clone(),
        other => Map::from_iter([("command".to_owned(), other.clone())]),
    };
    let mut has_script = false;
    for (key, value) in &fields {
        match (key.as_str(), value) {
            ("name" | "id" | "depends", _) => {}
            ("description", Value::String(text)) => writer.text(4, "description", text),
            ("command" | "run", Value::Array(words)) if words.iter().all(Value::is_string) => {
                has_script = true;
                let text: Vec<String> = words.iter().map(plain).collect();
                writer.script(4, "run", &literal(&text.join("\n")));
            }
            ("command" | "run" | "script", value) if !fields.contains_key("script") || key == "script" => {
                has_script = true;
                writer.script(4, "run", &literal(&plain(value)));
            }
            ("dir" | "workingDir", Value::String(text)) => writer.text(4, "cwd", &literal(text)),
            ("shell", Value::String(text)) => writer.text(4, "shell", text),
            ("env", _) => variables(writer, 4, value),
            ("output", Value::String(text)) => {
                writer.line(4, "output: stdout");
                writer.left_out(4, &format!("the variable {text}: others read `tasks.{task}.output.stdout`"));
            }
            ("timeoutSec", Value::Number(seconds)) => writer.line(4, &format!("timeout: {seconds}s")),
            ("retryPolicy", Value::Object(policy)) => retry(writer, policy),
            ("continueOn", Value::Object(continues)) => continue_on(writer, continues),
            ("call", Value::String(other)) => {
                has_script = true;
                writer.text(4, "workflow", &name(other, "workflow"));
            }
            _ => writer.left_out(4, &format!("{key}: {}", plain(value))),
        }
    }
    if !has_script {
        // It must not seem to work.
        writer.script(4, "run", "echo \"this step was not carried over\" >&2\nexit 1");
    }
}

fn retry(writer: &mut Writer, policy: &Map<String, Value>) {
    let limit = policy.get("limit").and_then(Value::as_u64).unwrap_or(0).min(1_000) + 1;
    let delay = policy.get("intervalSec").and_then(Value::as_u64).unwrap_or(1);
    writer.line(
        4,
        &format!("retry: {{attempts: {limit}, delay: {delay}s, max_delay: {}s, backoff: fixed}}", delay.max(30)),
    );
    for key in policy.keys().filter(|key| !matches!(key.as_str(), "limit" | "intervalSec")) {
        writer.left_out(4, &format!("retryPolicy.{key}"));
    }
}

fn continue_on(writer: &mut Writer, continues: &Map<String, Value>) {
    for (key, value) in continues {
        match (key.as_str(), value) {
            ("failure", Value::Bool(true)) => writer.line(4, "on_exhausted: continue"),
            ("exitCode", Value::Array(_) | Value::Number(_)) => {
                writer.line(4, &format!("exit_codes: {{continue: {value}}}"))
            }
            (_, Value::Bool(false)) => {}
            _ => writer.left_out(4, &format!("continueOn.{key}: {}", plain(value))),
        }
    }
}
