//! `mainspring runs cancel|pause|resume|retry|rerun`.

use clap::Args;
use mainspring_core::RunId;
use mainspring_engine::Client;
use mainspring_store::{CancelOutcome, Operator, Reopen};
use serde_json::Value;

use super::logs::task_index;
use super::parse_run;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::Format;
use crate::views;

#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who acts [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    #[command(flatten)]
    pub(super) act: ActArgs,
    /// The task to begin with; may be given several times
    #[arg(long, required = true, value_name = "TASK")]
    from: Vec<String>,
}

impl ActArgs {
    fn resolve(self, app: &App<'_>) -> Result<(RunId, Operator)> {
        Ok((parse_run(&self.run)?, app.operator(self.by, self.reason)))
    }
}

pub(super) async fn cancel(app: &App<'_>, client: &Client, args: ActArgs) -> Result {
    let (id, operator) = args.resolve(app)?;
    let words = match client.cancel(id, &operator).await? {
        CancelOutcome::Cancelling => "is being cancelled".to_owned(),
        CancelOutcome::AlreadyEnded(state) => format!("had ended before: {state}"),
    };
    tell(app, client, id, &words).await
}

pub(super) async fn pause(app: &App<'_>, client: &Client, args: ActArgs) -> Result {
    let (id, operator) = args.resolve(app)?;
    client.pause(id, &operator).await?;
    tell(app, client, id, "is paused; what runs goes on").await
}

pub(super) async fn resume(app: &App<'_>, client: &Client, args: ActArgs) -> Result {
    let (id, operator) = args.resolve(app)?;
    client.resume(id, &operator).await?;
    tell(app, client, id, "goes on").await
}

pub(super) async fn retry(app: &App<'_>, client: &Client, args: ActArgs) -> Result {
    let (id, operator) = args.resolve(app)?;
    reopen(app, client, id, &Reopen::Failed, &operator).await
}

pub(super) async fn rerun(app: &App<'_>, client: &Client, args: RerunArgs) -> Result {
    let (id, operator) = args.act.resolve(app)?;
    let spec = client.spec(client.store().run_summary(id).await?.version).await?;
    let tasks: Result<Vec<usize>> = args.from.iter().map(|task| task_index(&spec.workflow, task)).collect();
    reopen(app, client, id, &Reopen::From(tasks?), &operator).await
}

async fn reopen(app: &App<'_>, client: &Client, id: RunId, what: &Reopen, operator: &Operator) -> Result {
    let reopened = client.reopen(id, what, operator).await?;
    let tasks = if reopened.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", reopened.tasks) };
    tell(app, client, id, &format!("does {tasks} again")).await
}

/// What was done, in words, or the run as it is now.
async fn tell(app: &App<'_>, client: &Client, id: RunId, words: &str) -> Result {
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("run {id} {words}")),
        format => {
            let run = client.store().run(id).await?;
            app.out.value(format, &Value::Object(views::run(&run)));
        }
    }
    Ok(Exit::Success)
}
