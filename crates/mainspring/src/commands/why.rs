//! `mainspring why`: what keeps a task from running, in words.

use clap::Args;
use mainspring_api::runs::{TaskRun, TaskStatus};

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
    /// The task's name; `name[2]` is an item
    #[arg(value_name = "TASK")]
    task: String,
}

pub(crate) async fn why(app: &App<'_>, args: WhyArgs) -> Result {
    app.start_logs();
    check_run(&args.run)?;
    let api = Connection::open_existing(app).await?;
    let run = find_run(&api, &args.run).await?.to_string();
    let shown: TaskRun = api.read(&["workflow-runs", &run, "tasks", &args.task], &[]).await?;
    let format = app.out.record_format();
    if format != Format::Table {
        app.out.value(format, &shown);
        return Ok(Exit::Success);
    }
    if shown.blocked_by.is_empty() {
        app.out.line(format_args!("{} {}", args.task, without_reason(&shown)));
    } else {
        app.out.line(format_args!("{} is {}:", args.task, shown.status));
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
        let (run, task) = (&args.run, &args.task);
        app.out.note(format!("read its log:  mainspring runs logs {run} {task}"));
        app.out.note(format!("once the cause is removed:  mainspring tasks retry {run} {task}"));
    }
    Ok(Exit::Success)
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
