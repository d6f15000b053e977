//! `poll` as written: when it is checked, what the check does, and what counts as found.

use crate::retry::OnExhausted;
use crate::workflow::{CHECK_TASK, Stage};
use crate::yaml::NodeId;

use super::dialect::{CHECK_KINDS, POLL};
use super::fields::{Entry, Path, Reader};
use super::retry::Defaults;
use super::spec::{Field, TaskSpec, Text};
use super::task;
use super::triggers::interval;

/// A check without a timeout has as long as there is between two, and at least this.
const SHORTEST_TIMEOUT_MS: u64 = 60_000;

pub(super) struct PollSpec<'t> {
    pub(super) every_ms: u64,
    pub(super) condition: Option<String>,
    pub(super) key: String,
    pub(super) task: TaskSpec<'t>,
}

/// The check of trigger `number`; `kind` is the key `poll`.
pub(super) fn read<'t>(
    reader: &mut Reader<'t, '_>,
    kind: Entry<'t>,
    path: Path<'_>,
    number: usize,
    defaults: &Defaults,
    texts: &mut Vec<Text>,
) -> Option<PollSpec<'t>> {
    let (id, path) = (kind.value, path.key(kind.name));
    let entries = reader.entries(id, path, &POLL)?;
    let find = |name: &str| entries.iter().find(|entry| entry.name == name).map(|entry| entry.value);
    let (every, condition, key) = (find("every"), find("if"), find("key"));
    let says_what = names_one_check(reader, id, path, &entries);
    let every_ms = match every {
        Some(value) => interval(reader, value, path.key("every")),
        None => {
            missing(reader, id, path, "`poll` does not say how often", "add `every: 5m`");
            None
        }
    };
    let key_text = match key {
        Some(value) => reader.filled_text(value, path.key("key")).map(str::to_owned),
        None => {
            let help =
                "add `key`, an expression like `event.data.body.id`: a run is started once for each of its values";
            missing(reader, id, path, "`poll` does not say what identifies a finding", help);
            None
        }
    };
    if !says_what {
        return None;
    }
    let of_task: Vec<Entry<'t>> =
        entries.into_iter().filter(|entry| !matches!(entry.name, "every" | "if" | "key")).collect();
    let place = reader.place(kind.key);
    let mut task = task::read_entries(reader, CHECK_TASK, place, of_task, path, Stage::Main, defaults);
    // The next check is the remedy, and the schedule shows the error: an entry per failure would bury the others.
    task.task.on_exhausted = OnExhausted::Fail;
    let (every_ms, key, key_text) = (every_ms?, key?, key_text?);
    // A check that hangs would keep all others from being executed.
    task.task.timeout_ms.get_or_insert(every_ms.max(SHORTEST_TIMEOUT_MS));
    texts.push(Text::new(Field::PollKey(number), key, path.key("key")));
    let condition_text = match condition {
        None => None,
        Some(value) => {
            texts.push(Text::new(Field::TriggerCondition(number), value, path.key("if")));
            Some(reader.text(value, path.key("if"))?.to_owned())
        }
    };
    Some(PollSpec { every_ms, condition: condition_text, key: key_text, task })
}

/// Whether exactly one key says what a check does.
fn names_one_check(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, entries: &[Entry<'_>]) -> bool {
    let kinds: Vec<&Entry<'_>> = entries.iter().filter(|entry| CHECK_KINDS.contains(&entry.name)).collect();
    match kinds[..] {
        [_] => true,
        [] => {
            let help = "give it one of `http` and `run`";
            missing(reader, id, path, "`poll` does not say what to check", help);
            false
        }
        [_, second, ..] => {
            let message = "a poll checks one thing, but this one has both `http` and `run`";
            let (place, at) = (reader.place(second.key), path.key(second.name));
            reader.report.add_with_help(place, at, message, "keep one of the two");
            false
        }
    }
}

fn missing(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>, message: &str, help: &str) {
    reader.report.add_with_help(reader.place(id), path, message, help);
}
