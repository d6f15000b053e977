//! `mainspring runs get`.

use mainspring_api::runs::{Run, TaskRun, TaskStatus};
use mainspring_core::time;
use mainspring_core::work::Clock;
use mainspring_core::{Micros, RunId};
use mainspring_engine::SystemClock;
use serde_json::Value;

use super::list::trigger;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Output, Paint, Table, local_text, plain, seconds};
use crate::progress::caches;
use crate::views;

pub(super) async fn show(app: &App<'_>, api: Connection, id: RunId) -> Result {
    let id = id.to_string();
    let run: Run = api.read(&["workflow-runs", &id], &[]).await?;
    let tasks = super::task_runs(&api, &id).await?;
    match app.out.record_format() {
        Format::Table => print(app.out, &run, &tasks, SystemClock::new().now()),
        format => {
            let mut shown = views::shown_run(&run);
            shown["tasks"] = serde_json::to_value(tasks).unwrap_or_default();
            app.out.value(format, &shown);
        }
    }
    Ok(Exit::Success)
}

fn print(out: &Output, run: &Run, tasks: &[TaskRun], now: Micros) {
    let palette = out.palette();
    let field = |name: &str, value: &str| {
        if !value.is_empty() {
            out.line(format_args!("{} {}", palette.paint(Paint::Dim, format_args!("{name:12}")), plain(value)));
        }
    };
    field("run", &run.id.to_string());
    field("workflow", &format!("{}/{} version {}", run.namespace, run.workflow, run.version));
    let stopping = match (run.cancelling, run.timed_out) {
        (true, _) => " (being cancelled)",
        (_, true) => " (its timeout has passed)",
        _ => "",
    };
    let paint = run.status.word().parse().map_or(Paint::Dim, views::run_paint);
    let status = palette.paint(paint, run.status);
    out.line(format_args!("{} {status}{stopping}", palette.paint(Paint::Dim, format_args!("{:12}", "status"))));
    field("reason", run.reason.as_deref().unwrap_or_default());
    field("trigger", &trigger(run.trigger.as_ref()));
    field("priority", &run.priority.to_string());
    field("correlation", run.correlation_id.as_deref().unwrap_or_default());
    for (name, value) in [("inputs", &run.inputs), ("outputs", &run.outputs)] {
        if let Some(value) = value.as_ref().filter(|value| !is_empty(value)) {
            field(name, &value.to_string());
        }
    }
    field("created", &local_text(&run.created_at));
    for (name, at) in [("started", &run.started_at), ("finished", &run.finished_at)] {
        field(name, &at.as_deref().map(local_text).unwrap_or_default());
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

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn row(task: &TaskRun, now: Micros) -> Vec<(String, Option<Paint>)> {
    let attempts = match task.attempt {
        attempt @ 1.. => format!("{attempt}/{}", task.max_attempts.max(attempt)),
        _ => String::new(),
    };
    let took = task.duration_ms.filter(|_| task.attempt > 0).map_or(String::new(), |ms| seconds(ms * 1_000));
    vec![
        (task.task_id.clone(), None),
        (task.status.to_string(), task.status.word().parse().ok().map(views::task_paint)),
        (attempts, None),
        (took, None),
        (words(task, now), None),
    ]
}

/// What there is to say about a task run: what it waits for, why it failed, or what it left.
fn words(task: &TaskRun, now: Micros) -> String {
    if task.status == TaskStatus::Retrying {
        let at = task.next_retry_at.as_deref().and_then(time::parse).unwrap_or(now);
        return format!("again in {}", seconds(at - now));
    }
    if let Some(reason) = task.blocked_by.first() {
        return reason.clone();
    }
    let left = match (&task.error, &task.output) {
        (Some(error), _) => error.clone(),
        (None, Value::Null) => String::new(),
        (None, output) => output.to_string(),
    };
    let found = caches::words(task.reuse.as_ref(), task.cache.as_ref());
    [found, left].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
