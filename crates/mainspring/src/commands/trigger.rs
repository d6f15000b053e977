//! `mainspring trigger`: starts a run of a workflow that is stored already.

use clap::Args;

use super::start::{Start, require_text, start};
use super::stored;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Failure, Result};
use crate::inputs::InputArgs;
use crate::signals::Signals;

#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    /// The workflow's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    inputs: InputArgs,
    /// Follow the run to its end; the exit code tells how it went
    #[arg(short, long)]
    follow: bool,
    /// Start it then, like 2026-01-31T08:00:00+01:00; at once if that has passed
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The same key again is the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// A name of yours by which the run can be found
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

pub(crate) async fn trigger(app: &App<'_>, args: TriggerArgs) -> Result {
    app.start_logs();
    require_text("idempotency-key", args.idempotency_key.as_ref())?;
    require_text("correlation-id", args.correlation_id.as_ref())?;
    let mut signals = Signals::install()?;
    let api = Connection::open_existing(app).await?;
    let namespace = api.namespace_or_default();
    let Some(stored) = stored::find(&api, namespace, &args.name).await? else {
        let missing = format!("there is no workflow `{}` in namespace `{namespace}`", args.name);
        return Err(Failure::bad_input(missing)
            .remedy("store it with `mainspring apply FILE`, or name another with --namespace"));
    };
    let run = Start {
        workflow: stored.id,
        version: stored.number,
        inputs: args.inputs.values(&stored.plan)?,
        plan: stored.plan,
        at: args.at,
        priority: None,
        correlation_id: args.correlation_id,
        idempotency_key: args.idempotency_key,
    };
    start(app, api, run, args.follow, &mut signals).await
}
