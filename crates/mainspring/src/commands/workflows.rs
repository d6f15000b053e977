//! `mainspring workflows`: what is stored, its versions, switching it on and off.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Table, local_text};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// List workflows
    List {
        /// Only with this tag
        #[arg(long, value_name = "TAG")]
        tag: Option<String>,
        /// Only those whose name or description has this in it
        #[arg(long, value_name = "TEXT")]
        q: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::cli::limit)]
        limit: u16,
    },
    /// Show one
    #[command(alias = "show")]
    Get {
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
    },
    /// List the versions of one, the newest first
    Versions {
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
    },
    /// Resume one: its triggers fire
    #[command(alias = "activate")]
    Resume {
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
    },
    /// Pause one: its triggers do not fire; runs go on
    Pause {
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
    },
    /// Delete one with its ended runs; refused while runs are open
    Delete {
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
        /// Cancel its open runs first
        #[arg(long)]
        cancel: bool,
    },
}

pub(crate) async fn workflows(app: &App<'_>, command: WorkflowsCommand) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    let within = [("namespace", Some(api.namespace_or_default()))];
    match command {
        WorkflowsCommand::List { tag, q, limit } => {
            let limit = limit.to_string();
            let query = [
                ("namespace", api.namespace()),
                ("tag", tag.as_deref()),
                ("q", q.as_deref()),
                ("limit", Some(limit.as_str())),
            ];
            list(app, &api.get(&["workflows"], &query).await?);
        }
        WorkflowsCommand::Get { workflow } => show(app, &api.get(&["workflows", &workflow], &within).await?),
        WorkflowsCommand::Versions { workflow } => {
            versions(app, &api.get(&["workflows", &workflow, "versions"], &within).await?);
        }
        WorkflowsCommand::Resume { workflow } => switch(app, &api, &workflow, true).await?,
        WorkflowsCommand::Pause { workflow } => switch(app, &api, &workflow, false).await?,
        WorkflowsCommand::Delete { workflow, cancel } => {
            let query = [within[0], ("cancel", cancel.then_some("true"))];
            api.send("DELETE", &["workflows", &workflow], &query, None).await?;
            match app.out.record_format() {
                Format::Table => app.out.line(format_args!("workflow {workflow} is deleted")),
                format => app.out.value(format, &json!({"deleted": workflow})),
            }
        }
    }
    Ok(Exit::Success)
}

async fn switch(app: &App<'_>, api: &Connection, workflow: &str, active: bool) -> Result<()> {
    let query = [("namespace", Some(api.namespace_or_default()))];
    let body = json!({"is_active": active});
    let row = api.send("PATCH", &["workflows", workflow], &query, Some(&body)).await?;
    match app.out.record_format() {
        Format::Table if active => app.out.line(format_args!("workflow {workflow} is resumed: its triggers fire")),
        Format::Table => app.out.line(format_args!("workflow {workflow} is paused: its triggers do not fire")),
        format => app.out.value(format, &row),
    }
    Ok(())
}

fn list(app: &App<'_>, found: &Value) {
    let format = app.out.record_format();
    if format != Format::Table {
        return app.out.value(format, found);
    }
    let rows = items(found);
    if rows.is_empty() {
        return app.out.note("no workflows");
    }
    let mut table = Table::new(&["NAMESPACE", "NAME", "VERSION", "ACTIVE", "SCHEDULE", "UPDATED"]);
    for row in rows {
        let active = if row["is_active"] == true { "yes" } else { "no" };
        let cells = [
            text(row, "namespace"),
            text(row, "name"),
            row["version"].to_string(),
            active.to_owned(),
            text(row, "schedule_cron"),
            local_text(&text(row, "updated_at")),
        ];
        table.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    table.print(app.out);
    if found["next"].is_string() {
        app.out.note("there are more: raise --limit, or ask with --tag or --q");
    }
}

fn versions(app: &App<'_>, found: &Value) {
    let format = app.out.record_format();
    if format != Format::Table {
        return app.out.value(format, found);
    }
    let mut table = Table::new(&["VERSION", "CREATED"]);
    for row in items(found) {
        let cells = [row["version"].to_string(), local_text(&text(row, "created_at"))];
        table.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    table.print(app.out);
}

fn show(app: &App<'_>, shown: &Value) {
    let format = app.out.record_format();
    if format != Format::Table {
        return app.out.value(format, shown);
    }
    for (field, value) in shown.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        if value != "null" && value != "[]" && value != "{}" {
            app.out.line(format_args!("{:<16} {}", field.replace('_', " "), local_text(&value)));
        }
    }
}

fn items(found: &Value) -> &[Value] {
    found["items"].as_array().map_or(&[], Vec::as_slice)
}

fn text(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or_default().to_owned()
}
