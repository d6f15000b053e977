//! GitHub Actions: a job becomes a task, its steps one script, because they share a folder. A job or step whose condition
//! or meaning cannot be carried over fails with the reason; it never runs as if there had been none.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostics, Report};
use crate::document::{Doc, Entry};
use crate::yaml;

use super::Imported;
use super::conditions::{self, When};
use super::expressions::{JobScope, References, translate};
use super::matrix;
use super::steps;
use super::writer::{Names, Writer, is_variable, literal, name, plain};

pub fn github_actions(source: &str) -> Result<Imported, Diagnostics> {
    let tree = yaml::parse(source)?;
    let mut report = Report::default();
    let root = Doc::root(&tree).entries("a GitHub Actions workflow", &mut report);
    let get = |key: &str| root.iter().find(|entry| entry.key == key).map(|entry| entry.value);
    let Some(jobs) = get("jobs").map(|jobs| jobs.entries("`jobs`", &mut report)) else {
        let help = "name a file of .github/workflows";
        report.add_with_help(Doc::root(&tree).place(), "", "there are no `jobs`", help);
        return report.finish(None);
    };
    let title = get("name").map(|title| plain(&title.value())).unwrap_or_default();
    let workflow = name(&title, "workflow");
    let mut writer = Writer::default();
    writer.comment(0, "from a GitHub Actions workflow");
    writer.text(0, "name", &workflow);
    if !title.trim().is_empty() {
        writer.text(0, "title", &title);
    }
    let mut scope = JobScope::default();
    if let Some(on) = get("on") {
        triggers(&mut writer, on, &mut scope, &mut report);
    }
    for entry in root.iter().filter(|entry| !matches!(entry.key, "name" | "on" | "jobs" | "env" | "defaults")) {
        writer.left_out(0, &format!("{}: {}", entry.key, plain(&entry.value.value())));
    }
    let mut names = Names::default();
    let tasks: BTreeMap<&str, String> = jobs.iter().map(|job| (job.key, names.name(job.key, "job"))).collect();
    let mut references = References::default();
    let mut body = Writer::default();
    if let Some(env) = get("env") {
        env_of(&mut body, 0, env, &scope, &mut references, &BTreeMap::new(), &mut report);
    }
    body.line(0, "tasks:");
    let folder = get("defaults").and_then(|defaults| run_folder(defaults.value()));
    scope.repeated = jobs
        .iter()
        .filter(|job| job.value.value().pointer("/strategy/matrix").is_some())
        .map(|job| job.key.to_owned())
        .collect();
    for job in &jobs {
        write_job(&mut body, *job, &tasks, &mut scope, &mut references, folder.as_deref(), &mut report);
    }
    if !references.secrets.is_empty() {
        let secrets: Vec<Value> = references.secrets.iter().map(|secret| secret.as_str().into()).collect();
        writer.value(0, "secrets", &secrets.into());
    }
    let (head, body) = (writer.finish(workflow.clone()), body.finish(workflow));
    let imported = Imported { text: head.text + &body.text, left_out: head.left_out + body.left_out, name: head.name };
    report.finish(Some(imported))
}

fn triggers(writer: &mut Writer, on: Doc<'_>, scope: &mut JobScope, report: &mut Report) {
    if !on.is_mapping() {
        return writer.left_out(0, &format!("on: {}", plain(&on.value())));
    }
    for entry in on.entries("`on`", report) {
        match entry.key {
            "schedule" => {
                writer.line(0, "triggers:");
                for item in entry.value.items("`schedule`", report) {
                    let fields = item.object("a schedule", report);
                    let text = |key: &str| fields.get(key).cloned().map(|value| Value::from(plain(&value)));
                    let cron = text("cron").unwrap_or_default();
                    let zone = text("timezone").map(|zone| format!(", timezone: {zone}")).unwrap_or_default();
                    writer.line(2, &format!("- {{cron: {cron}{zone}}}"));
                }
            }
            "workflow_dispatch" | "workflow_call" => {
                for part in entry.value.entries("`workflow_dispatch`", report) {
                    if part.key == "inputs" && scope.inputs.is_empty() {
                        inputs(writer, part.value, scope, report);
                    } else {
                        writer.left_out(0, &format!("on.{}.{}", entry.key, part.key));
                    }
                }
            }
            other => writer.left_out(0, &format!("on.{other}: {}", plain(&entry.value.value()))),
        }
    }
}

fn inputs(writer: &mut Writer, doc: Doc<'_>, scope: &mut JobScope, report: &mut Report) {
    let entries = doc.entries("`inputs`", report);
    if entries.is_empty() {
        return;
    }
    writer.line(0, "inputs:");
    for input in entries {
        if !is_variable(input.key) {
            writer.left_out(2, &format!("input {}, whose name is not usable here", input.key));
            continue;
        }
        scope.inputs.insert(input.key.to_owned());
        let fields = input.value.object("an input", report);
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or("string");
        let mut ours = serde_json::Map::new();
        let (word, fits): (&str, fn(&Value) -> bool) = match kind {
            "boolean" => ("boolean", Value::is_boolean),
            "number" => ("number", Value::is_number),
            _ => ("string", Value::is_string),
        };
        ours.insert("type".into(), word.into());
        if let Some(description) = fields.get("description").and_then(Value::as_str) {
            ours.insert("description".into(), description.into());
        }
        if let Some(Value::Array(options)) = fields.get("options").filter(|_| kind == "choice") {
            ours.insert("enum".into(), options.iter().map(|one| Value::from(plain(one))).collect());
        }
        match fields.get("default").filter(|value| !value.is_null()) {
            Some(value) if fits(value) => _ = ours.insert("default".into(), value.clone()),
            Some(value) => _ = ours.insert("default".into(), plain(value).into()),
            None if fields.get("required") != Some(&Value::Bool(true)) && word == "string" && kind != "choice" => {
                ours.insert("default".into(), "".into());
            }
            None => {}
        }
        writer.value(2, input.key, &ours.into());
    }
}

/// Writes `env:`; `more` are variables that a script looks at.
fn env_of(
    writer: &mut Writer,
    indent: usize,
    doc: Doc<'_>,
    scope: &JobScope,
    references: &mut References,
    more: &BTreeMap<String, String>,
    report: &mut Report,
) {
    let entries = doc.entries("`env`", report);
    if entries.is_empty() && more.is_empty() {
        return;
    }
    writer.line(indent, "env:");
    for entry in &entries {
        if !is_variable(entry.key) {
            writer.left_out(indent + 2, &format!("variable {}", entry.key));
            continue;
        }
        let before = references.unknown.len();
        let text = translate(&plain(&entry.value.value()), scope, references, false);
        for unknown in references.unknown.drain(before..) {
            writer.left_out(indent + 2, &format!("${{{{ {unknown} }}}}"));
        }
        writer.text(indent + 2, entry.key, &text);
    }
    for (variable, expression) in more.iter().filter(|(name, _)| entries.iter().all(|entry| entry.key != *name)) {
        writer.text(indent + 2, variable, &format!("${{{{ {expression} }}}}"));
    }
}

fn write_job(
    writer: &mut Writer,
    job: Entry<'_>,
    tasks: &BTreeMap<&str, String>,
    scope: &mut JobScope,
    references: &mut References,
    folder: Option<&str>,
    report: &mut Report,
) {
    let Some(task) = tasks.get(job.key) else { return };
    writer.line(2, &format!("{}:", Value::from(task.as_str())));
    let entries = job.value.entries("a job", report);
    let get = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| entry.value);
    write_needs(writer, get("needs"), task, tasks, scope);
    // Whatever of this is not empty keeps the job from being carried over: it then fails instead of running anyway.
    let mut obstacles: Vec<String> = Vec::new();
    scope.matrix.clear();
    if let Some(strategy) = get("strategy") {
        write_strategy(writer, strategy.object("`strategy`", report), scope, &mut obstacles);
    }
    for entry in &entries {
        match entry.key {
            "needs" | "env" | "steps" | "strategy" | "outputs" | "defaults" => {}
            "name" => writer.text(4, "description", &literal(&plain(&entry.value.value()))),
            "timeout-minutes" => match entry.value.value().as_u64().filter(|minutes| (1..=100_000).contains(minutes)) {
                Some(minutes) => writer.line(4, &format!("timeout: {minutes}m")),
                None => writer.left_out(4, &format!("timeout-minutes: {}", plain(&entry.value.value()))),
            },
            "continue-on-error" if entry.value.value() == Value::Bool(true) => writer.line(4, "on_exhausted: continue"),
            "if" => write_condition(writer, &plain(&entry.value.value()), scope, &mut obstacles),
            "uses" => obstacles.push(format!("uses: {}", plain(&entry.value.value()))),
            other => writer.left_out(4, &format!("{other}: {}", plain(&entry.value.value()))),
        }
    }
    let own_folder = get("defaults").and_then(|defaults| run_folder(defaults.value()));
    let steps = get("steps").map(|steps| steps.items("`steps`", report)).unwrap_or_default();
    let steps: Vec<Map<String, Value>> = steps.iter().map(|step| step.object("a step", report)).collect();
    scope.steps = steps.iter().filter_map(|step| step.get("id").map(plain)).collect();
    let outputs = get("outputs").map(|outputs| outputs.object("`outputs`", report)).unwrap_or_default();
    let folder = own_folder.as_deref().or(folder);
    let script = steps::script(&steps, &outputs, folder, scope, references);
    script.left_out.iter().for_each(|what| writer.left_out(4, what));
    let more = std::mem::take(&mut references.variables);
    match get("env") {
        Some(env) => env_of(writer, 4, env, scope, references, &more, report),
        None if !more.is_empty() => {
            writer.line(4, "env:");
            more.iter().for_each(|(name, expression)| writer.text(6, name, &format!("${{{{ {expression} }}}}")));
        }
        None => {}
    }
    if script.count == 0 {
        obstacles.push("none of its steps is a script".into());
    }
    if obstacles.is_empty() {
        return writer.script(4, "run", &script.text);
    }
    obstacles.iter().for_each(|what| writer.left_out(4, what));
    let reason = format!("this job was not carried over: {}", obstacles.join("; "));
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    writer.script(4, "run", &format!("echo {} >&2\nexit 1", conditions::quoted(&reason)));
}

fn write_needs(
    writer: &mut Writer,
    needs: Option<Doc<'_>>,
    task: &String,
    tasks: &BTreeMap<&str, String>,
    scope: &mut JobScope,
) {
    scope.needs.clear();
    let there: Vec<String> = match needs.map(|needs| needs.value()) {
        None => return,
        Some(Value::Array(items)) => items.iter().map(plain).collect(),
        Some(other) => vec![plain(&other)],
    };
    let mut ours = Vec::new();
    for need in there {
        match tasks.get(need.as_str()).filter(|other| *other != task && !ours.contains(*other)) {
            Some(other) => {
                scope.needs.insert(need, other.clone());
                ours.push(other.clone());
            }
            None => writer.left_out(4, &format!("needs: {need}, there is no such job")),
        }
    }
    if !ours.is_empty() {
        writer.value(4, "needs", &ours.into());
    }
}

fn write_condition(writer: &mut Writer, text: &str, scope: &JobScope, obstacles: &mut Vec<String>) {
    let read = conditions::read(text);
    let translated = read.as_ref().and_then(|condition| condition.expression(scope));
    let (Some(condition), Some(expression)) = (read, translated) else {
        return obstacles.push(format!("if: {text}"));
    };
    let has_needs = !scope.needs.is_empty();
    match condition.when {
        When::Always if has_needs => writer.line(4, "trigger_rule: all_done"),
        When::Failure if has_needs => writer.line(4, "trigger_rule: one_failed"),
        // Nothing went before, so nothing can have failed.
        When::Failure => return writer.line(4, "if: false"),
        _ => {}
    }
    if !expression.is_empty() {
        writer.text(4, "if", &expression);
    }
}

/// A matrix of constants is the list of its combinations.
fn write_strategy(
    writer: &mut Writer,
    strategy: Map<String, Value>,
    scope: &mut JobScope,
    obstacles: &mut Vec<String>,
) {
    for (key, value) in &strategy {
        match key.as_str() {
            "matrix" => match matrix::combinations(value) {
                Some(items) => {
                    scope.matrix = items.iter().flat_map(|item| item.keys().cloned()).collect();
                    let items: Vec<Value> = items.into_iter().map(Value::Object).collect();
                    writer.value(4, "foreach", &items.into());
                }
                None => obstacles.push(format!("strategy.matrix: {}", plain(value))),
            },
            "max-parallel" if strategy.contains_key("matrix") => {
                match value.as_u64().filter(|most| (1..=10_000).contains(most)) {
                    Some(most) => writer.line(4, &format!("max_parallel: {most}")),
                    None => writer.left_out(4, &format!("strategy.max-parallel: {}", plain(value))),
                }
            }
            // All items run to their end here.
            "fail-fast" if value == &Value::Bool(false) => {}
            _ => writer.left_out(4, &format!("strategy.{key}: {}", plain(value))),
        }
    }
}

/// `defaults: {run: {working-directory: x}}`
fn run_folder(defaults: Value) -> Option<String> {
    defaults.get("run")?.get("working-directory")?.as_str().map(Into::into)
}
