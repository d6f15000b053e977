//! `mainspring handlers`: what is done whenever an event is announced.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::jobs::{parse_json, record, text};
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::ids::{find_among, short_length, shortened};
use crate::output::{Format, Table};

const PATH: &str = "event-handlers";

#[derive(Debug, Subcommand)]
pub(crate) enum HandlersCommand {
    /// List event handlers
    List {
        /// Of this event only, as the handler has it
        #[arg(long, value_name = "NAME")]
        event: Option<String>,
    },
    /// Create an event handler
    Create(CreateArgs),
    /// Show an event handler with its statistics
    #[command(alias = "show")]
    Get(HandlerArg),
    /// Resume an event handler
    #[command(alias = "enable")]
    Resume(HandlerArg),
    /// Pause an event handler: it does nothing until it is resumed
    #[command(alias = "disable")]
    Pause(HandlerArg),
    /// Remove an event handler
    Delete(HandlerArg),
}

#[derive(Debug, Args)]
pub(crate) struct HandlerArg {
    /// The id of the handler, or the beginning of it
    #[arg(value_name = "ID")]
    id: String,
}

impl HandlerArg {
    async fn find(&self, api: &Connection) -> Result<String> {
        find_among(api, &["scheduler", PATH], "event handler", &self.id).await
    }
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The event; a `*` at its end stands for any rest
    #[arg(value_name = "EVENT")]
    event: String,
    /// The function, agent or workflow
    #[arg(long, value_name = "HANDLER")]
    handler: String,
    /// create_job, trigger_workflow or dispatch_agent
    #[arg(long, value_name = "ACTION")]
    action: String,
    /// How it is done, as JSON: inputs of a workflow, payload and fields of a job
    #[arg(long, value_name = "JSON", default_value = "{}")]
    action_config: String,
    /// Higher ones come first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Handle the events of all namespaces
    #[arg(long)]
    global: bool,
    /// Create it paused
    #[arg(long)]
    disabled: bool,
}

pub(crate) async fn handlers(app: &App<'_>, command: HandlersCommand) -> Result {
    app.start_logs();
    let api = match command {
        HandlersCommand::Create(_) => Connection::open(app).await?,
        _ => Connection::open_existing(app).await?,
    };
    match command {
        HandlersCommand::List { event } => {
            let query = [("namespace", api.namespace()), ("event_name", event.as_deref()), ("limit", Some("500"))];
            list(app, &api.get(&["scheduler", PATH], &query).await?);
        }
        HandlersCommand::Create(args) => create(app, &api, &args).await?,
        HandlersCommand::Get(arg) => {
            let id = arg.find(&api).await?;
            record(app, &api.get(&["scheduler", PATH, &id], &[]).await?);
        }
        HandlersCommand::Resume(arg) => switch(app, &api, &arg.find(&api).await?, true).await?,
        HandlersCommand::Pause(arg) => switch(app, &api, &arg.find(&api).await?, false).await?,
        HandlersCommand::Delete(arg) => {
            let id = arg.find(&api).await?;
            api.send("DELETE", &["scheduler", PATH, &id], &[], None).await?;
            match app.out.record_format() {
                Format::Table => app.out.line(format_args!("handler {id} is deleted")),
                format => app.out.value(format, &json!({"id": id, "deleted": true})),
            }
        }
    }
    Ok(Exit::Success)
}

async fn create(app: &App<'_>, api: &Connection, args: &CreateArgs) -> Result<()> {
    let mut body = json!({
        "event_name": args.event,
        "handler_name": args.handler,
        "action_type": args.action,
        "action_config": parse_json("--action-config", &args.action_config)?,
        "priority": args.priority,
        "enabled": !args.disabled,
    });
    match (args.global, api.namespace()) {
        (true, _) => body["global"] = true.into(),
        (false, Some(namespace)) => body["namespace"] = namespace.into(),
        (false, None) => {}
    }
    let made = api.send("POST", &["scheduler", PATH], &[], Some(&body)).await?;
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("handler {} was created for {}", text(&made, "id"), args.event)),
        format => app.out.value(format, &made),
    }
    Ok(())
}

async fn switch(app: &App<'_>, api: &Connection, id: &str, on: bool) -> Result<()> {
    let changed = api.send("PATCH", &["scheduler", PATH, id], &[], Some(&json!({"enabled": on}))).await?;
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("handler {id} is {}", if on { "resumed" } else { "paused" })),
        format => app.out.value(format, &changed),
    }
    Ok(())
}

fn list(app: &App<'_>, found: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let rows = found["items"].as_array().map_or(&[][..], Vec::as_slice);
            if rows.is_empty() {
                app.out.note("no event handlers");
                return;
            }
            const HEADS: &[&str] =
                &["ID", "NAMESPACE", "EVENT", "ACTION", "HANDLER", "ON", "PRIORITY", "EVENTS", "SUCCESSES", "FAILURES"];
            let keys = [
                "id",
                "namespace",
                "event_name",
                "action_type",
                "handler_name",
                "enabled",
                "priority",
                "trigger_count",
                "success_count",
                "failure_count",
            ];
            let mut table = Table::new(HEADS);
            let ids: Vec<String> = rows.iter().map(|row| text(row, "id")).collect();
            let length = short_length(ids.iter().map(String::as_str));
            for row in rows {
                let cell = |key: &&str| match *key {
                    "id" => shortened(&text(row, key), length).to_owned(),
                    key => text(row, key),
                };
                table.row(keys.iter().map(|key| (cell(key), None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, found),
    }
}
