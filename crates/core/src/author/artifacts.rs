//! `artifacts`: files that a task leaves, by pattern or by name and pattern; `files_from`: whose files a task is given.

use indexmap::IndexMap;

use crate::artifacts::ArtifactPatterns;
use crate::diagnostic::{Place, Report, did_you_mean, quoted};
use crate::expr::NameTable;
use crate::workflow::{FilesFrom, Task};
use crate::yaml::{Kind, NodeId};

use super::expressions::Read;
use super::fields::{Path, Reader};
use super::spec::{Spec, TaskSpec};

const HOW: &str =
    "write `tasks.TASK.artifacts` for all of its files, or `tasks.TASK.artifacts.NAME` for those of one name";
const MAX_ENTRIES: usize = 100;

/// An entry of `files_from` as written.
pub(super) struct FilesFromSpec<'t> {
    pub(super) text: &'t str,
    pub(super) place: Place,
    pub(super) path: String,
}

/// A list of patterns, or names with patterns.
pub(super) fn read(reader: &mut Reader<'_, '_>, task: &mut Task, id: NodeId, path: Path<'_>) {
    let Kind::Mapping(_) = &reader.node(id).kind else {
        task.artifacts = patterns(reader, id, path);
        return;
    };
    let mut named: IndexMap<String, Vec<String>> = IndexMap::new();
    for (key, value) in reader.mapping(id, path).unwrap_or_default() {
        let Some(name) = reader.name(*key, path) else { continue };
        let read = patterns(reader, *value, path.key(name));
        if read.is_empty() {
            let message = format!("the artifacts {} name no files", quoted(name));
            reader.report.add_with_help(reader.place(*value), path.key(name), message, "write a path, like `dist/`");
            continue;
        }
        for pattern in &read {
            if !task.artifacts.contains(pattern) {
                task.artifacts.push(pattern.clone());
            }
        }
        named.insert(name.to_owned(), read);
    }
    task.artifact_sets = named;
}

fn patterns(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Vec<String> {
    reader.members(id, path, "a path, a list of paths, or names with paths", |reader, id, path| {
        let text = reader.relative_path(id, path)?;
        if let Err(cause) = ArtifactPatterns::read([text]) {
            reader.report.add(reader.place(id), path, cause);
            return None;
        }
        Some(text)
    })
}

pub(super) fn read_files_from<'t>(reader: &mut Reader<'t, '_>, id: NodeId, path: Path<'_>) -> Vec<FilesFromSpec<'t>> {
    let items = reader.one_or_many(id, path, "artifacts of a task, or a list of them").unwrap_or_default();
    if items.len() > MAX_ENTRIES {
        reader.report.add(reader.place(id), path, format!("`files_from` has more than {MAX_ENTRIES} members"));
        return Vec::new();
    }
    let single = !matches!(reader.node(id).kind, Kind::Sequence(_));
    let mut entries: Vec<FilesFromSpec<'t>> = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let at = if single { path } else { path.index(index) };
        let Some(text) = reader.filled_text(item, at) else { continue };
        let place = reader.place(item);
        if entries.iter().any(|known| known.text == text) {
            reader.report.add(place, at, format!("{} is listed twice", quoted(text)));
            continue;
        }
        entries.push(FilesFromSpec { text, place, path: at.to_string() });
    }
    entries
}

/// Finds the tasks that are meant; whether they have ended by then is checked with what expressions read.
pub(super) fn resolve(tasks: &mut [TaskSpec<'_>], names: &NameTable<'_>, report: &mut Report) -> Vec<(i32, Read)> {
    let mut reads = Vec::new();
    for index in 0..tasks.len() {
        let mut found = Vec::with_capacity(tasks[index].files_from.len());
        for entry in &tasks[index].files_from {
            let Some((target, set)) = target(tasks, names, entry, report) else { continue };
            found.push(FilesFrom { task: target, set });
            reads.push((index as i32, Read { target, decisive: false, place: entry.place, path: entry.path.clone() }));
        }
        tasks[index].task.files_from = found;
    }
    reads
}

fn target(
    tasks: &[TaskSpec<'_>],
    names: &NameTable<'_>,
    entry: &FilesFromSpec<'_>,
    report: &mut Report,
) -> Option<(i32, Option<String>)> {
    let written = entry.text.trim();
    let parts = written.strip_prefix("tasks.").and_then(|rest| match rest.strip_suffix(".artifacts") {
        Some(task) => Some((task, None)),
        None => rest.rsplit_once(".artifacts.").map(|(task, set)| (task, Some(set))),
    });
    let Some((task, set)) = parts.filter(|(task, _)| !task.is_empty()) else {
        let message = format!("{} names no artifacts of a task", quoted(written));
        report.add_with_help(entry.place, &entry.path, message, HOW);
        return None;
    };
    let Some(target) = names.get(task).copied() else {
        let help = did_you_mean(task, tasks.iter().map(|other| other.name));
        report.push(entry.place, &entry.path, format!("there is no task {}", quoted(task)), help);
        return None;
    };
    let producer = &tasks[target as usize].task;
    if producer.artifacts.is_empty() {
        let message = format!("the task {} leaves no artifacts", quoted(task));
        let key = Spec::stage_key(producer.stage);
        let help = format!("add `artifacts` to {key}.{task}, like `artifacts: {{dist: dist/}}`");
        report.add_with_help(entry.place, &entry.path, message, help);
        return None;
    }
    match set {
        Some(set) if !producer.artifact_sets.contains_key(set) => {
            let message = format!("the task {} has no artifacts named {}", quoted(task), quoted(set));
            let known: Vec<&str> = producer.artifact_sets.keys().map(String::as_str).collect();
            let help = did_you_mean(set, known.iter().copied()).unwrap_or_else(|| match known.is_empty() {
                true => format!("name them, like `artifacts: {{{set}: …}}`, or take all: `tasks.{task}.artifacts`"),
                false => format!("it has {}", known.join(", ")),
            });
            report.add_with_help(entry.place, &entry.path, message, help);
            None
        }
        set => Some((target, set.map(str::to_owned))),
    }
}
