//! `mainspring submit`: stores a workflow and starts a run that servers execute.

use std::sync::Arc;

use clap::Args;
use mainspring_core::workflow::MAX_PRIORITY;

use super::start::{Start, require_text, start};
use super::stored::Loaded;
use crate::api::{Connection, strange};
use crate::app::App;
use crate::failure::Result;
use crate::inputs::InputArgs;
use crate::progress::Plan;
use crate::signals::Signals;

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The workflow file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    inputs: InputArgs,
    /// Follow the run to its end; the exit code tells how it went
    #[arg(long)]
    wait: bool,
    /// The same key again is the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// low, medium, high, critical, or 0 (last) to 1000 (first)
    #[arg(long, value_name = "PRIORITY", value_parser = parse_priority)]
    priority: Option<i16>,
    /// A name of yours by which the run can be found
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

fn parse_priority(text: &str) -> std::result::Result<i16, String> {
    match text {
        "low" => Ok(250),
        "medium" => Ok(500),
        "high" => Ok(750),
        "critical" => Ok(MAX_PRIORITY),
        _ => text
            .parse()
            .ok()
            .filter(|number| (0..=MAX_PRIORITY).contains(number))
            .ok_or_else(|| format!("write low, medium, high, critical, or a number from 0 to {MAX_PRIORITY}")),
    }
}

pub(crate) async fn submit(app: &App<'_>, args: SubmitArgs) -> Result {
    app.start_logs();
    require_text("idempotency-key", args.idempotency_key.as_ref())?;
    require_text("correlation-id", args.correlation_id.as_ref())?;
    let mut loaded = Loaded::read(app, &args.file)?;
    let inputs = args.inputs.values(&loaded.workflow)?;
    let mut signals = Signals::install()?;
    let api = Connection::open(app).await?;
    loaded.settle(&api);
    let shown = loaded.store(&api, &[]).await?.value()?;
    let (Some(id), Some(version)) = (shown["id"].as_str(), shown["version"].as_i64()) else { return Err(strange()) };
    let run = Start {
        workflow: id.to_owned(),
        version,
        plan: Plan::Read(Arc::new(loaded.workflow)),
        inputs,
        at: None,
        priority: args.priority,
        correlation_id: args.correlation_id,
        idempotency_key: args.idempotency_key,
    };
    start(app, api, run, args.wait, &mut signals).await
}
