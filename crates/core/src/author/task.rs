//! One task as written.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::diagnostic::{Place, quoted};
use crate::expr::has_expression;
use crate::retry::{Backoff, OnExhausted, Retry};
use crate::rule::TriggerRule;
use crate::workflow::{Action, DEFAULT_MAX_LOST, DEFAULT_QUEUE, Limits, OnStoreLoss, Reads, Stage, Task};
use crate::yaml::{Kind, NodeId};

use super::fields::{Path, Reader};
use super::spec::{Field, Need, TaskSpec, Text};

const KINDS: [&str; 2] = ["run", "function"];
const LATER_KINDS: [&str; 5] = ["http", "workflow", "remote", "approval", "wait"];
const KEYS: [&str; 17] = [
    "run",
    "function",
    "needs",
    "if",
    "env",
    "retry",
    "timeout",
    "trigger_rule",
    "queue",
    "labels",
    "priority",
    "pool",
    "on_exhausted",
    "description",
    "max_lost",
    "shell",
    "cwd",
];
const LATER_KEYS: [&str; 11] = [
    "http",
    "workflow",
    "remote",
    "approval",
    "wait",
    "foreach",
    "max_parallel",
    "publishes_events",
    "artifacts",
    "limits",
    "on_store_loss",
];

/// What tasks get that say nothing themselves.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    timeout_ms: Option<u64>,
    retry: RetrySpec,
}

/// The keys of `retry` that were written.
#[derive(Debug, Default, Clone)]
struct RetrySpec {
    attempts: Option<u16>,
    backoff: Option<Backoff>,
    delay_ms: Option<u64>,
    max_delay_ms: Option<u64>,
    jitter: Option<f64>,
    retryable: Option<bool>,
    on: Option<Vec<String>>,
}

impl RetrySpec {
    fn over(self, base: &RetrySpec) -> RetrySpec {
        RetrySpec {
            attempts: self.attempts.or(base.attempts),
            backoff: self.backoff.or(base.backoff),
            delay_ms: self.delay_ms.or(base.delay_ms),
            max_delay_ms: self.max_delay_ms.or(base.max_delay_ms),
            jitter: self.jitter.or(base.jitter),
            retryable: self.retryable.or(base.retryable),
            on: self.on.or_else(|| base.on.clone()),
        }
    }

    /// A delay longer than the usual cap raises the cap, unless a cap was written.
    fn build(self) -> Retry {
        let usual = Retry::default();
        let delay_ms = self.delay_ms.unwrap_or(usual.delay_ms);
        Retry {
            attempts: self.attempts.unwrap_or(usual.attempts),
            backoff: self.backoff.unwrap_or(usual.backoff),
            delay_ms,
            max_delay_ms: self.max_delay_ms.unwrap_or(usual.max_delay_ms.max(delay_ms)),
            jitter: self.jitter.unwrap_or(usual.jitter),
            retryable: self.retryable.unwrap_or(usual.retryable),
            on: self.on.unwrap_or_default(),
        }
    }
}

pub(super) fn defaults(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Defaults {
    let mut defaults = Defaults::default();
    for (key, value) in reader.mapping(id, path).unwrap_or_default() {
        let name = reader.tree.scalar(*key);
        let field = path.key(name);
        match name {
            "timeout" => defaults.timeout_ms = reader.positive_duration(*value, field),
            "retry" => defaults.retry = retry(reader, *value, field),
            _ => reader.unknown_key(*key, path, "`defaults`", &["timeout", "retry"], &[]),
        }
    }
    defaults
}

fn retry(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> RetrySpec {
    const KEYS: [&str; 7] = ["attempts", "backoff", "delay", "max_delay", "jitter", "retryable", "on"];
    let mut spec = RetrySpec::default();
    for (key, value) in reader.mapping(id, path).unwrap_or_default() {
        let name = reader.tree.scalar(*key);
        let field = path.key(name);
        match name {
            "attempts" => spec.attempts = reader.integer(*value, field, 1..=10_000).map(|number| number as u16),
            "backoff" => spec.backoff = reader.word(*value, field, Backoff::ALL),
            "delay" => spec.delay_ms = reader.duration(*value, field),
            "max_delay" => spec.max_delay_ms = reader.duration(*value, field),
            "jitter" => spec.jitter = reader.number(*value, field, 0.0..=1.0),
            "retryable" => spec.retryable = reader.boolean(*value, field),
            "on" => spec.on = retry_on(reader, *value, field),
            _ => reader.unknown_key(*key, path, "`retry`", &KEYS, &[]),
        }
    }
    if let (Some(delay), Some(cap)) = (spec.delay_ms, spec.max_delay_ms)
        && delay > cap
    {
        reader.report.add(reader.place(id), path, "`delay` is longer than `max_delay`");
    }
    spec
}

fn retry_on(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<Vec<String>> {
    let mut on = Vec::new();
    for (index, item) in reader.one_or_many(id, path, "a list of error kinds")?.into_iter().enumerate() {
        let path = path.index(index);
        let text = reader.text(item, path)?;
        let known = match text.strip_prefix("exit:") {
            Some(code) => code.parse::<u8>().is_ok(),
            None => {
                text == "5xx"
                    || !text.is_empty()
                        && text.len() <= 64
                        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            }
        };
        if !known {
            let message = format!("{} is not a kind of failure", quoted(text));
            reader.report.add_with_help(
                reader.place(item),
                path,
                message,
                "write `timeout`, `exit:75`, `5xx` or an error kind",
            );
            return None;
        }
        on.push(text.to_owned());
    }
    Some(on)
}

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
    let mut spec = blank(name, place, stage, defaults);
    // Others may need it, so a task that is no mapping is still a task.
    let Some(entries) = reader.mapping(id, path) else { return spec };
    let mut parts = Parts::default();
    for (key, value) in entries {
        field(reader, &mut spec, &mut parts, (*key, *value), path);
    }
    spec.task.retry = parts.retry.over(&defaults.retry).build();
    match parts.kinds[..] {
        [] => {
            let message = format!("the task {} does not say what to do", quoted(name));
            reader.report.add_with_help(place, path, message, format!("give it one of {}", KINDS.join(", ")));
        }
        [(key, value)] => {
            if let Some(action) = action(reader, key, value, path, &mut spec.texts) {
                spec.task.action = action;
            }
        }
        [(first, _), (second, _), ..] => {
            let (first, name) = (reader.tree.scalar(first), reader.tree.scalar(second));
            let message = format!("a task does one thing, but this one has both `{first}` and `{name}`");
            reader.report.add_with_help(reader.place(second), path.key(name), message, "make two tasks of it");
        }
    }
    process_options(reader, &mut spec, path, parts.shell, parts.cwd);
    spec
}

/// A task that says nothing.
fn blank<'t>(name: &'t str, place: Place, stage: Stage, defaults: &Defaults) -> TaskSpec<'t> {
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
        on_store_loss: OnStoreLoss::Continue,
        artifacts: Vec::new(),
        limits: Limits::default(),
        publishes_events: Vec::new(),
        reads: Reads::default(),
        condition_reads: Reads::default(),
    };
    TaskSpec { name, place, task, needs: Vec::new(), rule_place: None, texts: Vec::new() }
}

/// Keys and values that can only be understood together.
#[derive(Default)]
struct Parts {
    kinds: Vec<(NodeId, NodeId)>,
    shell: Option<(NodeId, NodeId)>,
    cwd: Option<(NodeId, NodeId)>,
    retry: RetrySpec,
}

fn field<'t>(
    reader: &mut Reader<'t, '_>,
    spec: &mut TaskSpec<'t>,
    parts: &mut Parts,
    (key, id): (NodeId, NodeId),
    path: Path<'_>,
) {
    let name = reader.tree.scalar(key);
    let at = path.key(name);
    let task = &mut spec.task;
    match name {
        "run" | "function" => parts.kinds.push((key, id)),
        "shell" => parts.shell = Some((key, id)),
        "cwd" => parts.cwd = Some((key, id)),
        "retry" => parts.retry = retry(reader, id, at),
        "needs" => spec.needs = needs(reader, id, at),
        "if" => {
            task.condition = reader.text(id, at).map(Into::into);
            spec.texts.push(Text { field: Field::Condition, node: id, path: at.to_string() });
        }
        "env" => {
            let texts = &mut spec.texts;
            task.env = reader.env(id, at, |name, node, path| {
                texts.push(Text { field: Field::Env(name.into()), node, path: path.to_string() });
            });
        }
        "trigger_rule" => {
            spec.rule_place = Some(reader.place(id));
            task.rule = reader.word(id, at, TriggerRule::ALL).unwrap_or(TriggerRule::AllSuccess);
        }
        "timeout" => task.timeout_ms = reader.positive_duration(id, at),
        "queue" => task.queue = reader.name(id, at).unwrap_or(DEFAULT_QUEUE).into(),
        "labels" => task.labels = labels(reader, id, at),
        "priority" => task.priority = reader.priority(id, at),
        "pool" => task.pool = reader.name(id, at).map(Into::into),
        "on_exhausted" => {
            task.on_exhausted = reader.word(id, at, OnExhausted::ALL).unwrap_or(OnExhausted::DeadLetter);
        }
        "description" => task.description = reader.text(id, at).map(Into::into),
        "max_lost" => {
            task.max_lost = reader.integer(id, at, 0..=1_000).map_or(DEFAULT_MAX_LOST, |number| number as u16);
        }
        _ => {
            if LATER_KINDS.contains(&name) {
                parts.kinds.push((key, id));
            }
            reader.unknown_key(key, path, "a task", &KEYS, &LATER_KEYS);
        }
    }
}

fn action(
    reader: &mut Reader<'_, '_>,
    key: NodeId,
    id: NodeId,
    path: Path<'_>,
    texts: &mut Vec<Text>,
) -> Option<Action> {
    match reader.tree.scalar(key) {
        "run" => {
            let path = path.key("run");
            let script = reader.script(id, path)?.to_owned();
            if has_expression(&script) {
                texts.push(Text { field: Field::Script, node: id, path: path.to_string() });
            }
            Some(Action::Run { script, bindings: Vec::new(), shell: None, cwd: None })
        }
        "function" => function(reader, id, path.key("function"), texts),
        _ => None,
    }
}

/// `function: noop`, or a mapping with `handler` and `payload`.
fn function(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Action> {
    let mut handler = None;
    let mut payload = serde_json::Value::Null;
    if let Kind::Scalar { .. } = reader.node(id).kind {
        handler = Some((id, reader.text(id, path)?));
    } else {
        for (key, value) in reader.mapping(id, path)? {
            let name = reader.tree.scalar(*key);
            let field = path.key(name);
            match name {
                "handler" => handler = Some((*value, reader.text(*value, field)?)),
                "payload" => {
                    payload = reader.json(*value, field, "", &mut |pointer, node, path| {
                        texts.push(Text { field: Field::Payload(pointer.into()), node, path: path.to_string() });
                    })?;
                }
                _ => reader.unknown_key(*key, path, "`function`", &["handler", "payload"], &[]),
            }
        }
    }
    let Some((at, handler)) = handler else {
        reader.report.add_with_help(
            reader.place(id),
            path,
            "`function` has no handler",
            "write `function: {handler: …}`",
        );
        return None;
    };
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-' | b'/');
    if handler.is_empty() || handler.len() > 128 || !handler.bytes().all(valid) {
        reader.report.add(reader.place(at), path, format!("{} is not the name of a handler", quoted(handler)));
        return None;
    }
    Some(Action::Function { handler: handler.to_owned(), payload })
}

/// `shell` and `cwd` belong to a task that runs a process.
fn process_options(
    reader: &mut Reader<'_, '_>,
    spec: &mut TaskSpec<'_>,
    path: Path<'_>,
    shell: Option<(NodeId, NodeId)>,
    cwd: Option<(NodeId, NodeId)>,
) {
    let Action::Run { shell: chosen_shell, cwd: chosen_cwd, .. } = &mut spec.task.action else {
        for (name, (key, _)) in [("shell", shell), ("cwd", cwd)].into_iter().filter_map(|(name, at)| Some((name, at?)))
        {
            let message = format!("`{name}` has no meaning without `run`");
            reader.report.add(reader.place(key), path.key(name), message);
        }
        return;
    };
    if let Some((_, id)) = shell
        && let Some(text) = reader.text(id, path.key("shell"))
    {
        if text.trim().is_empty() || text.len() > 256 || text.contains("${{") || text.chars().any(char::is_control) {
            reader.report.add(reader.place(id), path.key("shell"), format!("{} is not an interpreter", quoted(text)));
        } else {
            *chosen_shell = Some(text.to_owned());
        }
    }
    if let Some((_, id)) = cwd
        && let Some(text) = reader.text(id, path.key("cwd"))
    {
        *chosen_cwd = Some(text.to_owned());
        if has_expression(text) {
            spec.texts.push(Text { field: Field::Cwd, node: id, path: path.key("cwd").to_string() });
        }
    }
}

fn needs<'t>(reader: &mut Reader<'t, '_>, id: NodeId, path: Path<'_>) -> Vec<Need<'t>> {
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
