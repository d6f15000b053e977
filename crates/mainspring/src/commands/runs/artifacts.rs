//! `mainspring runs artifacts`: files that tasks left to be kept.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use mainspring_core::RunId;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

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
            let items: Vec<Value> = rows
                .iter()
                .map(|row| json!({"name": full_name(row), "bytes": row["bytes"], "sha256": row["sha256"]}))
                .collect();
            app.out.value(format, &json!({"items": items, "next": null}));
        }
    }
    Ok(Exit::Success)
}

async fn write(app: &App<'_>, api: &Connection, run: &str, row: &Value, file: &str) -> Result {
    let attempt = row["attempt"].to_string();
    let query = [("task", Some(text(row, "task_id"))), ("attempt", Some(attempt.as_str()))];
    let path = ["workflow-runs", run, "artifacts", text(row, "name")];
    if file == "-" {
        let mut sink = Digesting { sink: Printed(app), digest: Sha256::new() };
        api.download(&path, &query, &mut sink).await?;
        return check(row, sink.digest);
    }
    let target = PathBuf::from(file);
    let fail =
        |error: &std::io::Error| Failure::bad_input(format!("cannot write {}: {}", target.display(), cause(error)));
    // A file that exists is not overwritten.
    let opened =
        std::fs::OpenOptions::new().write(true).create_new(true).open(&target).map_err(|error| fail(&error))?;
    let mut sink = Digesting { sink: opened, digest: Sha256::new() };
    let written = api.download(&path, &query, &mut sink).await.and_then(|()| check(row, sink.digest));
    if written.is_err() {
        let _ = std::fs::remove_file(&target);
    }
    written
}

/// What came must be what was kept.
fn check(row: &Value, digest: Sha256) -> Result {
    let found = digest.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    });
    match text(row, "sha256") {
        kept if kept.is_empty() || kept == found => Ok(Exit::Success),
        kept => Err(Failure::failed(format!(
            "the file is corrupted: it was kept with the SHA-256 {kept}, but {found} arrived"
        ))),
    }
}

/// Writes on and digests.
struct Digesting<S> {
    sink: S,
    digest: Sha256,
}

impl<S: Write> Write for Digesting<S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

struct Printed<'a, 'o>(&'a App<'o>);

impl Write for Printed<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.out.bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
