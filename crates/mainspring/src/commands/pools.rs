//! `mainspring pools`: named limits on task runs, across workflows.

use clap::Subcommand;
use mainspring_core::diagnostic::quoted;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde_json::{Value, json};

use crate::app::{App, require_name};
use crate::database;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum PoolsCommand {
    /// List pools and how much of each is in use
    List,
    /// Set how many task runs of a pool may go on at once
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
        PoolsCommand::Set { name, slots } => set(app, &name, &slots).await,
    }
}

async fn list(app: &App<'_>) -> Result {
    let store = database::open(&app.config).await?;
    let mut pools = store.pools().await?;
    if let Some(namespace) = &app.namespace {
        pools.retain(|pool| pool.namespace == *namespace);
    }
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["NAMESPACE", "POOL", "SLOTS", "IN USE"]);
            for pool in &pools {
                let slots = pool.slots.map_or("unlimited".to_owned(), |slots| slots.to_string());
                let cells = [pool.namespace.clone(), pool.name.clone(), slots, pool.held.to_string()];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            if pools.is_empty() {
                app.out.note("no pools");
            } else {
                table.print(app.out);
            }
        }
        format => {
            let items: Vec<Value> = pools
                .iter()
                .map(|pool| json!({"name": pool.name, "namespace": pool.namespace, "slots": pool.slots, "held": pool.held}))
                .collect();
            app.out.value(format, &json!({"items": items, "next": null}));
        }
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
    let client = app.client(database::connect(&app.config).await?);
    database::prepare(client.store(), client.now(), false).await?;
    let namespace = app.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    client.store().set_pool(client.now(), namespace, name, capacity).await?;
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("pool {namespace}/{name} has {slots} slots")),
        format => app.out.value(format, &json!({"name": name, "namespace": namespace, "slots": capacity})),
    }
    Ok(Exit::Success)
}
