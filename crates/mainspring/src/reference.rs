//! The references in `docs/` that are written from the program itself: `MAINSPRING_UPDATE_DOCS=1 cargo nextest run -p mainspring -E
//! 'test(reference)'` writes them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;
use crate::config::{KEYS, variable};

/// Compares a page with what the program says, or writes it.
fn compare(page: &str, expected: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    if std::env::var_os("MAINSPRING_UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/{page} is not what the program says: MAINSPRING_UPDATE_DOCS=1 cargo nextest run -p mainspring -E 'test(reference)'"
    );
}

#[test]
fn the_configuration_reference_lists_every_key() {
    let mut page = String::from(
        "# Configuration reference\n\nWritten from the program by a test: do not edit it.\n\nEvery setting has one key. It can stand in \
         `mainspring.toml` (or the file that `--config` or `MAINSPRING_CONFIG` names),\nin a variable of the environment, and for some in a \
         flag; later ones are stronger. A key or a `MAINSPRING_…` variable that is not known is an\nerror. Durations are like `500ms`, `30s`, \
         `5m`, `1h30m`; lists are `[\"a\", \"b\"]` in the file and `a,b` in a variable.\n`mainspring doctor -v` shows what is set and where \
         from.\n",
    );
    let mut section = "";
    for key in KEYS {
        let own = key.name.split_once('.').map_or("general", |(section, _)| section);
        if own != section {
            section = own;
            let _ = write!(page, "\n## {section}\n\n| key | variable | meaning |\n| --- | --- | --- |\n");
        }
        let meaning = key.meaning.replace('|', "\\|");
        let _ = writeln!(page, "| `{}` | `{}` | {meaning} |", key.name, variable(key.name));
    }
    page.push_str(
        "\nOther variables that are understood: `DATABASE_URL`, `DATABASE_URL_FILE`, `DB_MAX_OPEN_CONNS`, `ENABLE_JOB_CONSUMER`, \
         `ENABLE_JOB_DISPATCHER`,\n`ETCD_ENDPOINTS`, `LOG_LEVEL`, `METRICS_PORT`, `OTEL_EXPORTER_OTLP_ENDPOINT`, \
         `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_PROTOCOL`, `PORT`,\n`REDIS_URL`, `SCHEDULER_BATCH_SIZE`, `SCHEDULER_INTERVAL_MS`, \
         `WORKER_ID`; and `MAINSPRING_SECRETS_KEY`, the key that seals secrets.\n\n`DB_MAX_IDLE_CONNS` has no effect, \
         which a server logs when it starts: connections that rest have no\nbound of their own. Each is closed after 10 minutes of rest, and \
         `DB_MAX_OPEN_CONNS` bounds all of them.\n",
    );
    compare("configuration.md", &page);
}

#[test]
fn the_command_reference_has_every_command() {
    let mut page = String::from(
        "# Command reference\n\nWritten from the program by a test: do not edit it. [cli.md](cli.md) says what the commands have in \
         common.\n",
    );
    describe(&mut page, &without_values(Cli::command().term_width(110)), &["mainspring"]);
    compare("cli-reference.md", &page);
}

/// What the environment of this test holds is not part of the help.
fn without_values(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(without_values)
}

/// What `--help` prints for a command, then for the commands in it.
fn describe(page: &mut String, root: &Command, path: &[&str]) {
    let asked = root.clone().try_get_matches_from(path.iter().chain(&["--help"]));
    let help = asked.expect_err("clap answers --help with the text").to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {}\n\n```text\n{}\n```\n", path.join(" "), help.join("\n").trim_end());
    let command =
        path[1..].iter().fold(root, |command, name| command.find_subcommand(name).expect("a path of commands"));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
        describe(page, root, &[path, &[inner.get_name()]].concat());
    }
}
