//! `mainspring tasks`: task runs, and what people say to those that wait.

use std::collections::HashMap;

use clap::{Args, Subcommand};
use mainspring_api::runs::TaskRun;
use mainspring_core::diagnostic::{did_you_mean, quoted};
use mainspring_core::{RunId, TaskKey, Workflow};
use mainspring_engine::{Answer, AnswerError, Client};
use serde_json::{Value, json};

use super::runs::{task_runs, workflow_of};
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::{check_run, find_run};
use crate::inputs::InputArgs;
use crate::output::{Format, Table};
use crate::views::{self, text};

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
    Retry(RetryArgs),
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
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    run: String,
    /// The task's name; `name[2]` is an item
    #[arg(value_name = "TASK")]
    task: String,
    /// Why, for the history of the run
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who acts [default: $USER, or whose token it is]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    repair: RepairArgs,
    /// Inputs of the run that are changed, for everything that is done again
    #[command(flatten)]
    inputs: InputArgs,
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
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    run: String,
    /// The task's name; `name[2]` is an item
    #[arg(value_name = "TASK")]
    task: String,
    /// Why, for the history of the run
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who acts [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Act in this role, and be refused if the task asks for another; may be given several times. Not through a server,
    /// which knows the roles of the token
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
            check_run(&run)?;
            let api = Connection::open_existing(app).await?;
            let run = find_run(&api, &run).await?.to_string();
            list(app, &api, &run).await
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
        TasksCommand::Retry(args) => repair(app, args.repair, "retry", Some(&args.inputs), None).await,
        TasksCommand::Skip(args) => repair(app, args, "skip", None, None).await,
        TasksCommand::Cancel(args) => repair(app, args, "cancel", None, None).await,
        TasksCommand::ResetAttempts(args) => repair(app, args, "reset_attempts", None, None).await,
        TasksCommand::Resolve(args) => {
            let output = args.result.as_deref().map(|text| parse_output(Some(text))).transpose()?;
            repair(app, args.repair, "resolve_manually", None, output).await
        }
    }
}

/// What people do about a task, through the API.
async fn repair(
    app: &App<'_>,
    args: RepairArgs,
    action: &str,
    inputs: Option<&InputArgs>,
    output: Option<Value>,
) -> Result {
    check_run(&args.run)?;
    let api = Connection::open_existing(app).await?;
    let id = find_run(&api, &args.run).await?;
    let run = id.to_string();
    let mut body = json!({"action": action, "reason": args.reason, "by": args.by});
    if let Some(inputs) = inputs.filter(|inputs| !inputs.is_empty()) {
        body["inputs"] = Value::Object(inputs.values(&workflow_of(&api, id).await?)?);
    }
    let api = api.acting_as(args.by.as_deref());
    if let Some(output) = output {
        body["output"] = output;
    }
    let done = api.send("POST", &["workflow-runs", &run, "tasks", &args.task, "actions"], &[], Some(&body)).await?;
    match app.out.record_format() {
        Format::Table => {
            let words = match action {
                "retry" => "is tried again",
                "skip" => "is left out",
                "cancel" => "is cancelled",
                "reset_attempts" => "has its attempts back",
                _ => "counts as done by hand",
            };
            let status = done["status"].as_str().unwrap_or_default();
            app.out.line(format_args!("task {} of run {run} {words}; its status is {status}", args.task));
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

/// Tells a task that waits what it waits for. A user who holds the database may answer in any role; a server knows the
/// roles of a token.
pub(super) async fn answer(app: &App<'_>, args: AnswerArgs, answer: Answer, words: &str) -> Result {
    check_run(&args.run)?;
    let api = Connection::open_existing(app).await?;
    let run = find_run(&api, &args.run).await?;
    let by = match api.client() {
        Some(client) => answer_here(app, client, run, &args, &answer).await?,
        None => answer_there(&api, run, &args, &answer).await?,
    };
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("task {} of run {run} {words}", args.task)),
        format => app.out.value(format, &json!({"workflow_run_id": run, "task_id": args.task, "by": by})),
    }
    Ok(Exit::Success)
}

async fn answer_here(
    app: &App<'_>,
    client: &Client,
    run: RunId,
    args: &AnswerArgs,
    answer: &Answer,
) -> Result<Option<String>> {
    let summary = client.store().run_summary(run).await?;
    let spec = client.spec(summary.version).await?;
    let key = task_key(&spec.workflow, run, &args.task)?;
    let operator = app.operator(args.by.clone(), args.reason.clone());
    let roles = (!args.role.is_empty()).then_some(args.role.as_slice());
    match client.answer(key, answer, &operator, roles).await {
        Ok(()) => Ok(Some(operator.by)),
        Err(AnswerError::Store(error)) => Err(error.into()),
        Err(error) => Err(Failure::bad_input(error.to_string())
            .remedy(format!("`mainspring tasks list {run}` shows what its tasks wait for"))),
    }
}

async fn answer_there(api: &Connection, run: RunId, args: &AnswerArgs, answer: &Answer) -> Result<Option<String>> {
    if !args.role.is_empty() {
        return Err(Failure::bad_input("--role is for a database: a server knows the roles of your token")
            .remedy("leave --role out, or take a token with that role"));
    }
    let (action, body) = match answer {
        Answer::Approve => ("actions", json!({"action": "approve", "by": args.by, "reason": args.reason})),
        Answer::Reject => ("actions", json!({"action": "reject", "by": args.by, "reason": args.reason})),
        Answer::Deliver { output } => {
            ("results", json!({"status": "success", "results": output, "submitted_by": args.by}))
        }
        Answer::DeliverFailure { message } => {
            ("results", json!({"status": "failed", "error": {"message": message}, "submitted_by": args.by}))
        }
    };
    let run = run.to_string();
    api.send("POST", &["workflow-runs", &run, "tasks", &args.task, action], &[], Some(&body)).await?;
    Ok(args.by.clone())
}

/// `name`, or `name[2]` for an item.
fn task_key(workflow: &Workflow, run: RunId, text: &str) -> Result<TaskKey> {
    let (name, item) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        None => (text, -1),
        Some((name, number)) => {
            let item = number.parse::<u16>().map_err(|_| {
                Failure::bad_input(format!("{} does not name an item", quoted(text))).remedy("write it like load[2]")
            })?;
            (name, i32::from(item))
        }
    };
    let index = workflow.task_index(name).ok_or_else(|| {
        let near = did_you_mean(name, workflow.tasks.iter().map(|task| task.name.as_str()));
        let names: Vec<&str> = workflow.tasks.iter().take(20).map(|task| task.name.as_str()).collect();
        Failure::bad_input(format!("the workflow `{}` has no task {}", workflow.name, quoted(name)))
            .remedy(near.unwrap_or_else(|| format!("there are {}", names.join(", "))))
    })?;
    Ok(TaskKey { item, ..TaskKey::new(run, index as i32) })
}

async fn list(app: &App<'_>, api: &Connection, run: &str) -> Result {
    let tasks = task_runs(api, run).await?;
    match app.out.record_format() {
        Format::Table => print(app, &tasks, &kinds(api, run).await?),
        format => app.out.value(format, &json!({"items": tasks, "next": null})),
    }
    Ok(Exit::Success)
}

/// What kind of task each one is, by its name.
async fn kinds(api: &Connection, run: &str) -> Result<HashMap<String, String>> {
    let shown = api.get(&["workflow-runs", run], &[]).await?;
    let version = shown["version"].to_string();
    let query = [("version", Some(version.as_str()))];
    let graph = api.get(&["workflows", text(&shown, "workflow_id"), "graph"], &query).await?;
    let nodes = graph["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(nodes.iter().map(|node| (text(node, "task").to_owned(), text(node, "kind").to_owned())).collect())
}

fn print(app: &App<'_>, tasks: &[TaskRun], kinds: &HashMap<String, String>) {
    let mut table = Table::new(&["TASK", "KIND", "STATUS", ""]);
    for task in tasks {
        let name = task.task_id.as_str();
        let kind = kinds.get(name.split('[').next().unwrap_or(name)).cloned().unwrap_or_default();
        let words = task.blocked_by.first().or(task.error.as_ref()).cloned().unwrap_or_default();
        table.row(vec![
            (name.to_owned(), None),
            (kind, None),
            (task.status.to_string(), task.status.word().parse().ok().map(views::task_paint)),
            (words, None),
        ]);
    }
    table.print(app.out);
}
