//! `tasks` as a list, which other programs send as JSON: `{name, command, retry_count, retry_delay_seconds,
//! timeout_seconds, depends_on}`. In YAML, which people write, a list is a mistake that gets an explanation.

use crate::retry::{Backoff, Retry};
use crate::workflow::{Action, MAX_TASKS, Stage};
use crate::yaml::{Kind, NodeId};

use super::dialect::LISTED_KEYS;
use super::fields::{Path, Reader};
use super::retry::Defaults;
use super::spec::{Spec, TaskSpec};
use super::task::{blank, needs};

const MAX_SECONDS: i64 = 315_360_000;

pub(super) fn read<'t>(
    reader: &mut Reader<'t, '_>,
    id: NodeId,
    items: &'t [NodeId],
    path: Path<'_>,
    stage: Stage,
    defaults: &Defaults,
    spec: &mut Spec<'t>,
) {
    if !reader.tree.is_json() {
        let place = reader.place(*items.first().unwrap_or(&id));
        let message = format!("`{}` must be a mapping from names to tasks, not a list", Spec::stage_key(stage));
        let name = items.first().and_then(|item| name_of(reader, *item)).unwrap_or("NAME");
        let help = format!("write `{name}:` instead of `- name: {name}`, and what it does below");
        reader.report.add_with_help(place, path, message, help);
        return;
    }
    if spec.tasks.len() + items.len() > MAX_TASKS {
        let message = format!("the workflow has more than {MAX_TASKS} tasks");
        reader.report.add(reader.place(id), path, message);
        return;
    }
    for (index, item) in items.iter().enumerate() {
        if let Some(task) = task(reader, *item, path.index(index), stage, defaults) {
            spec.tasks.push(task);
        }
    }
}

fn name_of<'t>(reader: &Reader<'t, '_>, item: NodeId) -> Option<&'t str> {
    let Kind::Mapping(entries) = &reader.node(item).kind else { return None };
    let (_, value) = entries.iter().find(|(key, _)| matches!(reader.tree.scalar(*key), "name" | "id"))?;
    match &reader.node(*value).kind {
        Kind::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn task<'t>(
    reader: &mut Reader<'t, '_>,
    id: NodeId,
    path: Path<'_>,
    stage: Stage,
    defaults: &Defaults,
) -> Option<TaskSpec<'t>> {
    let entries = reader.mapping(id, path)?;
    let value = |reader: &Reader<'t, '_>, name: &str| {
        entries.iter().find(|(key, _)| reader.tree.scalar(*key) == name).map(|(_, value)| *value)
    };
    for (key, _) in entries {
        let name = reader.tree.scalar(*key);
        if !LISTED_KEYS.contains(&name) {
            let message = format!("a task of a list has no key {}", crate::diagnostic::quoted(name));
            let help = format!("it has {}; the other keys are for `tasks` as a mapping", LISTED_KEYS.join(", "));
            reader.report.add_with_help(reader.place(*key), path.key(name), message, help);
        }
    }
    let Some(name_id) = value(reader, "name") else {
        reader.report.add(reader.place(id), path, "the task has no name");
        return None;
    };
    let name = reader.name(name_id, path.key("name"))?;
    let mut spec = blank(name, reader.place(name_id), stage, defaults);
    let Some(command) = value(reader, "command") else {
        reader.report.add_with_help(reader.place(id), path, "the task has no command", "add `command`");
        return None;
    };
    let script = reader.script(command, path.key("command"))?.to_owned();
    if crate::expr::has_expression(&script) {
        spec.texts.push(super::spec::Text::new(super::spec::Field::Script, command, path.key("command")));
    }
    spec.task.action = Action::Run { script, bindings: Vec::new(), shell: None, cwd: None };
    let retries = value(reader, "retry_count").and_then(|id| reader.integer(id, path.key("retry_count"), 0..=9_999));
    let delay = value(reader, "retry_delay_seconds")
        .and_then(|id| reader.integer(id, path.key("retry_delay_seconds"), 0..=MAX_SECONDS));
    if retries.is_some() || delay.is_some() {
        let usual = Retry::default();
        let delay_ms = delay.map_or(usual.delay_ms, |seconds| seconds as u64 * 1_000);
        let max_delay_ms = delay_ms.max(usual.max_delay_ms);
        let attempts = retries.map_or(usual.attempts, |retries| retries as u16 + 1);
        // A delay that was given in seconds is meant as it is.
        let backoff = if delay.is_some() { Backoff::Fixed } else { usual.backoff };
        spec.task.retry = Retry { attempts, delay_ms, max_delay_ms, backoff, ..usual };
    }
    if let Some(id) = value(reader, "timeout_seconds") {
        let seconds = reader.integer(id, path.key("timeout_seconds"), 1..=MAX_SECONDS)?;
        spec.task.timeout_ms = Some(seconds as u64 * 1_000);
    }
    if let Some(id) = value(reader, "depends_on") {
        spec.needs = needs(reader, id, path.key("depends_on"));
    }
    Some(spec)
}
