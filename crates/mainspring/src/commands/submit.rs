//! `mainspring submit`: stores a workflow and starts a run that servers execute.

mod batch;

use std::sync::Arc;

use clap::Args;

use super::start::{Start, StartArgs, start};
use super::stored::Loaded;
use crate::api::{Connection, strange};
use crate::app::App;
use crate::failure::Result;
use crate::progress::Plan;
use crate::signals::Signals;

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The workflow file; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "batch")]
    file: Option<String>,
    /// Start many runs of stored workflows: one JSON object per line like {"workflow": "etl", "inputs": {}}, or a list of
    /// them; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "wait", "idempotency_key", "priority", "correlation_id"])]
    batch: Option<String>,
    #[command(flatten)]
    start: StartArgs,
}

pub(crate) async fn submit(app: &App<'_>, args: SubmitArgs) -> Result {
    app.start_logs();
    if let Some(batch) = &args.batch {
        return batch::submit(app, batch).await;
    }
    args.start.check()?;
    let mut loaded = Loaded::read(app, args.file.as_deref().unwrap_or("-"))?;
    let inputs = args.start.inputs.values(&loaded.workflow)?;
    let mut signals = Signals::install()?;
    let api = Connection::open(app).await?;
    loaded.settle(&api);
    let shown = loaded.store(&api, &[]).await?.value()?;
    let (Some(id), Some(version)) = (shown["id"].as_str(), shown["version"].as_i64()) else { return Err(strange()) };
    let run = Start { workflow: id.to_owned(), version, plan: Plan::Read(Arc::new(loaded.workflow)), inputs };
    start(app, api, run, args.start, &mut signals).await
}
