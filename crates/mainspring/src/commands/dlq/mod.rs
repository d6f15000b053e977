//! `mainspring dlq`: what needs a person, and what is done about it.

mod act;
mod look;

use clap::{Args, Subcommand};

use super::jobs::record;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::ids::require_id;

use act::{act, send, update};
pub(crate) use look::{StaleArgs, stale};
use look::{detect, get, groups, list, queue, stats};

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters, newest first
    List(ListArgs),
    /// Show a dead letter with its error, its last log lines and its context
    #[command(alias = "show")]
    Get {
        /// The id of an entry, a run or a task run, the beginning of one, or @last for the newest run
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Group dead letters by cause
    Groups(ListArgs),
    /// List what to look at first
    Queue(ListArgs),
    /// Count dead letters by status and reason
    Stats,
    /// Run the task again: of one entry, or of every entry of one cause
    Retry(RetryArgs),
    /// Leave the task out; its run goes on as if it had succeeded
    Skip(ActArgs),
    /// Count the task as done by hand; its run goes on
    Resolve(ActArgs),
    /// Edit the record of an entry; its run is not touched
    Update(UpdateArgs),
    /// Send a run or one of its tasks to the dead letters by hand
    Send(SendArgs),
    /// Look for stale runs now
    Detect {
        /// Only say what would be given up
        #[arg(long)]
        dry_run: bool,
    },
    /// Show how far a batch has come
    Batch {
        /// The id of the batch, as `retry`, `skip` and `resolve` print it
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// pending, retried, skipped, resolved, permanent_failure or cancelled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// staleness_timeout, max_retries_exceeded, dependency_cycle_detected, worker_unavailable, poison_pill or manual_dlq
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// Of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Of one cause, as `dlq groups` shows it
    #[arg(long, value_name = "FINGERPRINT")]
    group: Option<String>,
    #[arg(long, value_name = "N", default_value = "20")]
    limit: String,
}

#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// The id of an entry, a run or a task run, the beginning of one, or @last for the newest run
    #[arg(value_name = "ID", required_unless_present_any = ["group", "workflow"])]
    id: Option<String>,
    /// Every pending entry of this cause instead of one entry
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "id")]
    group: Option<String>,
    /// Every pending entry of this workflow instead of one entry
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    workflow: Option<String>,
    /// Only say what would be acted on
    #[arg(long)]
    dry_run: bool,
    /// Return at once instead of waiting for the end of a batch
    #[arg(long)]
    no_wait: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", alias = "notes")]
    reason: Option<String>,
    /// Who acts [default: who asks]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    act: ActArgs,
    /// As a new run of the task alone, with the same inputs
    #[arg(long)]
    new_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The id of an entry, a run or a task run, the beginning of one, or @last for the newest run
    #[arg(value_name = "ID")]
    id: String,
    /// pending, retried, skipped, resolved, permanent_failure or cancelled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Anything, as JSON
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    run: String,
    /// The task; the whole run unless given
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Why it needs a person
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn dlq(app: &App<'_>, command: DlqCommand) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    match command {
        DlqCommand::List(args) => list(app, &api, &args).await,
        DlqCommand::Get { id } => get(app, &api, &id).await,
        DlqCommand::Groups(args) => groups(app, &api, &args).await,
        DlqCommand::Queue(args) => queue(app, &api, &args).await,
        DlqCommand::Stats => stats(app, &api).await,
        DlqCommand::Retry(args) => {
            let action = if args.new_run { "retry_as_new_run" } else { "retry" };
            act(app, &api, &args.act, action).await
        }
        DlqCommand::Skip(args) => act(app, &api, &args, "skip").await,
        DlqCommand::Resolve(args) => act(app, &api, &args, "resolve").await,
        DlqCommand::Update(args) => update(app, &api, &args).await,
        DlqCommand::Send(args) => send(app, &api, &args).await,
        DlqCommand::Detect { dry_run } => detect(app, &api, dry_run).await,
        DlqCommand::Batch { id } => {
            require_id("batch", &id, "`mainspring dlq retry --group F` prints it")?;
            record(app, &api.get(&["dlq", "batches", &id], &[]).await?);
            Ok(Exit::Success)
        }
    }
}
