//! `mainspring token`: API tokens.

use clap::{Subcommand, ValueEnum};
use mainspring_core::time::rfc3339;
use serde_json::{Map, Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::config::parse_duration;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TokenRole {
    Viewer,
    Operator,
    Author,
    Admin,
    Worker,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown once
    Create {
        /// What its holder may do
        #[arg(long, value_enum, value_name = "ROLE")]
        role: TokenRole,
        /// What it is for
        #[arg(long, value_name = "NAME", default_value = "cli")]
        name: String,
        /// Until when: a duration such as 30d, or a time
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
        /// In every namespace, although one is chosen
        #[arg(long)]
        everywhere: bool,
    },
    /// List tokens, newest first
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// Revoke a token: from now on it opens nothing
    Revoke {
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(crate) async fn token(app: &App<'_>, command: TokenCommand) -> Result {
    app.start_logs();
    let api = Connection::open(app).await?;
    match command {
        TokenCommand::Create { role, name, expires, everywhere } => {
            let role = role.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            let mut body = Map::from_iter([("name".into(), name.into()), ("role".into(), role.into())]);
            if let Some(namespace) = api.namespace().filter(|_| !everywhere) {
                body.insert("namespace".into(), namespace.into());
            }
            if let Some(expires) = expires {
                body.insert("expires_at".into(), expires_at(&expires)?.into());
            }
            let made = api.send("POST", &["auth", "tokens"], &[], Some(&Value::Object(body))).await?;
            match app.out.record_format() {
                Format::Table => {
                    app.out.line(made["token"].as_str().unwrap_or_default());
                    app.out.note("it is shown this once; whoever has it has its role");
                }
                format => app.out.value(format, &json!({"id": made["id"], "token": made["token"]})),
            }
        }
        TokenCommand::List { limit } => {
            let list = api.get(&["auth", "tokens"], &[("limit", Some(&limit.to_string()))]).await?;
            show(app, &list);
        }
        TokenCommand::Revoke { id } => {
            api.send("DELETE", &["auth", "tokens", &id], &[], None).await?;
            app.out.note(format_args!("token {id} opens nothing any more"));
        }
    }
    Ok(Exit::Success)
}

/// From now on for so long, or until then.
fn expires_at(text: &str) -> Result<String> {
    match parse_duration(text) {
        Some(duration) => {
            let now = mainspring_core::work::Clock::now(&mainspring_engine::SystemClock::new());
            Ok(rfc3339(now.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))))
        }
        None if mainspring_core::time::parse(text).is_some() => Ok(text.to_owned()),
        None => Err(Failure::bad_input(format!("--expires is `{text}`"))
            .remedy("write a duration such as 12h or 30d, or a time such as 2030-01-31T12:00:00Z")),
    }
}

fn show(app: &App<'_>, list: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["ID", "NAME", "GRANTS", "EXPIRES", "LAST USED", "STATE"]);
            for token in list["items"].as_array().into_iter().flatten() {
                let text = |field: &str| token[field].as_str().unwrap_or("-").to_owned();
                let grants: Vec<String> = token["grants"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|grant| {
                        let part = |field: &str| grant[field].as_str().unwrap_or_default().to_owned();
                        format!("{}@{}", part("role"), part("namespace"))
                    })
                    .collect();
                let state = if token.get("revoked_at").is_some() { "revoked" } else { "valid" };
                let cells = [
                    text("id"),
                    text("name"),
                    grants.join(" "),
                    text("expires_at"),
                    text("last_used_at"),
                    state.into(),
                ];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, list),
    }
}
