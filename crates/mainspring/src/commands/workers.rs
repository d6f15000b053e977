//! `mainspring workers`: who executes tasks.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Table, local_text};
use crate::views::text;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List workers: pools of nodes and remote workers
    List {
        /// Only those: active, draining or inactive [default: those that live]
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
    },
    /// Show one worker
    Get {
        /// Its id, or the number of its session
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Let a worker finish what it has and take no more
    Drain {
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(crate) async fn workers(app: &App<'_>, command: WorkersCommand) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    match command {
        WorkersCommand::List { status } => list(app, &api, status.as_deref()).await,
        WorkersCommand::Get { id } => {
            let worker = api.get(&["workers", &id], &[]).await?;
            show(app, &worker);
            Ok(Exit::Success)
        }
        WorkersCommand::Drain { id } => {
            let worker = api.send("POST", &["workers", &id, "drain"], &[], None).await?;
            match app.out.record_format() {
                Format::Table => app.out.line(format_args!("worker {} takes no more work", text(&worker, "id"))),
                format => app.out.value(format, &worker),
            }
            Ok(Exit::Success)
        }
    }
}

async fn list(app: &App<'_>, api: &Connection, status: Option<&str>) -> Result {
    let workers = api.all(&["workers"], &[("status", status)]).await?;
    match app.out.record_format() {
        Format::Table if workers.is_empty() => app.out.note("no workers"),
        Format::Table => {
            let mut table =
                Table::new(&["WORKER", "SESSION", "STATUS", "KIND", "SLOTS", "RUNNING", "QUEUES", "LAST HEARTBEAT"]);
            for worker in &workers {
                table.row(cells(worker).into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, &json!({"items": workers, "next": null})),
    }
    Ok(Exit::Success)
}

fn cells(worker: &Value) -> Vec<String> {
    let name = match worker["duplicate_id"] == true {
        true => format!("{} (not alone)", text(worker, "id")),
        false => text(worker, "id").to_owned(),
    };
    let kind = if worker["remote"] == true { "remote" } else { "node" };
    let queues: Vec<&str> = worker["queues"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let queues = if queues.is_empty() { "all".to_owned() } else { queues.join(",") };
    vec![
        name,
        worker["session_id"].to_string(),
        text(worker, "status").to_owned(),
        kind.to_owned(),
        slots(worker).to_string(),
        worker["running"].to_string(),
        queues,
        local_text(text(worker, "last_heartbeat")),
    ]
}

/// Processes at once; a worker that executes none is measured by the functions that it executes.
fn slots(worker: &Value) -> i64 {
    let of = |key: &str| worker[key].as_i64().filter(|slots| *slots > 0);
    of("slots").or_else(|| of("remote_slots")).or_else(|| of("function_slots")).unwrap_or(0)
}

fn show(app: &App<'_>, worker: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["FIELD", "VALUE"]);
            for (field, value) in worker.as_object().into_iter().flatten() {
                let value = value.as_str().map_or_else(|| value.to_string(), local_text);
                table.row(vec![(field.clone(), None), (value, None)]);
            }
            table.print(app.out);
        }
        format => app.out.value(format, worker),
    }
}
