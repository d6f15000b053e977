//! `mainspring runs`: look at runs and change their course.

mod act;
mod artifacts;
mod list;
mod logs;
mod show;

use clap::Subcommand;
use mainspring_api::List;
use mainspring_api::runs::TaskRun;

use crate::api::{Connection, PAGE, strange};
use crate::app::App;
use crate::failure::Result;
use crate::ids::{check_run, find_run};

pub(crate) use act::workflow_of;

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List(list::ListArgs),
    /// Show one run with its tasks
    #[command(alias = "show")]
    Get {
        /// The run: its id, the beginning of it, or @last
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Print what the tasks of a run printed
    Logs(logs::LogsArgs),
    /// List the files that its tasks left, or write one of them
    Artifacts(artifacts::ArtifactsArgs),
    /// Cancel a run: nothing more starts, what runs is killed. A second time calls off its finalisers
    Cancel(act::ActArgs),
    /// Start nothing more of a run; what runs goes on
    Pause(act::ActArgs),
    /// Let a paused run go on
    Resume(act::ActArgs),
    /// Do what failed again, in the same run
    Retry(act::RetryArgs),
    /// Do an ended run again: as a new run, or from a task on in the same run
    Rerun(act::RerunArgs),
}

pub(crate) async fn runs(app: &App<'_>, command: RunsCommand) -> Result {
    app.start_logs();
    // What can be refused without asking a server or a database is.
    if let Some(run) = command.run() {
        check_run(run)?;
    }
    if let RunsCommand::List(args) = &command {
        args.check(0)?;
    }
    let api = Connection::open_existing(app).await?;
    match command {
        RunsCommand::List(args) => list::list(app, api, args).await,
        RunsCommand::Get { run } => {
            let run = find_run(&api, &run).await?;
            show::show(app, api, run).await
        }
        RunsCommand::Logs(args) => logs::logs(app, api, args).await,
        RunsCommand::Artifacts(args) => {
            let run = find_run(&api, &args.run).await?;
            artifacts::artifacts(app, api, run, args).await
        }
        RunsCommand::Cancel(args) => act::cancel(app, api, args).await,
        RunsCommand::Pause(args) => act::pause(app, api, args).await,
        RunsCommand::Resume(args) => act::resume(app, api, args).await,
        RunsCommand::Retry(args) => act::retry(app, api, args).await,
        RunsCommand::Rerun(args) => act::rerun(app, api, args).await,
    }
}

impl RunsCommand {
    fn run(&self) -> Option<&str> {
        match self {
            Self::List(_) => None,
            Self::Get { run } => Some(run),
            Self::Logs(args) => Some(&args.run),
            Self::Artifacts(args) => Some(&args.run),
            Self::Cancel(args) | Self::Pause(args) | Self::Resume(args) => Some(&args.run),
            Self::Retry(args) => Some(&args.act.run),
            Self::Rerun(args) => Some(&args.act.run),
        }
    }
}

/// The task runs of a run. Each says what it waits for, unless there are very many: that is worked out from all of them
/// for every page.
pub(super) async fn task_runs(api: &Connection, run: &str) -> Result<Vec<TaskRun>> {
    let query = [("limit", Some(PAGE))];
    let page: List<TaskRun> = api.read(&["workflow-runs", run, "tasks"], &query).await?;
    match page.next {
        None => Ok(page.items),
        Some(_) => {
            let all = api.all(&["task-runs"], &[("run", Some(run))]).await?;
            all.into_iter().map(|row| serde_json::from_value(row).map_err(|_| strange())).collect()
        }
    }
}
