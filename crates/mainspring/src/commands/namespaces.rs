//! `mainspring namespaces`: tenants and their quotas.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum NamespacesCommand {
    /// List namespaces
    List,
    /// Show one
    #[command(alias = "show")]
    Get {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Create one
    Create(Wanted),
    /// Change quotas or description
    Set(Wanted),
    /// Remove one
    Delete {
        #[arg(value_name = "NAME")]
        name: String,
        /// With everything in it
        #[arg(long)]
        cascade: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Wanted {
    #[arg(value_name = "NAME")]
    name: String,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// How many runs may be open at once: a number, or `unlimited`
    #[arg(long, value_name = "N")]
    max_open_runs: Option<String>,
    /// How many workflows there may be: a number, or `unlimited`
    #[arg(long, value_name = "N")]
    max_workflows: Option<String>,
}

impl Wanted {
    fn body(&self) -> Result<Map<String, Value>> {
        let mut body = Map::new();
        if let Some(description) = &self.description {
            body.insert("description".into(), description.clone().into());
        }
        let quotas = [("max_open_runs", &self.max_open_runs), ("max_workflows", &self.max_workflows)];
        for (name, word) in quotas {
            let Some(word) = word else { continue };
            let value = match (word.as_str(), word.parse::<u32>()) {
                ("unlimited", _) => Value::Null,
                (_, Ok(number)) => number.into(),
                (_, Err(_)) => {
                    return Err(Failure::bad_input(format!("--{} is `{word}`", name.replace('_', "-")))
                        .remedy("write a whole number, or `unlimited`"));
                }
            };
            body.insert(name.into(), value);
        }
        Ok(body)
    }
}

pub(crate) async fn namespaces(app: &App<'_>, command: NamespacesCommand) -> Result {
    app.start_logs();
    let api = match &command {
        NamespacesCommand::Create(_) => Connection::open(app).await?,
        _ => Connection::open_existing(app).await?,
    };
    let shown = match command {
        NamespacesCommand::List => api.get(&["namespaces"], &[("limit", Some("500"))]).await?,
        NamespacesCommand::Get { name } => api.get(&["namespaces", &name], &[]).await?,
        NamespacesCommand::Create(wanted) => {
            let mut body = wanted.body()?;
            body.insert("name".into(), wanted.name.clone().into());
            api.send("POST", &["namespaces"], &[], Some(&Value::Object(body))).await?
        }
        NamespacesCommand::Set(wanted) => {
            api.send("PATCH", &["namespaces", &wanted.name], &[], Some(&Value::Object(wanted.body()?))).await?
        }
        NamespacesCommand::Delete { name, cascade } => {
            let query = [("cascade", cascade.then_some("true"))];
            api.send("DELETE", &["namespaces", &name], &query, None).await?;
            app.out.note(format_args!("namespace {name} is deleted"));
            return Ok(Exit::Success);
        }
    };
    show(app, &shown);
    Ok(Exit::Success)
}

fn show(app: &App<'_>, shown: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["NAME", "OPEN RUNS AT MOST", "WORKFLOWS AT MOST", "DESCRIPTION"]);
            let one = [shown.clone()];
            let rows = shown["items"].as_array().map_or(&one[..], Vec::as_slice);
            for row in rows {
                let quota = |field: &str| row[field].as_i64().map_or("unlimited".to_owned(), |most| most.to_string());
                let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
                let cells = [text("name"), quota("max_open_runs"), quota("max_workflows"), text("description")];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, shown),
    }
}
