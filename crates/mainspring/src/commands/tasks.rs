//! `mainspring tasks`: task runs, and what people say to those that wait.

use clap::{Args, Subcommand};
use mainspring_core::diagnostic::quoted;
use mainspring_core::{RunId, TaskKey, Workflow};
use mainspring_engine::{Answer, AnswerError, Client};
use mainspring_store::TaskRunRow;
use serde_json::{Value, json};

use super::runs::{parse_run, task_index};
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};
use crate::{database, views};

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List the task runs of a run
    List {
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Say yes to a task that waits for an approval
    Approve(AnswerArgs),
    /// Say no to a task that waits for an approval
    Reject(AnswerArgs),
    /// Hand in the result of a task that waits for one
    Deliver(DeliverArgs),
    /// Try a task again: at once if it waits for its next attempt, else by reopening its run
    Retry(RepairArgs),
    /// Count a task as done by hand; what depends on it goes on
    Resolve(ResolveArgs),
    /// Leave a task out; what depends on it goes on as if it had succeeded
    Skip(RepairArgs),
    /// Cancel one task
    Cancel(RepairArgs),
    /// Give a task its attempts back
    ResetAttempts(RepairArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[arg(value_name = "RUN")]
    run: String,
    /// The task's name; `name[2]` is an item
    #[arg(value_name = "TASK")]
    task: String,
    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    repair: RepairArgs,
    /// What the task would have left, as JSON
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    #[arg(value_name = "RUN")]
    run: String,
    /// The task's name; `name[2]` is an item
    #[arg(value_name = "TASK")]
    task: String,
    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who acts [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Act in this role, and be refused if the task asks for another; may be given several times
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DeliverArgs {
    #[command(flatten)]
    answer: AnswerArgs,
    /// The task's output, as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "error")]
    result: Option<String>,
    /// It failed: why
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

pub(crate) async fn tasks(app: &App<'_>, command: TasksCommand) -> Result {
    app.start_logs();
    match command {
        TasksCommand::List { run } => {
            let run = parse_run(&run)?;
            let client = app.client(database::open(&app.config).await?);
            list(app, &client, run).await
        }
        TasksCommand::Approve(args) => answer(app, args, Answer::Approve, "is approved").await,
        TasksCommand::Reject(args) => answer(app, args, Answer::Reject, "is rejected").await,
        TasksCommand::Deliver(args) => {
            let (told, words) = match (args.error, args.result) {
                (Some(message), _) => (Answer::DeliverFailure { message }, "has failed"),
                (None, output) => (Answer::Deliver { output: parse_output(output.as_deref())? }, "has its result"),
            };
            answer(app, args.answer, told, words).await
        }
        TasksCommand::Retry(args) => repair(app, args, "retry", None).await,
        TasksCommand::Skip(args) => repair(app, args, "skip", None).await,
        TasksCommand::Cancel(args) => repair(app, args, "cancel", None).await,
        TasksCommand::ResetAttempts(args) => repair(app, args, "reset_attempts", None).await,
        TasksCommand::Resolve(args) => {
            let output = args.result.as_deref().map(|text| parse_output(Some(text))).transpose()?;
            repair(app, args.repair, "resolve_manually", output).await
        }
    }
}

/// What people do about a task, through the API.
async fn repair(app: &App<'_>, args: RepairArgs, action: &str, output: Option<Value>) -> Result {
    let run = parse_run(&args.run)?.to_string();
    let api = Connection::open(app).await?;
    let mut body = json!({"action": action, "reason": args.reason});
    if let Some(output) = output {
        body["output"] = output;
    }
    let done = api.send("POST", &["workflow-runs", &run, "tasks", &args.task, "actions"], &[], Some(&body)).await?;
    match app.out.record_format() {
        Format::Table => {
            let status = done["status"].as_str().unwrap_or_default();
            app.out.line(format_args!("task {} of run {run}: {} ({status})", args.task, action.replace('_', " ")));
        }
        format => app.out.value(format, &done),
    }
    Ok(Exit::Success)
}

fn parse_output(text: Option<&str>) -> Result<Value> {
    let Some(text) = text else { return Ok(json!({})) };
    serde_json::from_str(text).map_err(|error| {
        Failure::bad_input(format!("--result is not JSON: {error}")).remedy("write it like '{\"rows\": 3}'")
    })
}

async fn answer(app: &App<'_>, args: AnswerArgs, answer: Answer, words: &str) -> Result {
    let run = parse_run(&args.run)?;
    let client = app.client(database::open(&app.config).await?);
    let summary = client.store().run_summary(run).await?;
    let spec = client.spec(summary.version).await?;
    let key = task_key(&spec.workflow, run, &args.task)?;
    let operator = app.operator(args.by, args.reason);
    let roles = (!args.role.is_empty()).then_some(args.role.as_slice());
    match client.answer(key, &answer, &operator, roles).await {
        Ok(()) => {}
        Err(AnswerError::Store(error)) => return Err(error.into()),
        Err(error) => {
            return Err(Failure::bad_input(error.to_string())
                .remedy(format!("`mainspring tasks list {run}` shows what its tasks wait for")));
        }
    }
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("task {} of run {run} {words}", args.task)),
        format => app.out.value(format, &json!({"workflow_run_id": run, "task_id": args.task, "by": operator.by})),
    }
    Ok(Exit::Success)
}

/// `name`, or `name[2]` for an item.
pub(crate) fn task_key(workflow: &Workflow, run: RunId, text: &str) -> Result<TaskKey> {
    let (name, item) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        None => (text, -1),
        Some((name, number)) => {
            let item = number.parse::<u16>().map_err(|_| {
                Failure::bad_input(format!("{} does not name an item", quoted(text))).remedy("write it like load[2]")
            })?;
            (name, i32::from(item))
        }
    };
    Ok(TaskKey { item, ..TaskKey::new(run, task_index(workflow, name)? as i32) })
}

async fn list(app: &App<'_>, client: &Client, run: RunId) -> Result {
    let summary = client.store().run_summary(run).await?;
    let spec = client.spec(summary.version).await?;
    let rows = client.store().task_runs(run).await?;
    match app.out.record_format() {
        Format::Table => print(app, &rows, &spec.workflow),
        format => {
            let workers = views::Workers::new();
            let items: Vec<Value> =
                rows.iter().map(|row| Value::Object(views::task_run(row, &spec.workflow, &workers))).collect();
            app.out.value(format, &json!({"items": items, "next": null}));
        }
    }
    Ok(Exit::Success)
}

fn print(app: &App<'_>, rows: &[TaskRunRow], workflow: &Workflow) {
    let mut table = Table::new(&["TASK", "KIND", "STATUS", ""]);
    for row in rows {
        let task = &workflow.tasks[row.key.index as usize];
        let state = row.state.shown();
        let words = if row.state == mainspring_core::state::TaskState::Waiting {
            views::waits_for(task)
        } else {
            row.error.clone().unwrap_or_default()
        };
        table.row(vec![
            (views::task_name(workflow, row).into_owned(), None),
            (task.action.kind().to_owned(), None),
            (state.to_string(), Some(views::task_paint(state))),
            (words, None),
        ]);
    }
    table.print(app.out);
}
