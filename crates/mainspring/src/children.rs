//! Sub-workflows of a local run: found by their names in the files beside the workflow.

use std::collections::{BTreeMap, BTreeSet};

use mainspring_core::Workflow;
use mainspring_core::work::BundleFile;
use mainspring_core::workflow::Action;

use crate::app::App;
use crate::bundle;
use crate::failure::{Failure, Result};
use crate::source::Source;

/// More files than this beside a workflow are not looked through.
const MOST_FILES: usize = 1_000;

/// A workflow that another one starts.
pub(crate) struct ChildFile {
    pub(crate) workflow: Workflow,
    pub(crate) source: Source,
    pub(crate) files: Vec<BundleFile>,
}

/// Every workflow that this one starts, directly or not. A name that is an expression is looked up when it is known.
pub(crate) fn find(app: &App<'_>, workflow: &Workflow, source: &Source) -> Result<Vec<ChildFile>> {
    let mut wanted: Vec<(String, String)> = names(workflow);
    if wanted.is_empty() && !starts_any(workflow) {
        return Ok(Vec::new());
    }
    let mut beside = beside(source);
    let mut found: Vec<ChildFile> = Vec::new();
    let mut seen: BTreeSet<String> = BTreeSet::from([workflow.name.clone()]);
    // A name that is an expression may turn out to be any of them.
    if starts_any(workflow) {
        wanted.extend(beside.keys().map(|name| (name.clone(), String::new())));
    }
    while let Some((name, task)) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some((mut child, source)) = beside.remove(&name) else {
            return Err(Failure::bad_input(format!(
                "task `{task}` starts workflow `{name}`, which no file beside this one defines"
            ))
            .remedy("put its file into the same folder, or use `mainspring submit` with a server that has it"));
        };
        if let Some(namespace) = &app.namespace {
            child.namespace.clone_from(namespace);
        }
        wanted.extend(names(&child));
        let files = bundle::read(&child, &source)?;
        found.push(ChildFile { workflow: child, source, files });
    }
    Ok(found)
}

/// The names of sub-workflows that are written down, each with the task that starts it.
fn names(workflow: &Workflow) -> Vec<(String, String)> {
    workflow
        .tasks
        .iter()
        .filter_map(|task| match &task.action {
            Action::Workflow(child) if !child.name.contains("${{") => Some((child.name.clone(), task.name.clone())),
            _ => None,
        })
        .collect()
}

/// Whether a sub-workflow's name is an expression.
fn starts_any(workflow: &Workflow) -> bool {
    workflow.tasks.iter().any(|task| matches!(&task.action, Action::Workflow(child) if child.name.contains("${{")))
}

/// The valid workflows in the files beside, by name. A file that is none, or is broken, is left out: its own command reports it.
fn beside(source: &Source) -> BTreeMap<String, (Workflow, Source)> {
    let Some(folder) = source.folder() else { return BTreeMap::new() };
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeMap::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (name.ends_with(".yaml") || name.ends_with(".yml")) && !name.contains(".test.")
    });
    paths.sort();
    paths.truncate(MOST_FILES);
    let mut found = BTreeMap::new();
    for path in paths {
        let Some(path) = path.to_str() else { continue };
        if let Ok(source) = Source::read(path)
            && let Ok(workflow) = source.parse()
        {
            found.entry(workflow.name.clone()).or_insert((workflow, source));
        }
    }
    found
}
