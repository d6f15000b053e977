//! `mainspring notifications`: messages that went out or could not, and who gets those of a namespace.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};
use crate::views::text;

#[derive(Debug, Subcommand)]
pub(crate) enum NotificationsCommand {
    /// List messages, newest first, with why some could not be sent
    List {
        /// Only these
        #[arg(long, value_enum, value_name = "STATUS")]
        status: Option<Status>,
        /// How many
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: u16,
    },
    /// Show who gets a message when something goes wrong in the namespace
    Targets,
    /// Set who gets a message when something goes wrong in the namespace, from a YAML or JSON file
    Set {
        /// A list like `notifications:` of a workflow; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Status {
    Waiting,
    Sent,
    GivenUp,
    InDigest,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::GivenUp => "given_up",
            Self::InDigest => "in_digest",
        }
    }
}

pub(crate) async fn notifications(app: &App<'_>, command: NotificationsCommand) -> Result {
    app.start_logs();
    match command {
        NotificationsCommand::List { status, limit } => list(app, status, limit).await,
        NotificationsCommand::Targets => {
            let api = Connection::open_existing(app).await?;
            let shown = api.get(&["namespaces", api.namespace_or_default(), "notifications"], &[]).await?;
            targets(app, &shown);
            Ok(Exit::Success)
        }
        NotificationsCommand::Set { file } => {
            let body = json!({"notifications": read(&file)?});
            let api = Connection::open(app).await?;
            let path = ["namespaces", api.namespace_or_default(), "notifications"];
            targets(app, &api.send("PUT", &path, &[], Some(&body)).await?);
            Ok(Exit::Success)
        }
    }
}

async fn list(app: &App<'_>, status: Option<Status>, limit: u16) -> Result {
    let api = Connection::open_existing(app).await?;
    let limit = limit.to_string();
    let query = [("namespace", api.namespace()), ("status", status.map(Status::word)), ("limit", Some(limit.as_str()))];
    let page = api.get(&["notifications"], &query).await?;
    let items = page["items"].as_array().map_or(&[][..], Vec::as_slice);
    match app.out.record_format() {
        Format::Table if items.is_empty() => app.out.note("no notifications"),
        Format::Table => {
            let mut table = Table::new(&["CREATED", "WORKFLOW", "EVENT", "CHANNEL", "STATUS", "ATTEMPTS", "ERROR"]);
            for one in items {
                let attempts = one["attempts"].to_string();
                let words =
                    ["created_at", "workflow", "event", "channel", "status"].map(|key| text(one, key).to_owned());
                let cells = words.into_iter().chain([attempts, text(one, "error").to_owned()]);
                table.row(cells.map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, &page),
    }
    Ok(Exit::Success)
}

fn targets(app: &App<'_>, shown: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let all = shown["notifications"].as_array().map_or(&[][..], Vec::as_slice);
            if all.is_empty() {
                app.out.note("the namespace has no notifications of its own");
            }
            for one in all {
                app.out.line(one);
            }
        }
        format => app.out.value(format, shown),
    }
}

/// The list in a file, by itself or under `notifications:`.
fn read(file: &std::path::Path) -> Result<Value> {
    let source = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let name = file.display();
    let source = source.map_err(|error| Failure::bad_input(format!("{name} cannot be read: {error}")))?;
    let parsed = mainspring_core::read_document(&source).map_err(|errors| {
        Failure::bad_input(errors.display(&name.to_string()).to_string())
            .remedy("write a list like the `notifications:` of a workflow")
    })?;
    let list = parsed.get("notifications").cloned().unwrap_or(parsed);
    match list.is_array() {
        true => Ok(list),
        false => Err(Failure::bad_input(format!("{name} holds no list"))
            .remedy("write a list like `- {on: [run_failed], webhook: \"https://…\"}`")),
    }
}
