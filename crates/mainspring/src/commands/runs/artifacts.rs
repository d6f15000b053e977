//! `mainspring runs artifacts`: files that tasks left to be kept.

use std::path::PathBuf;

use clap::Args;
use mainspring_core::RunId;
use serde_json::{Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result, cause};
use crate::output::{Format, Table};
use crate::views::text;

#[derive(Debug, Args)]
pub(crate) struct ArtifactsArgs {
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Write one of them, named as the list names it, to a file; `-` is standard output
    #[arg(long, num_args = 2, value_names = ["NAME", "FILE"])]
    get: Option<Vec<String>>,
}

pub(super) async fn artifacts(app: &App<'_>, api: Connection, run: RunId, args: ArtifactsArgs) -> Result {
    let run = run.to_string();
    let rows = api.all(&["workflow-runs", &run, "artifacts"], &[]).await?;
    let full_name = |row: &Value| format!("{}/{}/{}", text(row, "task_id"), row["attempt"], text(row, "name"));
    if let Some(wanted) = &args.get {
        let row = rows.iter().find(|row| full_name(row) == wanted[0]).ok_or_else(|| {
            Failure::bad_input(format!("the run kept no file `{}`", wanted[0]))
                .remedy(format!("`mainspring runs artifacts {run}` lists them"))
        })?;
        return write(app, &api, &run, row, &wanted[1]).await;
    }
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["NAME", "BYTES"]);
            for row in &rows {
                table.row(vec![(full_name(row), None), (row["bytes"].to_string(), None)]);
            }
            table.print(app.out);
        }
        format => {
            let items: Vec<Value> =
                rows.iter().map(|row| json!({"name": full_name(row), "bytes": row["bytes"]})).collect();
            app.out.value(format, &json!({"items": items, "next": null}));
        }
    }
    Ok(Exit::Success)
}

async fn write(app: &App<'_>, api: &Connection, run: &str, row: &Value, file: &str) -> Result {
    let attempt = row["attempt"].to_string();
    let query = [("task", Some(text(row, "task_id"))), ("attempt", Some(attempt.as_str()))];
    let path = ["workflow-runs", run, "artifacts", text(row, "name")];
    let content = api.ask("GET", &path, &query, None, &[]).await?.content()?;
    if file == "-" {
        app.out.bytes(&content);
        return Ok(Exit::Success);
    }
    let path = PathBuf::from(file);
    // A file that exists is not overwritten.
    let mut options = std::fs::OpenOptions::new();
    let written = options.write(true).create_new(true).open(&path).and_then(|mut file| {
        use std::io::Write;
        file.write_all(&content)
    });
    written.map_err(|error| Failure::bad_input(format!("cannot write {}: {}", path.display(), cause(&error))))?;
    Ok(Exit::Success)
}
