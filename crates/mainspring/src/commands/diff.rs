//! `mainspring diff`: how a file differs from the newest stored version of its workflow.

use clap::Args;
use mainspring_core::difference::{Changed, Differences, TaskChange, difference};
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde_json::{Value, json};

use super::stored;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Paint, Palette, clip, plain};
use crate::source;

/// The longest value that is shown.
const LONGEST: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The workflow file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
}

pub(crate) async fn diff(app: &App<'_>, args: DiffArgs) -> Result {
    app.start_logs();
    let (mut workflow, source) = source::workflow(app, &args.file)?;
    let api = Connection::open_existing(app).await?;
    if workflow.namespace == DEFAULT_NAMESPACE {
        api.namespace_or_default().clone_into(&mut workflow.namespace);
    }
    let stored = stored::find(&api, &workflow.namespace, &workflow.name).await?;
    let found = stored.as_ref().map(|stored| difference(&stored.plan, &workflow));
    let number = stored.as_ref().map(|stored| stored.number);
    let is_same = found.as_ref().is_some_and(Differences::is_empty);
    let name = format!("{}/{}", workflow.namespace, workflow.name);
    match (app.out.format, number) {
        (Some(format @ (Format::Json | Format::Yaml)), _) => {
            let report = json!({"workflow": name, "version": number, "equal": is_same, "differences": found});
            app.out.value(format, &report);
        }
        (_, None) => {
            let count = workflow.tasks.len();
            let tasks = if count == 1 { "task" } else { "tasks" };
            app.out.line(format_args!("{name} is not stored yet; {} has {count} {tasks}", plain(&source.name)));
        }
        (_, Some(number)) if is_same => app.out.line(format_args!("{name} is the same as version {number}")),
        (_, Some(number)) => {
            app.out.line(format_args!("{name}: version {number} -> {}", plain(&source.name)));
            if let Some(found) = &found {
                app.out.raw(&text(app.out.palette(), found));
            }
        }
    }
    Ok(if is_same { Exit::Success } else { Exit::WorkFailed })
}

pub(super) fn text(palette: Palette, found: &Differences) -> String {
    let mut text = String::new();
    for changed in &found.keys {
        text.push_str(&line(palette, "", changed));
    }
    for task in &found.tasks {
        match task {
            TaskChange::Added { task, definition } => {
                let kind = definition["action"].as_object().and_then(|action| action.keys().next().cloned());
                let words = format!("+ task {}  {}", plain(task), kind.unwrap_or_default());
                text.push_str(&palette.paint(Paint::Green, words.trim_end()));
                text.push('\n');
            }
            TaskChange::Removed { task } => {
                text.push_str(&palette.paint(Paint::Red, format_args!("- task {}", plain(task))));
                text.push('\n');
            }
            TaskChange::Changed { task, keys } => {
                text.push_str(&palette.paint(Paint::Yellow, format_args!("~ task {}", plain(task))));
                text.push('\n');
                for changed in keys {
                    text.push_str(&line(palette, "    ", changed));
                }
            }
        }
    }
    text
}

fn line(palette: Palette, margin: &str, changed: &Changed) -> String {
    let (old, new) = (shown(&changed.old), shown(&changed.new));
    let old = palette.paint(Paint::Red, old);
    let new = palette.paint(Paint::Green, new);
    format!("{margin}{}: {old} -> {new}\n", plain(&changed.key))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "(none)".into(),
        other => clip(&plain(&other.to_string()), LONGEST),
    }
}
