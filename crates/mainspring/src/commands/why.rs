//! `mainspring why`: what keeps a task from running, in words.

use clap::Args;
use mainspring_api::runs::{Run, TaskRun, TaskStatus};
use serde_json::json;

use super::runs::task_runs;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::ids::{check_run, find_run};
use crate::output::{Format, plain};

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    run: String,
    /// The task's name; `name[2]` is an item [default: every task that has not succeeded]
    #[arg(value_name = "TASK")]
    task: Option<String>,
}

/// Of a run that waits as a whole, every task waits for the same.
const MOST: usize = 20;

pub(crate) async fn why(app: &App<'_>, args: WhyArgs) -> Result {
    app.start_logs();
    check_run(&args.run)?;
    let api = Connection::open_existing(app).await?;
    let run = find_run(&api, &args.run).await?.to_string();
    let Some(task) = &args.task else { return why_all(app, &api, &args.run, &run).await };
    let shown: TaskRun = api.read(&["workflow-runs", &run, "tasks", task], &[]).await?;
    match app.out.record_format() {
        Format::Table => explain(app, &args.run, task, &shown),
        format => app.out.value(format, &shown),
    }
    Ok(Exit::Success)
}

/// Explains every task of a run that has not succeeded.
async fn why_all(app: &App<'_>, api: &Connection, named: &str, run: &str) -> Result {
    let is_done = |task: &TaskRun| matches!(task.status, TaskStatus::Success | TaskStatus::ResolvedManually);
    let mut tasks = task_runs(api, run).await?;
    tasks.retain(|task| !is_done(task));
    match app.out.record_format() {
        Format::Table if tasks.is_empty() => {
            let shown: Run = api.read(&["workflow-runs", run], &[]).await?;
            app.out.line(format_args!("run {run} is {}; no task of it waits or has failed", shown.status));
        }
        Format::Table => {
            for task in tasks.iter().take(MOST) {
                explain(app, named, &task.task_id, task);
            }
            if tasks.len() > MOST {
                app.out.note(format!("and {} more: mainspring runs get {named}", tasks.len() - MOST));
            }
        }
        format => app.out.value(format, &json!({"items": tasks, "next": null})),
    }
    Ok(Exit::Success)
}

fn explain(app: &App<'_>, run: &str, task: &str, shown: &TaskRun) {
    if shown.blocked_by.is_empty() {
        app.out.line(format_args!("{task} {}", without_reason(shown)));
    } else {
        app.out.line(format_args!("{task} is {}:", shown.status));
        for reason in &shown.blocked_by {
            app.out.line(format_args!("  {reason}"));
        }
    }
    if let Some(message) = shown.approval.as_ref().and_then(|approval| approval.message.as_deref()) {
        app.out.line(format_args!("  it asks: {}", plain(message)));
    }
    if let Some(child) = shown.child_run_id {
        app.out.line(format_args!("  its child run is {child}"));
    }
    if shown.status == TaskStatus::Failed {
        app.out.note(format!("read its log:  mainspring runs logs {run} {task}"));
        app.out.note(format!("once the cause is removed:  mainspring tasks retry {run} {task}"));
    }
}

/// What there is to say of a task that nothing keeps from running.
fn without_reason(task: &TaskRun) -> String {
    let error = || task.error.as_deref().map_or(String::new(), |error| format!(": {}", plain(error)));
    match task.status {
        TaskStatus::Running => "is running".to_owned(),
        TaskStatus::Success | TaskStatus::ResolvedManually => format!("has run: it is {}", task.status),
        TaskStatus::Failed => format!("has failed{}", error()),
        TaskStatus::Skipped => "was skipped: its condition was false, or it was left out by hand".to_owned(),
        TaskStatus::UpstreamFailed => "did not run, because a task that it needs did not succeed".to_owned(),
        TaskStatus::Cancelled => format!("was cancelled{}", error()),
        _ => format!("is {}; nothing keeps it from running", task.status),
    }
}
