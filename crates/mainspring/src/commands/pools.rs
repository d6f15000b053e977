//! `mainspring pools`: named limits on task runs, across workflows.

use clap::Subcommand;
use mainspring_core::diagnostic::quoted;
use serde_json::json;

use crate::api::Connection;
use crate::app::{App, require_name};
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};
use crate::views::text;

#[derive(Debug, Subcommand)]
pub(crate) enum PoolsCommand {
    /// Delete a pool that no workflow names
    Delete {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List pools and how much of each is in use
    List,
    /// Set how many task runs of a pool may go on at once
    #[command(alias = "create")]
    Set {
        #[arg(value_name = "NAME")]
        name: String,
        /// A number, or `unlimited`
        #[arg(long, value_name = "N")]
        slots: String,
    },
}

pub(crate) async fn pools(app: &App<'_>, command: PoolsCommand) -> Result {
    app.start_logs();
    match command {
        PoolsCommand::List => list(app).await,
        PoolsCommand::Delete { name } => {
            let api = Connection::open_existing(app).await?;
            let namespace = api.namespace_or_default();
            api.send("DELETE", &["pools", &name], &[("namespace", Some(namespace))], None).await?;
            app.out.note(format_args!("pool {namespace}/{name} is deleted"));
            Ok(Exit::Success)
        }
        PoolsCommand::Set { name, slots } => set(app, &name, &slots).await,
    }
}

async fn list(app: &App<'_>) -> Result {
    let api = Connection::open_existing(app).await?;
    let pools = api.all(&["pools"], &[("namespace", api.namespace())]).await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["NAMESPACE", "POOL", "SLOTS", "IN USE"]);
            for pool in &pools {
                let slots = pool["slots"].as_i64().map_or("unlimited".to_owned(), |slots| slots.to_string());
                let held = pool["held"].to_string();
                let cells = [text(pool, "namespace").to_owned(), text(pool, "name").to_owned(), slots, held];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            if pools.is_empty() {
                app.out.note("no pools");
            } else {
                table.print(app.out);
            }
        }
        format => app.out.value(format, &json!({"items": pools, "next": null})),
    }
    Ok(Exit::Success)
}

async fn set(app: &App<'_>, name: &str, slots: &str) -> Result {
    require_name("pool", name)?;
    let capacity = match slots {
        "unlimited" => None,
        number => Some(number.parse::<i32>().ok().filter(|number| *number >= 0).ok_or_else(|| {
            Failure::bad_input(format!("--slots is {}", quoted(number))).remedy("write a whole number, or `unlimited`")
        })?),
    };
    let api = Connection::open(app).await?;
    let namespace = api.namespace_or_default();
    let body = json!({"slots": capacity});
    let pool = api.send("PUT", &["pools", name], &[("namespace", Some(namespace))], Some(&body)).await?;
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("pool {namespace}/{name} has {slots} slots")),
        format => app.out.value(format, &pool),
    }
    Ok(Exit::Success)
}
