//! `mainspring dev`: everything embedded, on a folder that is watched. Changed files become new versions; what is wrong
//! with them is shown in place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use mainspring_core::Workflow;
use mainspring_engine::Client;

use super::server;
use crate::app::App;
use crate::bundle;
use crate::failure::{Failure, Result, cause};
use crate::output::Paint;
use crate::source::{Source, Unread};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// More files than this are data, not workflows.
const MOST_FILES: usize = 2_000;
const DEEPEST: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// The folder with workflow files
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

impl DevArgs {
    pub(crate) fn flags(&self) -> Option<crate::config::Flag> {
        let value = self.listen.clone()?;
        Some(crate::config::Flag { key: "server.listen", flag: "listen", value })
    }
}

pub(crate) async fn dev(app: &App<'_>, args: DevArgs) -> Result {
    app.start_logs();
    if let Err(error) = std::fs::read_dir(&args.folder) {
        return Err(Failure::bad_input(format!("cannot read {}: {}", args.folder.display(), cause(&error)))
            .remedy("name a folder with workflow files; `mainspring init` makes one"));
    }
    server::serve(app, true, async |client| {
        app.out.note(format_args!("watching {}; Ctrl-C stops", args.folder.display()));
        app.out.note("start a run with `mainspring trigger NAME --follow` in another terminal");
        Watch { app, client, folder: args.folder, seen: BTreeMap::new() }.forever().await;
    })
    .await
}

/// What a file looked like when it was read last.
type FileStamp = (SystemTime, u64);

struct Watch<'a> {
    app: &'a App<'a>,
    client: Client,
    folder: PathBuf,
    seen: BTreeMap<PathBuf, FileStamp>,
}

impl Watch<'_> {
    async fn forever(mut self) {
        loop {
            self.look().await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&mut self) {
        let mut found = BTreeMap::new();
        collect(&self.folder, 0, &mut found);
        let gone: Vec<PathBuf> = self.seen.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        for path in gone {
            self.seen.remove(&path);
            self.app.out.note(format_args!("{} is gone; its workflow stays as it was", path.display()));
        }
        for (path, look) in found {
            if self.seen.get(&path) != Some(&look) {
                self.seen.insert(path.clone(), look);
                self.read(&path).await;
            }
        }
    }

    async fn read(&self, path: &Path) {
        let out = self.app.out;
        let Some(name) = path.to_str() else { return };
        let source = match Source::read(name) {
            Ok(source) => source,
            Err(Unread::Missing(failure)) => return out.failure(&failure),
            Err(Unread::NoText(problem)) => {
                return out.failure(&Failure::bad_input(format!("{name}: {}", problem.message)));
            }
        };
        let workflow = match source.parse() {
            Ok(workflow) => workflow,
            Err(problems) => {
                source.complain(out, &problems);
                let word = if problems.0.len() == 1 { "problem" } else { "problems" };
                let count = out.error_palette().paint(Paint::Red, format_args!("{} {word}", problems.0.len()));
                return out.complaint(&format!("{name}: {count}; what runs goes on with the version before\n"));
            }
        };
        if let Err(failure) = self.apply(name, workflow, &source).await {
            out.failure(&failure);
        }
    }

    async fn apply(&self, name: &str, mut workflow: Workflow, source: &Source) -> Result<()> {
        let files = bundle::read(&workflow, source)?;
        if let Some(namespace) = &self.app.namespace {
            workflow.namespace.clone_from(namespace);
        }
        let (title, tasks) = (workflow.name.clone(), workflow.tasks.len());
        let spec = self.client.put_workflow_with_files(workflow, &source.text, &files).await?;
        let word = if tasks == 1 { "task" } else { "tasks" };
        let applied = self.app.out.palette().paint(Paint::Green, "applied");
        let version = spec.version.number;
        self.app.out.line(format_args!("{applied} {title} version {version} ({tasks} {word}) from {name}"));
        Ok(())
    }
}

/// Workflow files in a folder and those below it; hidden folders, links and tests are left out.
fn collect(folder: &Path, depth: usize, found: &mut BTreeMap<PathBuf, FileStamp>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        if name.starts_with('.') || found.len() >= MOST_FILES {
            continue;
        }
        if kind.is_dir() && depth < DEEPEST && name != "node_modules" && name != "target" {
            collect(&path, depth + 1, found);
        }
        let is_workflow = (name.ends_with(".yaml") || name.ends_with(".yml")) && !name.contains(".test.");
        if kind.is_file()
            && is_workflow
            && let Ok(meta) = entry.metadata()
        {
            found.insert(path, (meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len()));
        }
    }
}
