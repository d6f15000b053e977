//! `mainspring trigger`: starts a run of a workflow that is stored already.

use clap::Args;

use super::start::{Start, StartArgs, start};
use super::stored;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Failure, Result};
use crate::signals::Signals;

#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    /// The workflow's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    start: StartArgs,
}

pub(crate) async fn trigger(app: &App<'_>, args: TriggerArgs) -> Result {
    app.start_logs();
    args.start.check()?;
    let mut signals = Signals::install()?;
    let api = Connection::open_existing(app).await?;
    let namespace = api.namespace_or_default();
    let Some(stored) = stored::find(&api, namespace, &args.name).await? else {
        let missing = format!("there is no workflow `{}` in namespace `{namespace}`", args.name);
        let remedy = match stored::similar(&api, namespace, &args.name).await {
            Some(near) => near,
            None => "store it with `mainspring apply FILE`, or name another with --namespace".to_owned(),
        };
        return Err(Failure::bad_input(missing).remedy(remedy));
    };
    let run = Start {
        workflow: stored.id,
        version: stored.number,
        inputs: args.start.inputs.values(&stored.plan)?,
        plan: stored.plan,
    };
    start(app, api, run, args.start, &mut signals).await
}
