//! Argo Workflows: the entry template, if it is a graph or a list of steps whose templates are containers or scripts.

use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostics, Report};
use crate::document::Doc;
use crate::yaml;

use super::Imported;
use super::writer::{Names, Writer, is_variable, literal, name, plain};

pub fn argo(source: &str) -> Result<Imported, Diagnostics> {
    let tree = yaml::parse(source)?;
    let mut report = Report::default();
    let root = Value::Object(Doc::root(&tree).object("a workflow of Argo", &mut report));
    let cron = root.get("kind").and_then(Value::as_str) == Some("CronWorkflow");
    let spec = if cron { root.pointer("/spec/workflowSpec") } else { root.get("spec") };
    let templates = spec.and_then(|spec| spec.get("templates")).and_then(Value::as_array);
    let (Some(spec), Some(templates)) = (spec, templates) else {
        report.add_with_help(Doc::root(&tree).place(), "", "there are no `spec.templates`", "name a workflow of Argo");
        return report.finish(None);
    };
    let there = ["/metadata/name", "/metadata/generateName"]
        .into_iter()
        .find_map(|at| root.pointer(at))
        .and_then(Value::as_str);
    let workflow = name(there.unwrap_or_default(), "workflow");
    let mut writer = Writer::default();
    writer.comment(0, "from a workflow of Argo");
    writer.text(0, "name", &workflow);
    if cron {
        schedule(&mut writer, &root);
    }
    inputs(&mut writer, spec.pointer("/arguments/parameters"));
    for key in spec.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        if !matches!(key, "templates" | "entrypoint" | "arguments") {
            writer.left_out(0, &format!("spec.{key}"));
        }
    }
    let find = |wanted: &str| templates.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(wanted));
    let entry = spec.get("entrypoint").and_then(Value::as_str).and_then(find).or(templates.first());
    writer.line(0, "tasks:");
    match entry {
        Some(entry) => tasks(&mut writer, entry, &find),
        None => writer.left_out(2, "the entry template, which is not there"),
    }
    report.finish(Some(writer.finish(workflow)))
}

fn schedule(writer: &mut Writer, root: &Value) {
    let text = |key: &str| root.pointer(&format!("/spec/{key}")).and_then(Value::as_str);
    let Some(cron) = text("schedule") else { return writer.left_out(0, "the schedule") };
    let zone = text("timezone").map_or(String::new(), |zone| format!(", timezone: {}", Value::from(zone)));
    writer.line(0, &format!("triggers: [{{cron: {}{zone}}}]", Value::from(cron)));
    if let Some(policy) = text("concurrencyPolicy") {
        let overlap = match policy {
            "Forbid" => "skip",
            "Replace" => "cancel_running",
            _ => "allow",
        };
        writer.line(0, &format!("concurrency: {{overlap: {overlap}}}"));
    }
}

fn inputs(writer: &mut Writer, parameters: Option<&Value>) {
    let all: Vec<&Value> = parameters.and_then(Value::as_array).into_iter().flatten().collect();
    if all.is_empty() {
        return;
    }
    writer.line(0, "inputs:");
    for parameter in all {
        let Some(there) = parameter.get("name").and_then(Value::as_str) else { continue };
        match parameter.get("value") {
            Some(value) => {
                writer.line(2, &format!("{}: {{default: {}}}", Value::from(there), Value::from(literal(&plain(value)))))
            }
            None => writer.line(2, &format!("{}: {{}}", Value::from(there))),
        }
    }
}

/// The tasks of a graph, the groups of a list of steps, or the one container.
fn tasks<'v>(writer: &mut Writer, entry: &'v Value, find: &dyn Fn(&str) -> Option<&'v Value>) {
    let mut names = Names::default();
    if let Some(listed) = entry.pointer("/dag/tasks").and_then(Value::as_array) {
        let named: Vec<(&str, String)> = listed
            .iter()
            .map(|task| task.get("name").and_then(Value::as_str).unwrap_or_default())
            .map(|there| (there, names.name(there, "task")))
            .collect();
        for (task, (_, ours)) in listed.iter().zip(&named) {
            let mut needs = Vec::new();
            for need in task.get("dependencies").and_then(Value::as_array).into_iter().flatten().map(plain) {
                match named.iter().find(|(there, _)| *there == need) {
                    Some((_, other)) => needs.push(other.clone()),
                    None => writer.left_out(2, &format!("dependency {need}, there is no such task")),
                }
            }
            call(writer, ours, task, &needs, find);
        }
        return;
    }
    let Some(groups) = entry.get("steps").and_then(Value::as_array) else {
        let ours = names.name(entry.get("name").and_then(Value::as_str).unwrap_or_default(), "main");
        return write_template(writer, &ours, entry, &[], &Map::new());
    };
    let mut before: Vec<String> = Vec::new();
    for group in groups {
        let parallel: Vec<&Value> = group.as_array().map_or_else(|| vec![group], |all| all.iter().collect());
        let mut now = Vec::new();
        for step in parallel {
            let ours = names.name(step.get("name").and_then(Value::as_str).unwrap_or_default(), "step");
            call(writer, &ours, step, &before, find);
            now.push(ours);
        }
        before = now;
    }
}

/// A task that calls a template with arguments.
fn call<'v>(
    writer: &mut Writer,
    ours: &str,
    task: &'v Value,
    needs: &[String],
    find: &dyn Fn(&str) -> Option<&'v Value>,
) {
    let mut arguments = Map::new();
    for parameter in task.pointer("/arguments/parameters").and_then(Value::as_array).into_iter().flatten() {
        if let Some(there) = parameter.get("name").and_then(Value::as_str) {
            arguments.insert(there.to_owned(), parameter.get("value").cloned().unwrap_or_default());
        }
    }
    let inline = task.get("inline");
    let template = inline.or_else(|| task.get("template").and_then(Value::as_str).and_then(find));
    let left_out: Vec<String> = task
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !matches!(key.as_str(), "name" | "template" | "inline" | "dependencies" | "arguments"))
        .map(|(key, value)| format!("{key}: {}", plain(value)))
        .collect();
    match template {
        Some(template) => write_template(writer, ours, template, needs, &arguments),
        None => write_template(writer, ours, &Value::Null, needs, &arguments),
    }
    left_out.iter().for_each(|what| writer.left_out(4, what));
}

fn write_template(writer: &mut Writer, ours: &str, template: &Value, needs: &[String], arguments: &Map<String, Value>) {
    writer.line(2, &format!("{}:", Value::from(ours)));
    if !needs.is_empty() {
        writer.line(4, &format!("needs: [{}]", needs.join(", ")));
    }
    let mut known = Map::new();
    for parameter in template.pointer("/inputs/parameters").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(there), Some(value)) = (parameter.get("name").and_then(Value::as_str), parameter.get("value")) {
            known.insert(there.to_owned(), value.clone());
        }
    }
    known.extend(arguments.clone());
    let (container, is_script) = match (template.get("container"), template.get("script")) {
        (Some(container), _) => (container, false),
        (None, Some(script)) => (script, true),
        (None, None) => {
            let kind = template.as_object().and_then(|fields| fields.keys().find(|key| *key != "name").cloned());
            writer.left_out(4, &format!("the template, which is {}", kind.unwrap_or_else(|| "not there".into())));
            // It must not seem to work.
            return writer.script(4, "run", "echo \"this task was not carried over\" >&2\nexit 1");
        }
    };
    let text = |value: &Value| filled(&plain(value), &known);
    let words = |key: &str| -> Vec<String> {
        container.get(key).and_then(Value::as_array).into_iter().flatten().map(text).collect()
    };
    let image = container.get("image").map(text).unwrap_or_default();
    if is_script {
        writer.text(4, "image", &image);
        let shell = words("command").join(" ");
        if !matches!(shell.as_str(), "" | "sh") {
            writer.text(4, "shell", &shell);
        }
        writer.script(4, "run", &container.get("source").map(text).unwrap_or_default());
    } else {
        let command: Vec<Value> = words("command").into_iter().chain(words("args")).map(Into::into).collect();
        let mut fields = Map::from_iter([("name".to_owned(), image.into())]);
        if !command.is_empty() {
            fields.insert("command".into(), command.into());
        }
        writer.value(4, "image", &Value::Object(fields));
    }
    write_env(writer, container, &text);
    write_limits(writer, template);
    for (key, value) in template.as_object().into_iter().flatten() {
        let is_known =
            ["name", "container", "script", "inputs", "retryStrategy", "activeDeadlineSeconds"].contains(&key.as_str());
        if !is_known {
            writer.left_out(4, &format!("{key}: {}", plain(value)));
        }
    }
    for (key, value) in container.as_object().into_iter().flatten() {
        if !["image", "command", "args", "source", "env", "name"].contains(&key.as_str()) {
            writer.left_out(4, &format!("{key}: {}", plain(value)));
        }
    }
}

/// Writes the variables of a container whose names a task may use.
fn write_env(writer: &mut Writer, container: &Value, text: &impl Fn(&Value) -> String) {
    let env: Vec<(&str, String)> = container
        .get("env")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|pair| Some((pair.get("name")?.as_str()?, text(pair.get("value")?))))
        .filter(|(name, _)| is_variable(name))
        .collect();
    if !env.is_empty() {
        writer.line(4, "env:");
        env.iter().for_each(|(name, value)| writer.text(6, name, value));
    }
}

/// Writes how often a task is tried and how long it may take.
fn write_limits(writer: &mut Writer, template: &Value) {
    if let Some(limit) = template.pointer("/retryStrategy/limit").map(plain).and_then(|limit| limit.parse::<u64>().ok())
    {
        writer.line(4, &format!("retry: {{attempts: {}}}", limit.min(1_000) + 1));
    }
    if let Some(seconds) = template.get("activeDeadlineSeconds").and_then(Value::as_u64) {
        writer.line(4, &format!("timeout: {seconds}s"));
    }
}

/// Puts the values of parameters in; those of the workflow are inputs here. What else stands in braces stays, and is found
/// by looking for it.
fn filled(text: &str, arguments: &Map<String, Value>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        filled.push_str(&literal(before));
        let Some((inside, after)) = behind.split_once("}}") else {
            filled.push_str("{{");
            rest = behind;
            continue;
        };
        let parameter = inside.trim();
        let value = parameter.strip_prefix("inputs.parameters.").and_then(|name| arguments.get(name)).map(plain);
        match (value, parameter.strip_prefix("workflow.parameters.")) {
            (Some(value), _) => filled.push_str(&filled_once(&value)),
            (None, Some(name)) => filled.push_str(&format!("${{{{ inputs.{name} }}}}")),
            (None, None) => filled.push_str(&format!("{{{{{inside}}}}}")),
        }
        rest = after;
    }
    filled.push_str(&literal(rest));
    filled
}

/// The value of an argument may name a parameter of the workflow.
fn filled_once(value: &str) -> String {
    match value.trim().strip_prefix("{{workflow.parameters.").and_then(|rest| rest.strip_suffix("}}")) {
        Some(name) => format!("${{{{ inputs.{name} }}}}"),
        None => literal(value),
    }
}
