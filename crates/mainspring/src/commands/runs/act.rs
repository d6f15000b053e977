//! `mainspring runs cancel|pause|resume|retry|rerun`.

use clap::Args;
use mainspring_api::runs::{OneOrMany, Rerun, Run, Why};
use mainspring_core::RunId;
use serde_json::Value;

use crate::api::{Connection, Content};
use crate::app::App;
use crate::commands::start::{WaitArg, follow_run};
use crate::failure::{Exit, Failure, Result};
use crate::ids::find_run;
use crate::inputs::InputArgs;
use crate::output::Format;
use crate::views;

#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    pub(super) run: String,
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
    pub(super) act: ActArgs,
    #[command(flatten)]
    wait: WaitArg,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    #[command(flatten)]
    pub(super) act: ActArgs,
    #[command(flatten)]
    wait: WaitArg,
    /// Begin with this task, in the same run; may be given several times [default: a new run]
    #[arg(long, value_name = "TASK")]
    from: Vec<String>,
    #[command(flatten)]
    inputs: InputArgs,
}

impl ActArgs {
    fn why(&self) -> Why {
        Why { by: self.by.clone(), reason: self.reason.clone() }
    }
}

pub(super) async fn cancel(app: &App<'_>, api: Connection, args: ActArgs) -> Result {
    let run = find_run(&api, &args.run).await?.to_string();
    let bytes = serde_json::to_vec(&args.why()).map_err(|error| Failure::failed(error.to_string()))?;
    let api = api.acting_as(args.by.as_deref());
    let content = Content { kind: "application/json", bytes };
    let answer = api.ask("POST", &["workflow-runs", &run, "cancel"], &[], Some(content), &[]).await?;
    // What has ended already needs no cancelling: that is no failure.
    if answer.status == 409 {
        let shown: Run = api.read(&["workflow-runs", &run], &[]).await?;
        if shown.finished_at.is_some() {
            print_run(app, &shown, &format!("had ended before: {}", shown.status));
            return Ok(Exit::Success);
        }
    }
    print_run(app, &answer.read()?, "is being cancelled");
    Ok(Exit::Success)
}

pub(super) async fn pause(app: &App<'_>, api: Connection, args: ActArgs) -> Result {
    let shown = act(api, &args, "pause").await?;
    print_run(app, &shown, "is paused; what runs goes on");
    Ok(Exit::Success)
}

pub(super) async fn resume(app: &App<'_>, api: Connection, args: ActArgs) -> Result {
    let shown = act(api, &args, "resume").await?;
    print_run(app, &shown, "goes on");
    Ok(Exit::Success)
}

pub(super) async fn retry(app: &App<'_>, api: Connection, args: RetryArgs) -> Result {
    let run = find_run(&api, &args.act.run).await?.to_string();
    let api = api.acting_as(args.act.by.as_deref());
    let shown: Run = api.write("POST", &["workflow-runs", &run, "retry"], &[], &args.act.why()).await?;
    match args.wait.wait {
        true => follow_run(app, api, shown.id).await,
        false => {
            tell_reopened(app, &shown);
            Ok(Exit::Success)
        }
    }
}

pub(super) async fn rerun(app: &App<'_>, api: Connection, args: RerunArgs) -> Result {
    let run = find_run(&api, &args.act.run).await?;
    let inputs = match args.inputs.is_empty() {
        true => None,
        false => Some(args.inputs.values(&workflow_of(&api, run).await?)?),
    };
    let is_new = args.from.is_empty();
    let body = Rerun {
        from: (!is_new).then_some(OneOrMany::Many(args.from)),
        inputs,
        by: args.act.by.clone(),
        reason: args.act.reason.clone(),
    };
    let api = api.acting_as(args.act.by.as_deref());
    let shown: Run = api.write("POST", &["workflow-runs", &run.to_string(), "rerun"], &[], &body).await?;
    match is_new {
        _ if args.wait.wait => return follow_run(app, api, shown.id).await,
        true => print_run(app, &shown, &format!("repeats run {run}")),
        false => tell_reopened(app, &shown),
    }
    Ok(Exit::Success)
}

/// The version of the workflow that a run is of, for the types of its inputs.
pub(crate) async fn workflow_of(api: &Connection, run: RunId) -> Result<mainspring_core::Workflow> {
    let shown: Run = api.read(&["workflow-runs", &run.to_string()], &[]).await?;
    let (id, number) = (shown.workflow_id.to_string(), shown.version.to_string());
    let version: Value = api.get(&["workflows", &id, "versions", &number], &[]).await?;
    mainspring_core::parse(version["source"].as_str().unwrap_or_default()).map_err(|_| {
        Failure::bad_input("the workflow of this run says something that this program does not know")
            .remedy("use the same version of mainspring as the server")
    })
}

/// Does something to a run and returns it as it is then.
async fn act(api: Connection, args: &ActArgs, action: &str) -> Result<Run> {
    let run = find_run(&api, &args.run).await?.to_string();
    let api = api.acting_as(args.by.as_deref());
    api.write("POST", &["workflow-runs", &run, action], &[], &args.why()).await
}

fn tell_reopened(app: &App<'_>, shown: &Run) {
    let words = match shown.reopened_tasks {
        Some(1) => "does 1 task again".to_owned(),
        Some(tasks) => format!("does {tasks} tasks again"),
        None => "goes on".to_owned(),
    };
    print_run(app, shown, &words);
}

/// What was done, in words, or the run as it is now.
fn print_run(app: &App<'_>, shown: &Run, words: &str) {
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("run {} {words}", shown.id)),
        format => app.out.value(format, &views::shown_run(shown)),
    }
}
