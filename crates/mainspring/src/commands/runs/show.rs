//! `mainspring runs show`.

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Clock;
use mainspring_core::{Micros, RunId};
use mainspring_engine::SystemClock;
use serde_json::Value;

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Output, Paint, Table, plain, seconds};
use crate::views::{self, instant, text};

pub(super) async fn show(app: &App<'_>, api: Connection, id: RunId) -> Result {
    let id = id.to_string();
    let run = api.get(&["workflow-runs", &id], &[]).await?;
    let tasks = super::task_runs(&api, &id).await?;
    match app.out.record_format() {
        Format::Table => print(app.out, &run, &tasks, SystemClock::new().now()),
        format => {
            let mut shown = views::shown_run(&run);
            shown["tasks"] = Value::Array(tasks);
            app.out.value(format, &shown);
        }
    }
    Ok(Exit::Success)
}

fn print(out: &Output, run: &Value, tasks: &[Value], now: Micros) {
    let palette = out.palette();
    let field = |name: &str, value: &str| {
        out.line(format_args!("{} {}", palette.paint(Paint::Dim, format_args!("{name:12}")), plain(value)));
    };
    let state: Option<RunState> = views::state(run);
    field("run", text(run, "id"));
    let (namespace, workflow) = (text(run, "namespace"), text(run, "workflow"));
    field("workflow", &format!("{namespace}/{workflow} version {}", run["version"]));
    let stopping = match (run["cancelling"] == true, run["timed_out"] == true) {
        (true, _) => " (being cancelled)",
        (_, true) => " (its timeout has passed)",
        _ => "",
    };
    let status =
        state.map_or_else(|| text(run, "status").to_owned(), |state| palette.paint(views::run_paint(state), state));
    out.line(format_args!("{} {status}{stopping}", palette.paint(Paint::Dim, format_args!("{:12}", "status"))));
    for (name, key) in [("reason", "reason"), ("priority", "priority"), ("correlation", "correlation_id")] {
        show_field(run, name, key, &field);
    }
    for name in ["inputs", "outputs"] {
        if run[name].as_object().is_none_or(|fields| !fields.is_empty()) {
            show_field(run, name, name, &field);
        }
    }
    for (name, key) in [("created", "created_at"), ("started", "started_at"), ("finished", "finished_at")] {
        show_field(run, name, key, &field);
    }
    if tasks.is_empty() {
        return;
    }
    out.line("");
    let mut table = Table::new(&["TASK", "STATUS", "ATTEMPT", "TOOK", ""]);
    for task in tasks {
        table.row(row(task, now));
    }
    table.print(out);
}

fn show_field(run: &Value, name: &str, key: &str, field: &impl Fn(&str, &str)) {
    match &run[key] {
        Value::Null => {}
        Value::String(text) => field(name, text),
        other => field(name, &other.to_string()),
    }
}

fn row(task: &Value, now: Micros) -> Vec<(String, Option<Paint>)> {
    let attempt = task["attempt"].as_i64().unwrap_or(0);
    let attempts = match attempt {
        1.. => format!("{attempt}/{}", task["max_attempts"].as_i64().unwrap_or(1).max(attempt)),
        _ => String::new(),
    };
    let took = instant(task, "started_at")
        .filter(|_| attempt > 0)
        .map_or(String::new(), |started| seconds(instant(task, "finished_at").unwrap_or(now) - started));
    vec![
        (text(task, "task_id").to_owned(), None),
        (text(task, "status").to_owned(), views::state(task).map(views::task_paint)),
        (attempts, None),
        (took, None),
        (words(task, now), None),
    ]
}

/// What there is to say about a task run: what it waits for, why it failed, or what it left.
fn words(task: &Value, now: Micros) -> String {
    if views::state(task) == Some(TaskState::Retrying) {
        return format!("again in {}", seconds(instant(task, "next_retry_at").unwrap_or(now) - now));
    }
    if let Some(reason) = task["blocked_by"][0].as_str() {
        return reason.to_owned();
    }
    match (&task["error"], &task["output"]) {
        (Value::String(error), _) => error.clone(),
        (_, Value::Null) => String::new(),
        (_, output) => output.to_string(),
    }
}
