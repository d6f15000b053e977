//! `mainspring calendars`: days and windows on which schedules do not fire.

use clap::Subcommand;
use serde_json::Value;

use super::schedules::text;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result, cause};
use crate::output::{Format, Table, local_text};

const LARGEST: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum CalendarsCommand {
    /// List calendars
    List,
    /// Show one
    #[command(alias = "show")]
    Get {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Create or replace one; the schedules that name it are computed anew
    #[command(alias = "create")]
    Set {
        #[arg(value_name = "NAME")]
        name: String,
        /// JSON: {"timezone", "days", "weekdays", "windows", "action"}; `-` is standard input
        #[arg(value_name = "FILE")]
        file: String,
    },
    /// Remove one that no schedule names
    Delete {
        #[arg(value_name = "NAME")]
        name: String,
    },
}

pub(crate) async fn calendars(app: &App<'_>, command: CalendarsCommand) -> Result {
    app.start_logs();
    let api = match &command {
        CalendarsCommand::Set { .. } => Connection::open(app).await?,
        _ => Connection::open_existing(app).await?,
    };
    let namespace = api.namespace_or_default().to_owned();
    let query = [("namespace", Some(namespace.as_str()))];
    match command {
        CalendarsCommand::List => {
            let query = [query[0], ("limit", Some("500"))];
            let found = api.get(&["calendars"], &query).await?;
            list(app, &found);
        }
        CalendarsCommand::Get { name } => show(app, &api.get(&["calendars", &name], &query).await?),
        CalendarsCommand::Set { name, file } => {
            let body = read(&file)?;
            let made = api.send("PUT", &["calendars", &name], &query, Some(&body)).await?;
            match app.out.record_format() {
                Format::Table => app.out.line(format_args!("calendar {namespace}/{name} is set")),
                format => app.out.value(format, &made),
            }
        }
        CalendarsCommand::Delete { name } => {
            api.send("DELETE", &["calendars", &name], &query, None).await?;
            app.out.note(format_args!("calendar {namespace}/{name} is deleted"));
        }
    }
    Ok(Exit::Success)
}

fn read(file: &str) -> Result<Value> {
    use std::io::Read;
    let unreadable = |error: std::io::Error| Failure::bad_input(format!("{file}: {}", cause(&error)));
    let mut text = String::new();
    if file == "-" {
        std::io::stdin().lock().take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
    } else {
        std::fs::File::open(file).map_err(unreadable)?.take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
    }
    serde_json::from_str(&text).map_err(|error| {
        Failure::bad_input(format!("{file} is not JSON: {error}"))
            .remedy("write it like {\"days\": [\"2026-12-25\"], \"weekdays\": [\"sat\", \"sun\"]}")
    })
}

fn list(app: &App<'_>, found: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let rows = found["items"].as_array().map_or(&[][..], Vec::as_slice);
            if rows.is_empty() {
                app.out.note("no calendars");
                return;
            }
            let mut table = Table::new(&["NAMESPACE", "CALENDAR", "TIMEZONE", "DAYS", "WEEKDAYS", "WINDOWS", "ACTION"]);
            for row in rows {
                let count = |field: &str| row[field].as_array().map_or(0, Vec::len).to_string();
                let weekdays: Vec<&str> =
                    row["weekdays"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let weekdays = if weekdays.is_empty() { "-".to_owned() } else { weekdays.join(",") };
                let cells = [
                    text(row, "namespace"),
                    text(row, "name"),
                    text(row, "timezone"),
                    count("days"),
                    weekdays,
                    count("windows"),
                    text(row, "action"),
                ];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, found),
    }
}

fn show(app: &App<'_>, row: &Value) {
    match app.out.record_format() {
        Format::Table => {
            for (field, value) in row.as_object().into_iter().flatten() {
                let items: Vec<String> = match value {
                    Value::String(at) if field.ends_with("_at") => vec![local_text(at)],
                    Value::Array(items) if items.is_empty() => continue,
                    Value::Array(items) => items.iter().map(shown).collect(),
                    other => vec![shown(other)],
                };
                app.out.line(format_args!("{:<12} {}", field.replace('_', " "), items.join(", ")));
            }
        }
        format => app.out.value(format, row),
    }
}

fn shown(value: &Value) -> String {
    match (value["from"].as_str(), value["to"].as_str(), value.as_str()) {
        (Some(from), Some(to), _) => format!("{from} to {to}"),
        (_, _, Some(text)) => text.to_owned(),
        _ => value.to_string(),
    }
}
