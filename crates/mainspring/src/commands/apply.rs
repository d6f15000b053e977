//! `mainspring apply`: stores workflows as new versions without starting anything.

use clap::Args;
use mainspring_core::difference::{Differences, difference};
use serde_json::{Value, json};

use super::diff;
use super::stored::{self, Loaded, Stored};
use super::testing::workflow_files;
use crate::api::{Connection, strange};
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, plain};

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Workflow files, or folders of them; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    files: Vec<String>,
    /// Check everything, show what would change and store nothing
    #[arg(long)]
    dry_run: bool,
}

/// A file beside what is stored under its name.
struct Compared {
    file: Loaded,
    stored: Option<Stored>,
    differences: Option<Differences>,
}

pub(crate) async fn apply(app: &App<'_>, args: ApplyArgs) -> Result {
    app.start_logs();
    // All of them first: a file that is wrong must not leave the others half applied.
    let files = workflow_files(&args.files)?;
    let files = files.iter().map(|path| Loaded::read(app, path)).collect::<Result<Vec<_>>>()?;
    let api = match args.dry_run {
        true => Connection::open_if_there(app).await?,
        false => Some(Connection::open(app).await?),
    };
    let mut compared = Vec::with_capacity(files.len());
    for file in files {
        compared.push(compare(api.as_ref(), file).await?);
    }
    let mut applied: Vec<Value> = Vec::with_capacity(compared.len());
    for one in &compared {
        show_differences(app, one);
        let version = match &api {
            Some(api) if !args.dry_run => Some(store(api, one).await?),
            _ => None,
        };
        let report = report(one, version);
        if app.out.record_format() == Format::Table {
            print_report(app, one, &report);
        }
        applied.push(report);
    }
    match app.out.record_format() {
        Format::Table => {}
        format => app.out.value(format, &json!({"items": applied, "next": null})),
    }
    Ok(Exit::Success)
}

async fn compare(api: Option<&Connection>, mut file: Loaded) -> Result<Compared> {
    let Some(api) = api else { return Ok(Compared { file, stored: None, differences: None }) };
    file.settle(api);
    let stored = stored::find(api, &file.workflow.namespace, &file.workflow.name).await?;
    let differences = stored.as_ref().map(|stored| difference(&stored.plan, &file.workflow));
    Ok(Compared { file, stored, differences })
}

/// Stores it over exactly what it was compared with, and returns the number of the version.
async fn store(api: &Connection, one: &Compared) -> Result<i64> {
    let condition = match &one.stored {
        None => ("if-none-match", "*"),
        Some(stored) => ("if-match", stored.etag.as_deref().unwrap_or("*")),
    };
    let stored = one.file.store(api, &[condition]).await?.value()?;
    stored["version"].as_i64().ok_or_else(strange)
}

fn report(one: &Compared, version: Option<i64>) -> Value {
    let stored = one.stored.as_ref().map(|stored| stored.number);
    // Files that it brings along make another version, too.
    let is_same = match version {
        Some(version) => stored == Some(version),
        None => one.differences.as_ref().is_some_and(Differences::is_empty),
    };
    json!({
        "name": one.file.workflow.name,
        "namespace": one.file.workflow.namespace,
        "version": version,
        "applied": version.is_some(),
        "stored_version": stored,
        "unchanged": is_same,
        "differences": one.differences,
    })
}

fn show_differences(app: &App<'_>, one: &Compared) {
    let (Some(stored), Some(found)) = (&one.stored, &one.differences) else { return };
    if app.out.record_format() == Format::Table && !found.is_empty() && !app.out.quiet {
        let (name, number) = (&one.file.workflow.name, stored.number);
        app.out.line(format_args!("{name}: version {number} -> {}", plain(&one.file.source.name)));
        app.out.raw(&diff::text(app.out.palette(), found));
    }
}

fn print_report(app: &App<'_>, one: &Compared, report: &Value) {
    let name = &one.file.workflow.name;
    let is_same = report["unchanged"] == true;
    match (report["version"].as_i64(), report["stored_version"].as_i64()) {
        (Some(version), _) if is_same => app.out.line(format_args!("{name} is at version {version}, unchanged")),
        (Some(version), _) => app.out.line(format_args!("{name} is at version {version}")),
        (None, Some(stored)) if is_same => {
            app.out.line(format_args!("{name} is valid and the same as version {stored}; nothing was stored"));
        }
        (None, _) => app.out.line(format_args!("{name} is valid; nothing was stored")),
    }
}
