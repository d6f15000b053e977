//! `mainspring pools`: named limits on task runs, across workflows.

use std::time::Duration;

use clap::Subcommand;
use mainspring_core::diagnostic::quoted;
use serde_json::{Value, json};

use crate::api::Connection;
use crate::app::{App, require_name};
use crate::config::parse_duration;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table, local_text};
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
    /// Set how many task runs of a pool may go on at once, and start per period
    #[command(alias = "create")]
    Set {
        #[arg(value_name = "NAME")]
        name: String,
        /// A number, or `unlimited`
        #[arg(long, value_name = "N")]
        slots: String,
        /// How many task runs may start in a window of --per, 1 to 1,000,000; without both there is no rate
        #[arg(long, value_name = "N", requires = "per")]
        rate: Option<String>,
        /// How long a window is, 1s to 1d: it begins with the first start after the one before is over
        #[arg(long, value_name = "DURATION", requires = "rate")]
        per: Option<String>,
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
        PoolsCommand::Set { name, slots, rate, per } => set(app, &name, &slots, rate.zip(per)).await,
    }
}

async fn list(app: &App<'_>) -> Result {
    let api = Connection::open_existing(app).await?;
    let pools = api.all(&["pools"], &[("namespace", api.namespace())]).await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["NAMESPACE", "POOL", "SLOTS", "IN USE", "RATE", "STARTED", "WINDOW ENDS"]);
            for pool in &pools {
                let slots = pool["slots"].as_i64().map_or("unlimited".to_owned(), |slots| slots.to_string());
                let held = pool["held"].to_string();
                let (rate, used) = match &pool["rate"] {
                    Value::Null => ("-".to_owned(), "-".to_owned()),
                    rate => (format!("{rate} per {}", text(pool, "per")), pool["used"].to_string()),
                };
                let ends = pool["window_ends_at"].as_str().map_or_else(|| "-".to_owned(), local_text);
                let (namespace, name) = (text(pool, "namespace").to_owned(), text(pool, "name").to_owned());
                let cells = [namespace, name, slots, held, rate, used, ends];
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

async fn set(app: &App<'_>, name: &str, slots: &str, rate: Option<(String, String)>) -> Result {
    require_name("pool", name)?;
    let capacity = match slots {
        "unlimited" => None,
        number => Some(number.parse::<i32>().ok().filter(|number| *number >= 0).ok_or_else(|| {
            Failure::bad_input(format!("--slots is {}", quoted(number))).remedy("write a whole number, or `unlimited`")
        })?),
    };
    let mut body = json!({"slots": capacity});
    let mut says = if capacity == Some(1) { "1 slot".to_owned() } else { format!("{slots} slots") };
    if let Some((rate, per)) = rate {
        let number = rate.parse::<i32>().ok().filter(|number| (1..=1_000_000).contains(number)).ok_or_else(|| {
            Failure::bad_input(format!("--rate is {}", quoted(&rate)))
                .remedy("write a whole number from 1 to 1,000,000")
        })?;
        let window = [Duration::from_secs(1), Duration::from_secs(24 * 60 * 60)];
        if !parse_duration(&per).is_some_and(|per| window[0] <= per && per <= window[1]) {
            return Err(Failure::bad_input(format!("--per is {}", quoted(&per)))
                .remedy("write a duration from 1s to 1d, such as 1m"));
        }
        (body["rate"], body["per"]) = (json!(number), json!(per));
        says = format!("{says}, and starts {number} task runs per {per} at most");
    }
    let api = Connection::open(app).await?;
    let namespace = api.namespace_or_default();
    let pool = api.send("PUT", &["pools", name], &[("namespace", Some(namespace))], Some(&body)).await?;
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("pool {namespace}/{name} has {says}")),
        format => app.out.value(format, &pool),
    }
    Ok(Exit::Success)
}
