//! GitHub Actions: a job becomes a task, its steps one script, because they share a folder.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::diagnostic::{Diagnostics, Report};
use crate::document::{Doc, Entry};
use crate::yaml;

use super::Imported;
use super::expressions::{Found, Known, translate};
use super::writer::{Names, Writer, is_variable, name};

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
    let title = get("name").map(|title| plain(title.value())).unwrap_or_default();
    let workflow = name(&title, "workflow");
    let mut writer = Writer::default();
    writer.comment(0, "from a GitHub Actions workflow");
    writer.text(0, "name", &workflow);
    if !title.trim().is_empty() {
        writer.text(0, "title", &title);
    }
    let mut known = Known::default();
    if let Some(on) = get("on") {
        triggers(&mut writer, on, &mut known, &mut report);
    }
    for entry in root.iter().filter(|entry| !matches!(entry.key, "name" | "on" | "jobs" | "env")) {
        writer.left_out(0, &format!("{}: {}", entry.key, plain(entry.value.value())));
    }
    let mut names = Names::default();
    let tasks: BTreeMap<&str, String> = jobs.iter().map(|job| (job.key, names.name(job.key, "job"))).collect();
    let mut found = Found::default();
    let mut body = Writer::default();
    if let Some(env) = get("env") {
        env_of(&mut body, 0, env, &known, &mut found, &BTreeMap::new(), &mut report);
    }
    body.comment(0, "a job is tried once there");
    body.line(0, "defaults: {retry: {attempts: 1}}");
    body.line(0, "tasks:");
    for job in &jobs {
        write_job(&mut body, *job, &tasks, &mut known, &mut found, &mut report);
    }
    if !found.secrets.is_empty() {
        let secrets: Vec<Value> = found.secrets.iter().map(|secret| secret.as_str().into()).collect();
        writer.value(0, "secrets", &secrets.into());
    }
    let (head, body) = (writer.finish(workflow.clone()), body.finish(workflow));
    let imported = Imported { text: head.text + &body.text, left_out: head.left_out + body.left_out, name: head.name };
    report.finish(Some(imported))
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn triggers(writer: &mut Writer, on: Doc<'_>, known: &mut Known, report: &mut Report) {
    if !on.is_mapping() {
        return writer.left_out(0, &format!("on: {}", plain(on.value())));
    }
    for entry in on.entries("`on`", report) {
        match entry.key {
            "schedule" => {
                writer.line(0, "triggers:");
                for item in entry.value.items("`schedule`", report) {
                    let cron = item.object("a schedule", report).get("cron").cloned().unwrap_or_default();
                    writer.line(2, &format!("- {{cron: {}}}", Value::from(plain(cron))));
                }
            }
            "workflow_dispatch" | "workflow_call" => {
                for part in entry.value.entries("`workflow_dispatch`", report) {
                    if part.key == "inputs" && known.inputs.is_empty() {
                        inputs(writer, part.value, known, report);
                    } else {
                        writer.left_out(0, &format!("on.{}.{}", entry.key, part.key));
                    }
                }
            }
            other => writer.left_out(0, &format!("on.{other}: {}", plain(entry.value.value()))),
        }
    }
}

fn inputs(writer: &mut Writer, doc: Doc<'_>, known: &mut Known, report: &mut Report) {
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
        known.inputs.insert(input.key.to_owned());
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
            ours.insert("enum".into(), options.iter().map(|one| Value::from(plain(one.clone()))).collect());
        }
        match fields.get("default").filter(|value| !value.is_null()) {
            Some(value) if fits(value) => _ = ours.insert("default".into(), value.clone()),
            Some(value) => _ = ours.insert("default".into(), plain(value.clone()).into()),
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
    known: &Known,
    found: &mut Found,
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
        let before = found.unknown.len();
        let text = translate(&plain(entry.value.value()), known, found, false);
        for unknown in found.unknown.drain(before..) {
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
    known: &mut Known,
    found: &mut Found,
    report: &mut Report,
) {
    let Some(task) = tasks.get(job.key) else { return };
    writer.line(2, &format!("{}:", Value::from(task.as_str())));
    let entries = job.value.entries("a job", report);
    let get = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| entry.value);
    known.needs.clear();
    if let Some(needs) = get("needs") {
        let there: Vec<String> = match needs.value() {
            Value::Array(items) => items.into_iter().map(plain).collect(),
            other => vec![plain(other)],
        };
        let mut ours = Vec::new();
        for need in there {
            match tasks.get(need.as_str()).filter(|other| *other != task && !ours.contains(*other)) {
                Some(other) => {
                    known.needs.insert(need, other.clone());
                    ours.push(other.clone());
                }
                None => writer.left_out(4, &format!("needs: {need}, there is no such job")),
            }
        }
        if !ours.is_empty() {
            writer.value(4, "needs", &ours.into());
        }
    }
    let has_needs = !known.needs.is_empty();
    for entry in &entries {
        match entry.key {
            "needs" | "env" | "steps" => {}
            "name" => writer.text(4, "description", &plain(entry.value.value())),
            "timeout-minutes" => match entry.value.value().as_u64().filter(|minutes| (1..=100_000).contains(minutes)) {
                Some(minutes) => writer.line(4, &format!("timeout: {minutes}m")),
                None => writer.left_out(4, &format!("timeout-minutes: {}", plain(entry.value.value()))),
            },
            "continue-on-error" if entry.value.value() == Value::Bool(true) => writer.line(4, "on_exhausted: continue"),
            "if" => match plain(entry.value.value()).trim_matches(['$', '{', '}', ' ']) {
                "always()" if has_needs => writer.line(4, "trigger_rule: all_done"),
                "failure()" if has_needs => writer.line(4, "trigger_rule: one_failed"),
                "success()" => {}
                other => writer.left_out(4, &format!("if: {other}")),
            },
            "strategy" => {
                let matrix = plain(entry.value.object("`strategy`", report).remove("matrix").unwrap_or_default());
                writer.left_out(4, &format!("strategy.matrix: {matrix}"));
                writer.comment(4, "a matrix is written as `foreach: [{os: …}, …]` with ${{ item.os }} in `env`");
            }
            other => writer.left_out(4, &format!("{other}: {}", plain(entry.value.value()))),
        }
    }
    let steps = get("steps").map(|steps| steps.items("`steps`", report)).unwrap_or_default();
    let (script, left_out) = script_of(&steps, known, found, report);
    left_out.iter().for_each(|what| writer.left_out(4, what));
    let more = std::mem::take(&mut found.variables);
    let env = get("env").unwrap_or(job.value);
    if get("env").is_some() {
        env_of(writer, 4, env, known, found, &more, report);
    } else if !more.is_empty() {
        writer.line(4, "env:");
        more.iter().for_each(|(name, expression)| writer.text(6, name, &format!("${{{{ {expression} }}}}")));
    }
    writer.script(4, "run", &script);
}

/// The steps as one script, and what of them has no place in it.
fn script_of(steps: &[Doc<'_>], known: &Known, found: &mut Found, report: &mut Report) -> (String, Vec<String>) {
    let mut script = String::from("set -e\n");
    let mut left_out = Vec::new();
    let mut count = 0;
    for (number, step) in steps.iter().enumerate() {
        let fields = step.object("a step", report);
        let title = fields.get("name").map_or_else(|| format!("step {}", number + 1), |name| plain(name.clone()));
        let title: String = title.chars().filter(|one| !one.is_control()).take(120).collect();
        for (key, value) in &fields {
            match key.as_str() {
                "name" | "run" | "id" => {}
                "uses" => left_out.push(format!("step `{title}` uses {}", plain(value.clone()))),
                "with" if fields.contains_key("uses") => left_out.push(format!("with: {value}")),
                _ => left_out.push(format!("step `{title}` {key}: {}", plain(value.clone()))),
            }
        }
        if let Some(run) = fields.get("run") {
            count += 1;
            let before = found.unknown.len();
            let text = translate(&plain(run.clone()), known, found, true);
            for unknown in found.unknown.drain(before..) {
                left_out.push(format!("step `{title}` ${{{{ {unknown} }}}}"));
            }
            script.push_str(&format!("# {}\n{}\n", title.replace("${{", "$ {{"), text.trim_end()));
        }
    }
    if count == 0 {
        script.push_str("echo 'nothing of this job was carried over'\n");
    }
    (script, left_out)
}
