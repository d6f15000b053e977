//! The top level of a workflow.

use indexmap::IndexMap;

use crate::Workflow;
use crate::diagnostic::{Report, quoted};
use crate::inputs;
use crate::workflow::{
    Concurrency, DEFAULT_NAMESPACE, DEFAULT_PRIORITY, Input, InputKind, Lifecycle, MAX_TASKS, Overlap, Reads, Stage,
};
use crate::yaml::{NodeId, Tree};

use super::fields::{Path, Reader};
use super::spec::{Field, Spec, Text};
use super::task::{self, Defaults};
use super::values::{IDENTIFIER_RULE, is_identifier};

const KEYS: [&str; 13] = [
    "name",
    "namespace",
    "description",
    "tags",
    "inputs",
    "env",
    "priority",
    "timeout",
    "concurrency",
    "defaults",
    "tasks",
    "on_failure",
    "finally",
];
const LATER_KEYS: [&str; 8] =
    ["secrets", "triggers", "files", "lifecycle", "metadata", "version", "domain_events", "outputs"];

/// Reads the whole text. `None` only when it is not a workflow at all; the report says why.
pub(super) fn read<'t>(tree: &'t Tree<'t>, report: &mut Report) -> Option<Spec<'t>> {
    let mut reader = Reader { tree, report };
    let root = Path::ROOT;
    let entries = reader.mapping(tree.root(), root)?;
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
            domain_events: Vec::new(),
            secrets: Vec::new(),
            triggers: Vec::new(),
            files: Vec::new(),
            outputs: IndexMap::new(),
            output_reads: Reads::default(),
            tasks: Vec::new(),
        },
        tasks: Vec::new(),
        texts: Vec::new(),
    };
    let mut stages: [Option<NodeId>; 3] = [None; 3];
    let mut defaults = Defaults::default();
    let mut named = false;
    for (key, value) in entries {
        let (id, name) = (*value, tree.scalar(*key));
        let path = root.key(name);
        let workflow = &mut spec.workflow;
        match name {
            "name" => {
                named = true;
                if let Some(text) = reader.name(id, path) {
                    workflow.name = text.into();
                }
            }
            "namespace" => {
                if let Some(text) = reader.name(id, path) {
                    workflow.namespace = text.into();
                }
            }
            "description" => workflow.description = reader.text(id, path).map(Into::into),
            "tags" => workflow.tags = tags(&mut reader, id, path),
            "inputs" => workflow.inputs = inputs(&mut reader, id, path, &mut spec.texts),
            "env" => {
                let texts = &mut spec.texts;
                workflow.env = reader.env(id, path, |name, node, path| {
                    texts.push(Text { field: Field::Env(name.into()), node, path: path.to_string() });
                });
            }
            "priority" => workflow.priority = reader.priority(id, path).unwrap_or(DEFAULT_PRIORITY),
            "timeout" => workflow.timeout_ms = reader.positive_duration(id, path),
            "concurrency" => workflow.concurrency = concurrency(&mut reader, id, path, &mut spec.texts),
            "defaults" => defaults = task::defaults(&mut reader, id, path),
            "tasks" => stages[0] = Some(id),
            "on_failure" => stages[1] = Some(id),
            "finally" => stages[2] = Some(id),
            _ => reader.unknown_key(*key, root, "a workflow", &KEYS, &LATER_KEYS),
        }
    }
    if !named {
        reader.report.add_with_help(reader.place(tree.root()), root, "the workflow has no name", "add `name: …`");
    }
    for (stage, id) in Stage::ALL.iter().zip(stages) {
        if let Some(id) = id {
            tasks(&mut reader, id, *stage, &defaults, &mut spec);
        }
    }
    Some(spec)
}

fn tasks<'t>(reader: &mut Reader<'t, '_>, id: NodeId, stage: Stage, defaults: &Defaults, spec: &mut Spec<'t>) {
    let path = Path::ROOT.key(Spec::stage_key(stage));
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

fn inputs(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> IndexMap<String, Input> {
    let mut inputs = IndexMap::new();
    for (key, value) in reader.mapping(id, path).unwrap_or_default() {
        let name = reader.tree.scalar(*key);
        let path = path.key(name);
        if !is_identifier(name) {
            let message = format!("{} is not a valid input name", quoted(name));
            reader.report.add_with_help(reader.place(*key), path, message, IDENTIFIER_RULE);
            continue;
        }
        if let Some(input) = input(reader, name, *value, path, texts) {
            inputs.insert(name.to_owned(), input);
        }
    }
    inputs
}

fn input(reader: &mut Reader<'_, '_>, name: &str, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Input> {
    const KEYS: [&str; 5] = ["type", "description", "required", "default", "enum"];
    let mut input = Input {
        kind: InputKind::String,
        description: None,
        required: false,
        default: None,
        choices: Vec::new(),
        pattern: None,
        min: None,
        max: None,
    };
    let mut required = None;
    let mut default_at = None;
    let mut dynamic = false;
    for (key, value) in reader.mapping(id, path)? {
        let field = reader.tree.scalar(*key);
        let path = path.key(field);
        match field {
            "type" => input.kind = reader.word(*value, path, InputKind::ALL)?,
            "description" => input.description = reader.text(*value, path).map(Into::into),
            "required" => required = reader.boolean(*value, path),
            "default" => {
                default_at = Some(*value);
                input.default = reader.json(*value, path, "", &mut |_, node, path| {
                    dynamic = true;
                    texts.push(Text { field: Field::InputDefault(name.into()), node, path: path.to_string() });
                });
            }
            "enum" => {
                for (index, item) in reader.list(*value, path).unwrap_or_default().iter().enumerate() {
                    input.choices.extend(reader.json(*item, path.index(index), "", &mut |_, _, _| {}));
                }
            }
            _ => reader.unknown_key(
                *key,
                Path::ROOT.key("inputs").key(name),
                "an input",
                &KEYS,
                &["pattern", "min", "max"],
            ),
        }
    }
    if let Some(at) = default_at
        && let Some(default) = &input.default
        && !(dynamic && inputs::is_template(default))
        && let Err(cause) = inputs::conform(&input, default)
    {
        reader.report.add(reader.place(at), path.key("default"), format!("the default of {} {cause}", quoted(name)));
    }
    for choice in &input.choices {
        let plain = Input { choices: Vec::new(), ..input.clone() };
        if let Err(cause) = inputs::conform(&plain, choice) {
            reader.report.add(reader.place(id), path.key("enum"), format!("a choice of {} {cause}", quoted(name)));
        }
    }
    input.required = required.unwrap_or(true) && input.default.is_none();
    Some(input)
}

fn concurrency(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Concurrency> {
    const KEYS: [&str; 4] = ["key", "limit", "overlap", "max_queued"];
    let mut concurrency = Concurrency { key: None, limit: 1, overlap: Overlap::Queue, max_queued: None };
    for (key, value) in reader.mapping(id, path)? {
        let field = reader.tree.scalar(*key);
        let path = path.key(field);
        match field {
            "key" => {
                concurrency.key = reader.text(*value, path).map(Into::into);
                texts.push(Text { field: Field::ConcurrencyKey, node: *value, path: path.to_string() });
            }
            "limit" => concurrency.limit = reader.integer(*value, path, 1..=1_000_000).unwrap_or(1) as u32,
            "overlap" => concurrency.overlap = reader.word(*value, path, Overlap::ALL).unwrap_or(Overlap::Queue),
            "max_queued" => {
                concurrency.max_queued = reader.integer(*value, path, 0..=1_000_000).map(|number| number as u32);
            }
            _ => reader.unknown_key(*key, Path::ROOT.key("concurrency"), "`concurrency`", &KEYS, &[]),
        }
    }
    Some(concurrency)
}
