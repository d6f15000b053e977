//! `mainspring trigger`: starts a run of a workflow that is stored already.

use clap::Args;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_engine::Submission;
use mainspring_store::Error;

use super::submit;
use crate::app::App;
use crate::database;
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
    /// The same key again is the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// A name of yours by which the run can be found
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

pub(crate) async fn trigger(app: &App<'_>, args: TriggerArgs) -> Result {
    app.start_logs();
    for (flag, text) in [("idempotency-key", &args.idempotency_key), ("correlation-id", &args.correlation_id)] {
        if let Some(text) = text {
            submit::require_text(flag, text)?;
        }
    }
    let mut signals = Signals::install()?;
    let client = app.client(database::open(&app.config).await?);
    let namespace = app.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let spec = match client.latest(namespace, &args.name).await {
        Ok(spec) => spec,
        Err(Error::NotFound { what }) => {
            return Err(Failure::bad_input(format!("there is no {what}"))
                .remedy("store it with `mainspring apply FILE`, or name another with --namespace"));
        }
        Err(error) => return Err(error.into()),
    };
    let submission = Submission {
        inputs: args.inputs.values(&spec.workflow)?,
        correlation_id: args.correlation_id,
        idempotency_key: args.idempotency_key,
        ..Submission::default()
    };
    submit::start(app, &client, spec, submission, args.follow, &mut signals).await
}
