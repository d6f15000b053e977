//! `mainspring events`: announce that something happened.

use clap::{Args, Subcommand};
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_engine::{AnswerError, NewEvent};
use serde_json::{Value, json};

use crate::app::{App, require_name};
use crate::database;
use crate::failure::{Exit, Failure, Result};
use crate::output::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Announce an event; tasks that wait for it go on
    Emit(EmitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EmitArgs {
    /// The event's name, like order.imported
    #[arg(value_name = "NAME")]
    name: String,
    /// What it carries, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    data: String,
    /// What waiting tasks compare with their own key [default: `key` of the data]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(crate) async fn events(app: &App<'_>, command: EventsCommand) -> Result {
    app.start_logs();
    let EventsCommand::Emit(args) = command;
    require_name("event", &args.name)?;
    let data: Value = serde_json::from_str(&args.data).map_err(|error| {
        Failure::bad_input(format!("--data is not JSON: {error}")).remedy("write it like '{\"count\": 3}'")
    })?;
    let client = app.client(database::open(&app.config).await?);
    let event = NewEvent {
        namespace: app.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.into()),
        name: args.name.clone(),
        key: args.key,
        data,
        source: "cli".into(),
    };
    let id = match client.emit(event).await {
        Ok(receipt) => receipt.id,
        Err(AnswerError::Store(error)) => return Err(error.into()),
        Err(error) => return Err(Failure::bad_input(error.to_string())),
    };
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("event {} announced as {id}", args.name)),
        format => app.out.value(format, &json!({"id": id, "event_name": args.name})),
    }
    Ok(Exit::Success)
}
