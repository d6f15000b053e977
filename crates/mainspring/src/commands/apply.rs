//! `mainspring apply`: stores workflows as new versions without starting anything.

use clap::Args;
use serde_json::{Value, json};

use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::Format;
use crate::{bundle, database, source};

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Workflow files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Check everything and store nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn apply(app: &App<'_>, args: ApplyArgs) -> Result {
    app.start_logs();
    // All of them first: a file that is wrong must not leave the others half applied.
    let mut loaded = Vec::with_capacity(args.files.len());
    for path in &args.files {
        let (workflow, source) = source::workflow(app, path)?;
        let files = bundle::read(&workflow, &source)?;
        loaded.push((workflow, source, files));
    }
    let mut applied: Vec<Value> = Vec::with_capacity(loaded.len());
    if args.dry_run {
        applied.extend(loaded.iter().map(|(workflow, _, _)| {
            json!({"name": workflow.name, "namespace": workflow.namespace, "version": null, "applied": false})
        }));
    } else {
        let client = app.client(database::connect(&app.config).await?);
        database::prepare(client.store(), client.now(), false).await?;
        for (workflow, source, files) in loaded {
            let spec = client.put_workflow_with_files(workflow, &source.text, &files).await?;
            let (name, namespace) = (&spec.version.name, &spec.version.namespace);
            applied
                .push(json!({"name": name, "namespace": namespace, "version": spec.version.number, "applied": true}));
        }
    }
    match app.out.record_format() {
        Format::Table => {
            for one in &applied {
                let name = one["name"].as_str().unwrap_or_default();
                match one["version"].as_i64() {
                    Some(version) => app.out.line(format_args!("{name} is at version {version}")),
                    None => app.out.line(format_args!("{name} is valid; nothing was stored")),
                }
            }
        }
        format => app.out.value(format, &json!({"items": applied, "next": null})),
    }
    Ok(Exit::Success)
}
