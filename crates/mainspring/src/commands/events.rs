//! `mainspring events`: announce that something happened.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::jobs::{parse_json, text};
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::ids::{SHORT, shortened};
use crate::output::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Announce an event: tasks that wait for it go on, handlers and triggers start what they start
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
    let data = parse_json("--data", &args.data)?;
    let api = Connection::open(app).await?;
    let mut body = json!({"event_name": args.name, "data": data});
    if let Some(key) = &args.key {
        body["key"] = key.clone().into();
    }
    if let Some(namespace) = api.namespace() {
        body["namespace"] = namespace.into();
    }
    let announced = api.send("POST", &["scheduler", "events", "trigger"], &[], Some(&body)).await?;
    match app.out.record_format() {
        Format::Table => print_announced(app, &api, &args.name, &announced).await,
        format => app.out.value(format, &announced),
    }
    Ok(Exit::Success)
}

/// What an event has started.
async fn print_announced(app: &App<'_>, api: &Connection, name: &str, announced: &Value) {
    app.out.line(format_args!("event {name} was announced as {}", text(announced, "id")));
    for delivery in announced["deliveries"].as_array().into_iter().flatten() {
        let made = match (delivery["run_id"].as_str(), delivery["job_id"].as_str()) {
            (Some(run), _) => format!(" run {run}"),
            (_, Some(job)) => format!(" job {job}"),
            _ => delivery["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default(),
        };
        let listener = listener(api, &text(delivery, "listener")).await;
        app.out.line(format_args!("  {listener} {}{made}", text(delivery, "outcome")));
    }
}

/// What an event was delivered to, as people know it: a trigger of a workflow, or a handler.
async fn listener(api: &Connection, id: &str) -> String {
    if let Ok(trigger) = api.get(&["schedules", id], &[]).await {
        return format!("trigger {}/{}", text(&trigger, "workflow"), text(&trigger, "name"));
    }
    match api.get(&["scheduler", "event-handlers", id], &[]).await {
        Ok(handler) => format!("handler {} for {}", shortened(id, SHORT), text(&handler, "handler_name")),
        Err(_) => id.to_owned(),
    }
}
