//! What a task does, as written: every kind but `http`.

use indexmap::IndexMap;
use serde_json::Value;

use crate::diagnostic::quoted;
use crate::expr::has_expression;
use crate::time;
use crate::workflow::{Action, Approval, Child, OnTimeout, Wait};
use crate::yaml::{Kind, NodeId};

use super::dialect::{APPROVAL, CHILD, FUNCTION, REMOTE, Table, WAIT, WAIT_KINDS};
use super::fields::{Entry, Path, Reader, unread};
use super::http;
use super::spec::{Field, Text};
use super::steps;
use super::values::{INPUT_NAME_RULE, NAME_RULE, is_input_name, is_name, parse_duration};

pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    kind: Entry<'_>,
    path: Path<'_>,
    texts: &mut Vec<Text>,
) -> Option<Action> {
    let (id, path) = (kind.value, path.key(kind.name));
    match kind.name {
        "run" => {
            let script = reader.script(id, path)?.to_owned();
            if has_expression(&script) {
                texts.push(Text::new(Field::Script, id, path));
            }
            Some(Action::Run { script, bindings: Vec::new(), shell: None, cwd: None })
        }
        "steps" => {
            let steps = steps::read(reader, id, path, texts)?;
            Some(Action::Steps { steps, shell: None, cwd: None })
        }
        "function" => {
            let (handler, payload) = called(reader, id, path, &FUNCTION, texts)?;
            Some(Action::Function { handler, payload })
        }
        "remote" => {
            let (handler, payload) = called(reader, id, path, &REMOTE, texts)?;
            Some(Action::Remote { handler, payload })
        }
        "http" => http::read(reader, id, path, texts).map(|http| Action::Http(Box::new(http))),
        "workflow" => child(reader, id, path, texts).map(Action::Workflow),
        "approval" => approval(reader, id, path, texts).map(Action::Approval),
        "wait" => wait(reader, id, path, texts).map(Action::Wait),
        other => {
            unread(other);
            None
        }
    }
}

/// `function: noop`, or a mapping with `handler` and `payload`.
fn called(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    table: &Table,
    texts: &mut Vec<Text>,
) -> Option<(String, Value)> {
    let mut handler = None;
    let mut payload = Value::Null;
    if let Kind::Scalar { .. } = reader.node(id).kind {
        handler = Some((id, reader.text(id, path)?));
    } else {
        for entry in reader.entries(id, path, table)? {
            let (at, value) = (path.key(entry.name), entry.value);
            match entry.name {
                "handler" => handler = Some((value, reader.text(value, at)?)),
                "payload" => {
                    payload = reader.json(value, at, "", &mut |pointer, node, path| {
                        texts.push(Text::new(Field::Payload(pointer.into()), node, path));
                    })?;
                }
                other => unread(other),
            }
        }
    }
    let Some((at, handler)) = handler else {
        let (message, help) = (
            format!("{} has no handler", table.what),
            format!("write {}: {{handler: …}}`", table.what.trim_end_matches('`')),
        );
        reader.report.add_with_help(reader.place(id), path, message, help);
        return None;
    };
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-' | b'/');
    if handler.is_empty() || handler.len() > 128 || !handler.bytes().all(valid) {
        reader.report.add(reader.place(at), path, format!("{} is not the name of a handler", quoted(handler)));
        return None;
    }
    Some((handler.to_owned(), payload))
}

/// `workflow: name`, or a mapping.
fn child(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Child> {
    let mut child = Child { name: String::new(), namespace: None, inputs: IndexMap::new() };
    if let Kind::Scalar { .. } = reader.node(id).kind {
        child.name = child_name(reader, id, path, texts)?;
        return Some(child);
    }
    for entry in reader.entries(id, path, &CHILD)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "name" => child.name = child_name(reader, value, at, texts)?,
            "namespace" => child.namespace = reader.name(value, at).map(Into::into),
            "inputs" => {
                child.inputs = values(reader, value, at, "input name", |name, pointer, node, path| {
                    texts.push(Text::new(Field::ChildInput(name.into(), pointer.into()), node, path));
                });
            }
            other => unread(other),
        }
    }
    if child.name.is_empty() {
        reader.report.add_with_help(reader.place(id), path, "`workflow` has no name", "write `workflow: {name: …}`");
        return None;
    }
    Some(child)
}

fn child_name(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<String> {
    let text = reader.filled_text(id, path)?;
    if has_expression(text) {
        texts.push(Text::new(Field::ChildName, id, path));
    } else if !is_name(text) {
        reader.report.add_with_help(reader.place(id), path, format!("{} is not a valid name", quoted(text)), NAME_RULE);
        return None;
    }
    Some(text.to_owned())
}

/// A mapping from identifiers to any values; `seen` is called for every text with an expression.
pub(super) fn values(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    what: &str,
    mut seen: impl FnMut(&str, &str, NodeId, Path<'_>),
) -> IndexMap<String, Value> {
    let mut read = IndexMap::new();
    for (key, value) in reader.mapping(id, path).unwrap_or_default() {
        let name = reader.tree.scalar(*key);
        let path = path.key(name);
        if !is_input_name(name) {
            let message = format!("{} is not a valid {what}", quoted(name));
            reader.report.add_with_help(reader.place(*key), path, message, INPUT_NAME_RULE);
            continue;
        }
        let value = reader.json(*value, path, "", &mut |pointer, node, path| seen(name, pointer, node, path));
        read.extend(value.map(|value| (name.to_owned(), value)));
    }
    read
}

fn approval(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Approval> {
    let mut approval = Approval { roles: Vec::new(), timeout_ms: None, on_timeout: OnTimeout::Fail, message: None };
    let mut on_timeout = None;
    for entry in reader.entries(id, path, &APPROVAL)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "roles" => {
                approval.roles =
                    reader.members(value, at, "a role or a list of roles", |reader, id, path| reader.name(id, path))
            }
            "timeout" => approval.timeout_ms = reader.positive_duration(value, at),
            "on_timeout" => {
                on_timeout = Some(entry.key);
                approval.on_timeout = reader.word(value, at, OnTimeout::ALL)?;
            }
            "message" => {
                let text = reader.filled_text(value, at)?;
                if has_expression(text) {
                    texts.push(Text::new(Field::Message, value, at));
                }
                approval.message = Some(text.to_owned());
            }
            other => unread(other),
        }
    }
    if let Some(key) = on_timeout
        && approval.timeout_ms.is_none()
    {
        let message = "`on_timeout` has no meaning without `timeout`";
        reader.report.add(reader.place(key), path.key("on_timeout"), message);
    }
    Some(approval)
}

/// Exactly one of `for`, `until`, `event` and `result`, with what belongs to it.
fn wait(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, texts: &mut Vec<Text>) -> Option<Wait> {
    let entries = reader.entries(id, path, &WAIT)?;
    let kinds: Vec<&Entry<'_>> = entries.iter().filter(|entry| WAIT_KINDS.contains(&entry.name)).collect();
    let kind = match kinds[..] {
        [kind] => *kind,
        [] => {
            let help = "write one of `for: 10m`, `until: 2026-01-31T08:00:00Z`, `event: NAME`, `result: true`";
            reader.report.add_with_help(reader.place(id), path, "`wait` does not say for what", help);
            return None;
        }
        [first, second, ..] => {
            let message = format!("`wait` waits for one thing, but has both `{}` and `{}`", first.name, second.name);
            reader.report.add_with_help(
                reader.place(second.key),
                path.key(second.name),
                message,
                "make two tasks of it",
            );
            return None;
        }
    };
    let mut options = Options::default();
    for entry in entries.iter().filter(|entry| entry.name != kind.name) {
        let at = path.key(entry.name);
        let belongs = match entry.name {
            "timeout" => matches!(kind.name, "event" | "result"),
            _ => kind.name == "event",
        };
        if !belongs {
            let message = format!("`{}` has no meaning with `{}`", entry.name, kind.name);
            reader.report.add(reader.place(entry.key), at, message);
            continue;
        }
        match entry.name {
            "timeout" => options.timeout_ms = reader.positive_duration(entry.value, at),
            "key" => {
                options.key = reader.filled_text(entry.value, at).map(Into::into);
                texts.push(Text::new(Field::WaitKey, entry.value, at));
            }
            "if" => {
                options.condition = reader.text(entry.value, at).map(Into::into);
                texts.push(Text::new(Field::WaitCondition, entry.value, at));
            }
            other => unread(other),
        }
    }
    let at = path.key(kind.name);
    match kind.name {
        "for" => time_text(reader, kind.value, at, Field::WaitFor, texts).map(Wait::For),
        "until" => time_text(reader, kind.value, at, Field::WaitUntil, texts).map(Wait::Until),
        "event" => {
            let name = reader.event(kind.value, at, false)?.to_owned();
            Some(Wait::Event { name, key: options.key, condition: options.condition, timeout_ms: options.timeout_ms })
        }
        _ => reader.only_true(kind.value, at).map(|()| Wait::Result { timeout_ms: options.timeout_ms }),
    }
}

#[derive(Default)]
struct Options {
    timeout_ms: Option<u64>,
    key: Option<String>,
    condition: Option<String>,
}

/// A duration or an instant, unless an expression gives it.
fn time_text(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    field: Field,
    texts: &mut Vec<Text>,
) -> Option<String> {
    let (is_duration, is_instant) = (field == Field::WaitFor, field == Field::WaitUntil);
    let text = http::template(reader, id, path, field, texts)?;
    if has_expression(&text) {
        return Some(text);
    }
    if is_duration && parse_duration(&text).is_err() {
        reader.duration(id, path)?;
    } else if is_instant && time::parse(&text).is_none() {
        reader.instant(id, path)?;
    }
    Some(text)
}
