//! The top level of a workflow.

use indexmap::IndexMap;

use crate::Workflow;
use crate::diagnostic::{Report, quoted};
use crate::workflow::{Concurrency, DEFAULT_NAMESPACE, DEFAULT_PRIORITY, Lifecycle, MAX_TASKS, Overlap, Reads, Stage};
use crate::yaml::{Kind, NodeId, Tree};

use super::actions::values;
use super::dialect::{CONCURRENCY, LIFECYCLE, WORKFLOW};
use super::fields::{Entry, Path, Reader, unread};
use super::inputs;
use super::listed;
use super::notifications;
use super::retry::{self, Defaults};
use super::spec::{Field, Spec, Text};
use super::task;
use super::triggers;

/// Reads the whole text. `None` only when it is not a workflow at all; the report says why.
pub(super) fn read<'t>(tree: &'t Tree<'t>, report: &mut Report) -> Option<Spec<'t>> {
    let mut reader = Reader { tree, report };
    let root = Path::ROOT;
    let entries = reader.entries(tree.root(), root, &WORKFLOW)?;
    let mut spec = Spec {
        workflow: Workflow {
            name: String::new(),
            namespace: DEFAULT_NAMESPACE.into(),
            title: None,
            label: None,
            metadata: serde_json::Value::Null,
            description: None,
            tags: Vec::new(),
            inputs: IndexMap::new(),
            env: IndexMap::new(),
            priority: DEFAULT_PRIORITY,
            timeout_ms: None,
            concurrency: None,
            lifecycle: Lifecycle::default(),
            notifications: Vec::new(),
            domain_events: Vec::new(),
            secrets: Vec::new(),
            callers: Vec::new(),
            triggers: Vec::new(),
            files: Vec::new(),
            outputs: IndexMap::new(),
            output_reads: Reads::default(),
            reads_schedule: false,
            env_files: Vec::new(),
            tasks: Vec::new(),
        },
        tasks: Vec::new(),
        texts: Vec::new(),
        trigger_places: Vec::new(),
        checks: Vec::new(),
    };
    let mut stages: [Option<NodeId>; 4] = [None; 4];
    let mut defaults = Defaults::default();
    let mut named = false;
    let mut triggers = None;
    for entry in entries {
        match entry.name {
            "name" => named = true,
            "tasks" => stages[0] = Some(entry.value),
            "on_failure" => stages[1] = Some(entry.value),
            "on_success" => stages[2] = Some(entry.value),
            "finally" => stages[3] = Some(entry.value),
            "triggers" => triggers = Some(entry.value),
            "defaults" => defaults = retry::defaults(&mut reader, entry.value, root.key("defaults")),
            _ => {}
        }
        field(&mut reader, &mut spec, entry, root.key(entry.name));
    }
    if !named {
        reader.report.add_with_help(reader.place(tree.root()), root, "the workflow has no name", "add `name: …`");
    }
    if let Some(id) = triggers {
        // The checks of polls go by `defaults` like every other task.
        triggers::read(&mut reader, id, root.key("triggers"), &defaults, &mut spec);
    }
    for (stage, id) in Stage::ALL.iter().zip(stages) {
        if let Some(id) = id {
            tasks(&mut reader, id, *stage, &defaults, &mut spec);
        }
    }
    Some(spec)
}

fn field(reader: &mut Reader<'_, '_>, spec: &mut Spec<'_>, entry: Entry<'_>, path: Path<'_>) {
    let (id, workflow, texts) = (entry.value, &mut spec.workflow, &mut spec.texts);
    match entry.name {
        "tasks" | "on_failure" | "on_success" | "finally" | "defaults" | "triggers" => {}
        "name" => workflow.name = reader.name(id, path).unwrap_or_default().into(),
        "namespace" => workflow.namespace = reader.name(id, path).unwrap_or(DEFAULT_NAMESPACE).into(),
        "title" => workflow.title = short(reader, id, path, 256),
        "version" => workflow.label = short(reader, id, path, 128),
        "description" => workflow.description = reader.text(id, path).map(Into::into),
        "tags" => workflow.tags = tags(reader, id, path),
        "metadata" => {
            if reader.mapping(id, path).is_some_and(|entries| !entries.is_empty()) {
                workflow.metadata = reader.json(id, path, "", &mut |_, _, _| {}).unwrap_or_default();
            }
        }
        "domain_events" => {
            workflow.domain_events =
                reader.members(id, path, "a list of events", |reader, id, path| reader.event(id, path, false));
        }
        "inputs" => workflow.inputs = inputs::read(reader, id, path, texts),
        "secrets" => {
            workflow.secrets = reader.members(id, path, "a list of names", |reader, id, path| {
                reader.identifier(id, path, "name of a secret")
            });
        }
        "callers" => {
            workflow.callers = reader.members(id, path, "a namespace or a list of namespaces", |reader, id, path| {
                match reader.text(id, path)? {
                    "*" => Some("*"),
                    _ => reader.name(id, path),
                }
            });
        }
        "files" => {
            workflow.files =
                reader.members(id, path, "a list of paths", |reader, id, path| reader.relative_path(id, path));
        }
        "env_file" => workflow.env_files = env_files(reader, id, path),
        "env" => {
            workflow.env = reader.env(id, path, |name, node, path| {
                texts.push(Text::new(Field::Env(name.into()), node, path));
            });
        }
        "priority" => workflow.priority = reader.priority(id, path).unwrap_or(DEFAULT_PRIORITY),
        "timeout" => workflow.timeout_ms = reader.positive_duration(id, path),
        "concurrency" => workflow.concurrency = concurrency(reader, id, path, texts),
        "lifecycle" => workflow.lifecycle = lifecycle(reader, id, path),
        "notifications" => workflow.notifications = notifications::read(reader, id, path),
        "outputs" => {
            workflow.outputs = values(reader, id, path, "output name", |name, pointer, node, path| {
                texts.push(Text::new(Field::Output(name.into(), pointer.into()), node, path));
            });
        }
        other => unread(other),
    }
}

/// Files of variables, which travel with the version like every other file.
pub(super) fn env_files(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Vec<String> {
    reader.members(id, path, "a path or a list of paths", |reader, id, path| reader.relative_path(id, path))
}

fn short(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, longest: usize) -> Option<String> {
    let text = reader.filled_text(id, path)?;
    if text.chars().count() > longest || text.chars().any(char::is_control) {
        let message = format!("`{}` must be one line of at most {longest} characters", path.last());
        reader.report.add(reader.place(id), path, message);
        return None;
    }
    Some(text.to_owned())
}

/// Durations, or the same in minutes under longer names.
fn lifecycle(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Lifecycle {
    let mut lifecycle = Lifecycle::default();
    for entry in reader.entries(id, path, &LIFECYCLE).unwrap_or_default() {
        let at = path.key(entry.name);
        let (stem, in_minutes) = match entry.name.strip_suffix("_minutes") {
            Some(stem) => (stem.strip_prefix("max_").unwrap_or(stem), true),
            None => (entry.name.strip_prefix("max_").unwrap_or(entry.name), false),
        };
        let slot = match stem {
            "waiting_for_dependencies" => &mut lifecycle.waiting_for_dependencies_ms,
            "waiting_for_retry" => &mut lifecycle.waiting_for_retry_ms,
            "steps_in_process" => &mut lifecycle.steps_in_process_ms,
            "duration" => &mut lifecycle.max_duration_ms,
            other => {
                unread(other);
                continue;
            }
        };
        if slot.is_some() {
            let message = format!("`{}` says the same as a key before it", entry.name);
            reader.report.add_with_help(reader.place(entry.key), at, message, "keep one of the two");
            continue;
        }
        *slot = if in_minutes { reader.minutes(entry.value, at) } else { reader.positive_duration(entry.value, at) };
    }
    lifecycle
}

fn tasks<'t>(reader: &mut Reader<'t, '_>, id: NodeId, stage: Stage, defaults: &Defaults, spec: &mut Spec<'t>) {
    let path = Path::ROOT.key(Spec::stage_key(stage));
    if let Kind::Sequence(items) = &reader.node(id).kind {
        return listed::read(reader, id, items, path, stage, defaults, spec);
    }
    let entries = reader.mapping(id, path).unwrap_or_default();
    if spec.tasks.len() + entries.len() > MAX_TASKS {
        let message = format!("the workflow has more than {MAX_TASKS} tasks");
        reader.report.add(reader.place(id), path, message);
        return;
    }
    spec.tasks.reserve(entries.len());
    for (key, value) in entries {
        let name = reader.tree.scalar(*key);
        let place = reader.place(*key);
        let task_path = path.key(name);
        reader.checked_name(name, place, task_path);
        spec.tasks.push(task::read(reader, name, place, *value, task_path, stage, defaults));
    }
}

fn tags(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    let items = reader.list(id, path).unwrap_or_default();
    if items.len() > 100 {
        reader.report.add(reader.place(id), path, "a workflow has at most 100 tags");
        return tags;
    }
    for (index, item) in items.iter().enumerate() {
        let path = path.index(index);
        let Some(tag) = reader.text(*item, path) else { continue };
        if tag.is_empty() || tag.chars().count() > 128 || tag.chars().any(char::is_control) {
            reader.report.add(reader.place(*item), path, format!("{} is not a valid tag", quoted(tag)));
        } else if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    tags
}

fn concurrency(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Concurrency> {
    let mut concurrency = Concurrency { key: None, limit: 1, overlap: Overlap::Queue, max_queued: None };
    for entry in reader.entries(id, path, &CONCURRENCY)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "key" => {
                concurrency.key = reader.text(value, at).map(Into::into);
                texts.push(Text::new(Field::ConcurrencyKey, value, at));
            }
            "limit" => concurrency.limit = reader.integer(value, at, 1..=1_000_000).unwrap_or(1) as u32,
            "overlap" => concurrency.overlap = reader.word(value, at, Overlap::ALL).unwrap_or(Overlap::Queue),
            "max_queued" => {
                concurrency.max_queued = reader.integer(value, at, 0..=1_000_000).map(|number| number as u32);
            }
            other => unread(other),
        }
    }
    Some(concurrency)
}
