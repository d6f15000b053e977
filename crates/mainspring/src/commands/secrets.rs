//! `mainspring secrets`: values that tasks may see. They come from standard input, never from the command line, where
//! other users of the machine could read them.

use std::io::{IsTerminal, Read};

use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result, cause};
use crate::output::{Format, Table, local_text};

const LARGEST: u64 = 64 * 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Keep a secret, sealed; its value is read from standard input
    #[command(alias = "create")]
    Set {
        #[arg(value_name = "NAME")]
        name: String,
        /// Never here: other users of this machine could read it
        #[arg(hide = true, value_name = "VALUE")]
        value: Option<String>,
    },
    /// List the names of secrets
    List,
    /// Forget a secret
    Delete {
        #[arg(value_name = "NAME")]
        name: String,
    },
}

pub(crate) async fn secrets(app: &App<'_>, command: SecretsCommand) -> Result {
    app.start_logs();
    let api = match &command {
        SecretsCommand::Set { name, value } => {
            refuse_argument(name, value.as_deref())?;
            Connection::open(app).await?
        }
        _ => Connection::open_existing(app).await?,
    };
    match command {
        SecretsCommand::Set { name, .. } => {
            let value = read_value(app, &name)?;
            let query = [("namespace", Some(api.namespace_or_default()))];
            let made = api.send("PUT", &["secrets", &name], &query, Some(&json!({"value": value}))).await?;
            match app.out.record_format() {
                Format::Table => {
                    app.out.line(format_args!("secret {}/{name} is kept", api.namespace_or_default()));
                }
                format => app.out.value(format, &made),
            }
        }
        SecretsCommand::List => {
            let query = [("namespace", api.namespace()), ("limit", Some("500"))];
            show(app, &api.get(&["secrets"], &query).await?);
        }
        SecretsCommand::Delete { name } => {
            let query = [("namespace", Some(api.namespace_or_default()))];
            api.send("DELETE", &["secrets", &name], &query, None).await?;
            app.out.note(format_args!("secret {}/{name} is deleted", api.namespace_or_default()));
        }
    }
    Ok(Exit::Success)
}

/// A value on the command line is in the list of processes and in the history of the shell.
fn refuse_argument(name: &str, value: Option<&str>) -> Result<()> {
    match value {
        None => Ok(()),
        Some(_) => {
            Err(Failure::bad_input("the value of a secret is not given on the command line, where others can read it")
                .remedy(format!("pass it on standard input: printf %s VALUE | mainspring secrets set {name}")))
        }
    }
}

/// All of standard input, without its last line break; on a terminal one line that is not shown.
fn read_value(app: &App<'_>, name: &str) -> Result<String> {
    let stdin = std::io::stdin();
    let unreadable = |error: std::io::Error| Failure::bad_input(format!("standard input: {}", cause(&error)));
    let mut value = String::new();
    if stdin.is_terminal() {
        app.out.note(format_args!("value of {name} (it is not shown):"));
        let _hidden = Hidden::begin();
        stdin.read_line(&mut value).map_err(unreadable)?;
    } else {
        stdin.lock().take(LARGEST + 2).read_to_string(&mut value).map_err(unreadable)?;
    }
    let value = value.strip_suffix('\n').unwrap_or(&value);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(Failure::bad_input(format!("there is no value for {name} on standard input"))
            .remedy(format!("pass it like `mainspring secrets set {name} < FILE`")));
    }
    Ok(value.to_owned())
}

/// While it lives, the terminal does not show what is typed.
struct Hidden {
    before: Option<nix::sys::termios::Termios>,
}

impl Hidden {
    fn begin() -> Self {
        use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_flags.remove(LocalFlags::ECHO);
            _ = tcsetattr(&stdin, SetArg::TCSAFLUSH, &quiet);
        }
        Self { before }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        if let Some(before) = &self.before {
            _ = tcsetattr(std::io::stdin(), SetArg::TCSAFLUSH, before);
        }
    }
}

fn show(app: &App<'_>, list: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["NAMESPACE", "NAME", "UPDATED", "BY"]);
            for secret in list["items"].as_array().into_iter().flatten() {
                let text = |field: &str| secret[field].as_str().unwrap_or("-").to_owned();
                let cells = [text("namespace"), text("name"), local_text(&text("updated_at")), text("updated_by")];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, list),
    }
}
