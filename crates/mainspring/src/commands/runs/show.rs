//! `mainspring runs show`.

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::time::rfc3339;
use mainspring_core::{Micros, RunId, Workflow};
use mainspring_engine::Client;
use mainspring_store::{RunRow, TaskRunRow};
use serde_json::Value;

use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Output, Paint, Table, seconds};
use crate::views::{self, Workers};

pub(super) async fn show(app: &App<'_>, client: &Client, id: RunId) -> Result {
    let mut run = client.store().run(id).await?;
    if run.summary.state == RunState::Success {
        run.outputs = outputs(client, id).await?;
    }
    let spec = client.spec(run.summary.version).await?;
    let rows = client.store().task_runs(id).await?;
    let workers: Workers =
        client.store().live_sessions().await?.into_iter().map(|session| (session.id, session.worker)).collect();
    match app.out.record_format() {
        Format::Table => print(app.out, &run, &rows, &spec.workflow, client.now()),
        format => {
            let mut shown = views::run(&run);
            let tasks = rows.iter().map(|row| Value::Object(views::task_run(row, &spec.workflow, &workers))).collect();
            shown.insert("tasks".into(), Value::Array(tasks));
            app.out.value(format, &Value::Object(shown));
        }
    }
    Ok(Exit::Success)
}

/// What the workflow declares as the run's outputs; an expression that has no value is told as such.
pub(crate) async fn outputs(client: &Client, id: RunId) -> Result<Option<Value>> {
    Ok(match client.outputs(id).await? {
        Ok(outputs) if outputs.is_empty() => None,
        Ok(outputs) => Some(Value::Object(outputs)),
        Err(failure) => Some(serde_json::json!({ "error": failure.message })),
    })
}

fn print(out: &Output, run: &RunRow, rows: &[TaskRunRow], workflow: &Workflow, now: Micros) {
    let summary = &run.summary;
    let palette = out.palette();
    let field = |name: &str, value: String| {
        out.line(format_args!("{} {value}", palette.paint(Paint::Dim, format_args!("{name:12}"))))
    };
    field("run", summary.id.to_string());
    field("workflow", format!("{}/{} version {}", summary.namespace, summary.workflow, summary.version_number));
    let stopping = match (summary.state.is_terminal(), summary.cancelling, summary.timed_out) {
        (false, true, _) => " (being cancelled)",
        (false, _, true) | (true, _, true) => " (its timeout has passed)",
        _ => "",
    };
    field("status", format!("{}{stopping}", palette.paint(views::run_paint(summary.state), summary.state)));
    if let Some(reason) = &run.reason {
        field("reason", reason.clone());
    }
    field("priority", summary.priority.to_string());
    if let Some(correlation) = &run.correlation_id {
        field("correlation", correlation.clone());
    }
    if let Some(inputs) = &run.inputs {
        field("inputs", inputs.to_string());
    }
    if let Some(outputs) = &run.outputs {
        field("outputs", outputs.to_string());
    }
    field("created", rfc3339(summary.created_at));
    for (name, at) in [("started", summary.started_at), ("finished", summary.finished_at)] {
        if let Some(at) = at {
            field(name, rfc3339(at));
        }
    }
    if rows.is_empty() {
        return;
    }
    out.line("");
    let mut table = Table::new(&["TASK", "STATUS", "ATTEMPT", "TOOK", ""]);
    for row in rows {
        let attempts = if row.attempt > 0 {
            format!("{}/{}", row.attempt, views::max_attempts(workflow, row).max(row.attempt))
        } else {
            String::new()
        };
        let took = views::duration(row, now).filter(|_| row.attempt > 0).map_or(String::new(), seconds);
        let words = match row.state {
            TaskState::Retrying => format!("again in {}", seconds(row.due_at.unwrap_or(now) - now)),
            TaskState::Gated => "waits for its pool".into(),
            TaskState::Held => "its run is not running".into(),
            TaskState::Waiting => views::waits_for(&workflow.tasks[row.key.index as usize]),
            _ => row.error.clone().or_else(|| row.output.as_ref().map(Value::to_string)).unwrap_or_default(),
        };
        let state = row.state.shown();
        table.row(vec![
            (views::task_name(workflow, row).into_owned(), None),
            (state.to_string(), Some(views::task_paint(state))),
            (attempts, None),
            (took, None),
            (words, None),
        ]);
    }
    table.print(out);
}
