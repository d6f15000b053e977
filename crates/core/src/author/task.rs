//! One task as written.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::diagnostic::{Place, quoted};
use crate::expr::has_expression;
use crate::retry::{OnExhausted, Retry};
use crate::rule::TriggerRule;
use crate::workflow::{
    Action, Container, DEFAULT_MAX_LOST, DEFAULT_QUEUE, ExitCodes, Foreach, Limits, OnStoreLoss, OutputFrom, Reads,
    Stage, Task,
};
use crate::yaml::{Kind, NodeId};

use super::actions;
use super::artifacts;
use super::cache;
use super::container;
use super::dialect::{KINDS, TASK};
use super::fields::{Entry, Path, Reader, unread};
use super::matrix;
use super::process;
use super::retry::{Defaults, RetrySpec, retry};
use super::spec::{Field, Need, TaskSpec, Text};
use super::workflow::env_files;

/// Reads one task; what is wrong with it is in the report.
pub(super) fn read<'t>(
    reader: &mut Reader<'t, '_>,
    name: &'t str,
    place: Place,
    id: NodeId,
    path: Path<'_>,
    stage: Stage,
    defaults: &Defaults,
) -> TaskSpec<'t> {
    // Others may need it, so a task that is no mapping is still a task.
    match reader.entries(id, path, &TASK) {
        Some(entries) => read_entries(reader, name, place, entries, path, stage, defaults),
        None => blank(name, place, stage, defaults),
    }
}

/// The same of keys that were read before.
pub(super) fn read_entries<'t>(
    reader: &mut Reader<'t, '_>,
    name: &'t str,
    place: Place,
    entries: Vec<Entry<'t>>,
    path: Path<'_>,
    stage: Stage,
    defaults: &Defaults,
) -> TaskSpec<'t> {
    let mut spec = blank(name, place, stage, defaults);
    let mut parts = Parts::default();
    for entry in entries {
        field(reader, &mut spec, &mut parts, entry, path);
    }
    let retry = parts.retry.clone().over(&defaults.retry);
    spec.texts.extend(retry.condition_text());
    spec.task.retry = retry.build();
    match parts.kinds[..] {
        // An image has a command of its own.
        [] if parts.of_process.iter().any(|entry| entry.name == "image") => {
            spec.task.action = Action::Run { script: String::new(), bindings: Vec::new(), shell: None, cwd: None };
            process_options(reader, &mut spec, path, "run", &parts);
            check_repetition(reader, &spec, path, "run", &parts);
        }
        [] => {
            let message = format!("the task {} does not say what to do", quoted(name));
            reader.report.add_with_help(place, path, message, format!("give it one of {}", KINDS.join(", ")));
        }
        [kind] => {
            if let Some(action) = actions::read(reader, kind, path, &mut spec.texts) {
                spec.task.action = action;
                if spec.task.action.parks() {
                    // Defaults are meant for work: a person must not be asked three times, or a sub-workflow cut off by them.
                    spec.task.timeout_ms = spec.task.timeout_ms.filter(|_| parts.has_timeout);
                    spec.task.retry.attempts = parts.retry.attempts().unwrap_or(1);
                }
            }
            process_options(reader, &mut spec, path, kind.name, &parts);
            check_repetition(reader, &spec, path, kind.name, &parts);
        }
        [first, second, ..] => {
            let message =
                format!("a task does one thing, but this one has both `{}` and `{}`", first.name, second.name);
            reader.report.add_with_help(
                reader.place(second.key),
                path.key(second.name),
                message,
                "make two tasks of it",
            );
        }
    }
    spec
}

/// A task that says nothing.
pub(super) fn blank<'t>(name: &'t str, place: Place, stage: Stage, defaults: &Defaults) -> TaskSpec<'t> {
    let task = Task {
        name: name.to_owned(),
        stage,
        description: None,
        needs: Vec::new(),
        dependents: Vec::new(),
        rule: TriggerRule::AllSuccess,
        condition: None,
        foreach: None,
        max_parallel: None,
        fail_fast: false,
        action: Action::Function { handler: String::new(), payload: serde_json::Value::Null },
        env: IndexMap::new(),
        retry: Retry::default(),
        timeout_ms: defaults.timeout_ms,
        queue: DEFAULT_QUEUE.into(),
        labels: BTreeMap::new(),
        priority: None,
        pool: None,
        on_exhausted: OnExhausted::DeadLetter,
        max_lost: DEFAULT_MAX_LOST,
        on_store_loss: None,
        artifacts: Vec::new(),
        artifact_sets: IndexMap::new(),
        files_from: Vec::new(),
        cache: None,
        reuse: None,
        limits: Limits::default(),
        container: None,
        exit_codes: ExitCodes::default(),
        output: OutputFrom::File,
        env_files: Vec::new(),
        publishes_events: Vec::new(),
        reads: Reads::default(),
        condition_reads: Reads::default(),
    };
    TaskSpec { name, place, task, needs: Vec::new(), files_from: Vec::new(), rule_place: None, texts: Vec::new() }
}

/// Keys and values that can only be understood together.
#[derive(Default)]
struct Parts<'t> {
    kinds: Vec<Entry<'t>>,
    retry: RetrySpec,
    /// Options of a process.
    of_process: Vec<Entry<'t>>,
    foreach: Option<Entry<'t>>,
    /// Keys that have a meaning only where something is repeated.
    of_repetition: Vec<Entry<'t>>,
    /// It has a timeout of its own.
    has_timeout: bool,
}

impl<'t> Parts<'t> {
    /// A task is repeated in one way.
    fn repeated(&mut self, reader: &mut Reader<'t, '_>, entry: Entry<'t>, path: Path<'_>) {
        if let Some(first) = self.foreach.replace(entry) {
            let message =
                format!("a task is repeated in one way, but this one has both `{}` and `{}`", first.name, entry.name);
            reader.report.add_with_help(reader.place(entry.key), path.key(entry.name), message, "keep one of the two");
        }
    }
}

fn field<'t>(
    reader: &mut Reader<'t, '_>,
    spec: &mut TaskSpec<'t>,
    parts: &mut Parts<'t>,
    entry: Entry<'t>,
    path: Path<'_>,
) {
    let (id, at) = (entry.value, path.key(entry.name));
    let task = &mut spec.task;
    match entry.name {
        kind if KINDS.contains(&kind) => parts.kinds.push(entry),
        "shell" | "cwd" | "artifacts" | "files_from" | "cache" | "reuse" | "limits" | "output" | "env_file"
        | "exit_codes" | "image" => parts.of_process.push(entry),
        "retry" => parts.retry = retry(reader, id, at),
        "needs" => spec.needs = needs(reader, id, at),
        "if" => {
            task.condition = reader.text(id, at).map(Into::into);
            spec.texts.push(Text::new(Field::Condition, id, at));
        }
        "foreach" => {
            parts.repeated(reader, entry, path);
            task.foreach = foreach(reader, id, at, &mut spec.texts);
        }
        "matrix" => {
            parts.repeated(reader, entry, path);
            task.foreach = matrix::read(reader, id, at, &mut spec.texts).map(Foreach::Matrix);
        }
        "fail_fast" => {
            parts.of_repetition.push(entry);
            task.fail_fast = reader.boolean(id, at).unwrap_or_default();
        }
        "max_parallel" => {
            parts.of_repetition.push(entry);
            task.max_parallel = reader.integer(id, at, 1..=10_000).map(|number| number as u32);
        }
        "env" => {
            let texts = &mut spec.texts;
            task.env = reader.env(id, at, |name, node, path| {
                texts.push(Text::new(Field::Env(name.into()), node, path));
            });
        }
        "trigger_rule" => {
            spec.rule_place = Some(reader.place(id));
            task.rule = reader.word(id, at, TriggerRule::ALL).unwrap_or(TriggerRule::AllSuccess);
        }
        "timeout" => {
            parts.has_timeout = true;
            task.timeout_ms = reader.positive_duration(id, at);
        }
        "queue" => task.queue = reader.name(id, at).unwrap_or(DEFAULT_QUEUE).into(),
        "labels" => task.labels = labels(reader, id, at),
        "priority" => task.priority = reader.priority(id, at),
        "pool" => task.pool = reader.name(id, at).map(Into::into),
        "on_exhausted" => {
            task.on_exhausted = reader.word(id, at, OnExhausted::ALL).unwrap_or(OnExhausted::DeadLetter);
        }
        "on_store_loss" => task.on_store_loss = reader.word(id, at, OnStoreLoss::ALL),
        "description" => task.description = reader.text(id, at).map(Into::into),
        "max_lost" => {
            task.max_lost = reader.integer(id, at, 0..=1_000).map_or(DEFAULT_MAX_LOST, |number| number as u16);
        }
        "publishes_events" => {
            task.publishes_events =
                reader.members(id, at, "a list of events", |reader, id, path| reader.event(id, path, false));
        }
        other => unread(other),
    }
}

/// An expression, or a list whose members may hold some.
fn foreach(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Foreach> {
    match &reader.node(id).kind {
        Kind::Scalar { .. } => {
            let text = reader.filled_text(id, path)?;
            texts.push(Text::new(Field::Foreach, id, path));
            Some(Foreach::Expression(text.to_owned()))
        }
        Kind::Sequence(items) => {
            let mut members = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let pointer = format!("/{index}");
                members.push(reader.json(*item, path.index(index), &pointer, &mut |pointer, node, path| {
                    texts.push(Text::new(Field::ForeachMember(pointer.into()), node, path));
                })?);
            }
            Some(Foreach::List(members))
        }
        Kind::Mapping(_) => {
            reader.wrong_type(id, path, "an expression or a list");
            None
        }
    }
}

/// What can be repeated, and what only a repetition has.
fn check_repetition(reader: &mut Reader<'_, '_>, spec: &TaskSpec<'_>, path: Path<'_>, kind: &str, parts: &Parts<'_>) {
    if let Some(entry) = parts.foreach
        && matches!(kind, "approval" | "wait")
    {
        let message = format!("`{}` cannot repeat `{kind}`: every item would wait for the same thing", entry.name);
        let help =
            format!("wait once, before the task that is repeated; or put the `{kind}` into a workflow and repeat that");
        reader.report.add_with_help(reader.place(entry.key), path.key(entry.name), message, help);
    }
    for entry in parts.of_repetition.iter().filter(|_| parts.foreach.is_none()) {
        let message = format!("`{}` has no meaning without `foreach` or `matrix`", entry.name);
        let help = (entry.name == "max_parallel")
            .then(|| "to bound tasks across runs use `pool`, to bound runs `concurrency`".to_owned());
        reader.report.push(reader.place(entry.key), path.key(entry.name), message, help);
    }
    debug_assert!(spec.task.foreach.is_none() || parts.foreach.is_some());
}

/// What belongs to a task that runs a process.
fn process_options<'t>(
    reader: &mut Reader<'t, '_>,
    spec: &mut TaskSpec<'t>,
    path: Path<'_>,
    kind: &str,
    parts: &Parts<'t>,
) {
    for entry in &parts.of_process {
        let (id, at) = (entry.value, path.key(entry.name));
        let is_called = entry.name == "exit_codes" && matches!(kind, "function" | "remote")
            || entry.name == "reuse" && cache::REUSABLE.contains(&kind);
        if !matches!(kind, "run" | "steps") && !is_called {
            let kinds = if entry.name == "reuse" { cache::REUSABLE.join("`, `") } else { "run` or `steps".to_owned() };
            let message = format!("`{}` has no meaning without `{kinds}`", entry.name);
            reader.report.add(reader.place(entry.key), at, message);
            continue;
        }
        match entry.name {
            "artifacts" => artifacts::read(reader, &mut spec.task, id, at),
            "files_from" => spec.files_from = artifacts::read_files_from(reader, id, at),
            "cache" => spec.task.cache = cache::read_files(reader, id, at, &mut spec.texts).map(Box::new),
            "reuse" => spec.task.reuse = cache::read_reuse(reader, id, at, &mut spec.texts).map(Box::new),
            "limits" => spec.task.limits = process::limits(reader, id, at),
            "exit_codes" => spec.task.exit_codes = process::exit_codes(reader, id, at),
            "output" => spec.task.output = reader.word(id, at, OutputFrom::ALL).unwrap_or_default(),
            "env_file" => spec.task.env_files = env_files(reader, id, at),
            "image" => {
                spec.task.container = container::read(reader, id, at, &mut spec.texts).map(Box::new);
                let (label, value) = Container::LABEL;
                spec.task.labels.entry(label.to_owned()).or_insert_with(|| value.to_owned());
                let has_script = parts.kinds.iter().any(|kind| matches!(kind.name, "run" | "steps"));
                if has_script && spec.task.container.as_ref().is_some_and(|container| !container.command.is_empty()) {
                    let help = "keep one of the two: a script is given to a shell of the image";
                    reader.report.add_with_help(
                        reader.place(id),
                        at,
                        "the image has a `command` besides the script",
                        help,
                    );
                }
            }
            name => {
                let Some(text) = reader.text(id, at) else { continue };
                let (Action::Run { shell, cwd, .. } | Action::Steps { shell, cwd, .. }) = &mut spec.task.action else {
                    continue;
                };
                if name == "cwd" {
                    *cwd = Some(text.to_owned());
                    if has_expression(text) {
                        spec.texts.push(Text::new(Field::Cwd, id, at));
                    }
                } else if text.trim().is_empty()
                    || text.len() > 256
                    || has_expression(text)
                    || text.chars().any(char::is_control)
                {
                    reader.report.add(reader.place(id), at, format!("{} is not an interpreter", quoted(text)));
                } else {
                    *shell = Some(text.to_owned());
                }
            }
        }
    }
    cache::check(reader, spec, path, &parts.of_process);
}

pub(super) fn needs<'t>(reader: &mut Reader<'t, '_>, id: NodeId, path: Path<'_>) -> Vec<Need<'t>> {
    let items = reader.one_or_many(id, path, "a name or a list of names").unwrap_or_default();
    let mut needs = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let Kind::Scalar { text, .. } = &reader.node(item).kind else {
            reader.wrong_type(item, path.index(index), "the name of a task");
            continue;
        };
        needs.push(Need { name: text, place: reader.place(item) });
    }
    needs
}

fn labels(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let entries = reader.mapping(id, path).unwrap_or_default();
    if entries.len() > 64 {
        reader.report.add(reader.place(id), path, "a task has at most 64 labels");
        return labels;
    }
    for (key, value) in entries {
        let name = reader.tree.scalar(*key);
        let field = path.key(name);
        if reader.checked_name(name, reader.place(*key), field).is_none() {
            continue;
        }
        let Some(text) = reader.text(*value, field) else { continue };
        if text.len() > 128 || text.chars().any(char::is_control) {
            reader.report.add(reader.place(*value), field, format!("{} is not a valid label", quoted(text)));
            continue;
        }
        labels.insert(name.to_owned(), text.to_owned());
    }
    labels
}
