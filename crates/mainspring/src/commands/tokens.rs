//! `mainspring tokens`: API tokens.

use clap::{Subcommand, ValueEnum};
use mainspring_api::List;
use mainspring_api::auth::{CreateToken, Grant, MadeToken, Role, ShownToken, Where};
use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;
use serde_json::json;

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::ids::{find_among, short_length, shortened};
use crate::instants::parse_future;
use crate::output::{Format, Table, local_text};

const PATH: &[&str] = &["auth", "tokens"];

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TokenRole {
    Viewer,
    Operator,
    Author,
    Admin,
    Worker,
}

impl From<TokenRole> for Role {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::Viewer => Self::Viewer,
            TokenRole::Operator => Self::Operator,
            TokenRole::Author => Self::Author,
            TokenRole::Admin => Self::Admin,
            TokenRole::Worker => Self::Worker,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Create a token; it is shown once, alone on standard output
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
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::cli::limit)]
        limit: u16,
    },
    /// Revoke a token: from now on it opens nothing
    #[command(alias = "revoke")]
    Delete {
        /// Its id, the beginning of it, or its name
        #[arg(value_name = "TOKEN")]
        token: String,
    },
}

pub(crate) async fn tokens(app: &App<'_>, command: TokensCommand) -> Result {
    app.start_logs();
    match command {
        TokensCommand::Create { role, name, expires, everywhere } => {
            let now = SystemClock::new().now();
            let expires_at = expires.map(|when| parse_future("expires", &when, now).map(rfc3339)).transpose()?;
            let api = Connection::open(app).await?;
            let namespace = api.namespace().filter(|_| !everywhere).map(str::to_owned);
            let place = match &namespace {
                Some(namespace) => format!("namespace {namespace}"),
                None => "every namespace".to_owned(),
            };
            let role = Role::from(role);
            let role_there = format!("{} in {place}", role.word());
            let body = CreateToken { name, role: Some(role), namespace, grants: None, expires_at };
            let made: MadeToken = api.write("POST", PATH, &[], &body).await?;
            match app.out.record_format() {
                Format::Table => {
                    app.out.line(made.token);
                    app.out.note(format_args!("it is shown this once; its holder is {role_there}"));
                }
                format => app.out.value(format, &json!({"id": made.id, "token": made.token})),
            }
        }
        TokensCommand::List { limit } => {
            let api = Connection::open_existing(app).await?;
            show(app, &api.read(PATH, &[("limit", Some(&limit.to_string()))]).await?);
        }
        TokensCommand::Delete { token } => {
            let api = Connection::open_existing(app).await?;
            let id = find_among(&api, PATH, "token", &token).await?;
            api.send("DELETE", &["auth", "tokens", &id], &[], None).await?;
            app.out.note(format_args!("token {id} opens nothing any more"));
        }
    }
    Ok(Exit::Success)
}

fn show(app: &App<'_>, list: &List<ShownToken>) {
    let format = app.out.record_format();
    if format != Format::Table {
        return app.out.value(format, list);
    }
    let ids: Vec<String> = list.items.iter().map(|token| token.id.to_string()).collect();
    let length = short_length(ids.iter().map(String::as_str));
    let mut table = Table::new(&["ID", "NAME", "GRANTS", "EXPIRES", "LAST USED", "STATE"]);
    for (token, id) in list.items.iter().zip(&ids) {
        let at = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), local_text);
        let cells = [
            shortened(id, length).to_owned(),
            token.name.clone(),
            token.grants.iter().map(grant).collect::<Vec<_>>().join(" "),
            at(&token.expires_at),
            at(&token.last_used_at),
            if token.revoked_at.is_some() { "revoked" } else { "valid" }.to_owned(),
        ];
        table.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    table.print(app.out);
}

fn grant(grant: &Grant) -> String {
    match &grant.namespace {
        Where::Everywhere => format!("{}@*", grant.role),
        Where::Namespace(name) => format!("{}@{name}", grant.role),
    }
}
