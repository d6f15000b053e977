//! `triggers` as written.

use indexmap::IndexMap;

use crate::diagnostic::{Place, quoted};
use crate::schedule::{self, Cron, CronError, identity};
use crate::workflow::{
    Catchup, CatchupPolicy, DEFAULT_TIMEZONE, Debounce, Overlap, Poll, RunEnd, Trigger, TriggerSource,
};
use crate::yaml::{Kind, NodeId};

use super::actions::values;
use super::dialect::{CATCHUP, DEBOUNCE, POLL, TRIGGER, TRIGGER_KINDS};
use super::fields::{Entry, Path, Reader, unread};
use super::poll;
use super::retry::Defaults;
use super::spec::{Field, Spec, Text, TriggerPlaces};

const MAX_TRIGGERS: usize = 100;
/// The shortest interval of `every`.
const SHORTEST_MS: u64 = 1_000;

pub(super) fn read<'t>(
    reader: &mut Reader<'t, '_>,
    id: NodeId,
    path: Path<'_>,
    defaults: &Defaults,
    spec: &mut Spec<'t>,
) {
    let items = reader.list(id, path).unwrap_or_default();
    if items.len() > MAX_TRIGGERS {
        reader.report.add(reader.place(id), path, format!("a workflow has at most {MAX_TRIGGERS} triggers"));
        return;
    }
    let mut triggers: Vec<Trigger> = Vec::with_capacity(items.len());
    let mut unnamed = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = path.index(index);
        let Some((trigger, named_at)) = trigger(reader, *item, path, triggers.len(), defaults, spec) else { continue };
        match named_at {
            None => unnamed.push(triggers.len()),
            Some(at) if triggers.iter().any(|other| other.id == trigger.id) => {
                let message = format!("there is a trigger {} already", quoted(&trigger.id));
                reader.report.add(reader.place(at), path.key("id"), message);
            }
            Some(_) => {}
        }
        spec.trigger_places.push(TriggerPlaces { whole: reader.place(*item), inputs: input_places(reader, *item) });
        triggers.push(trigger);
    }
    for position in unnamed {
        let own = identity(&triggers[position]);
        let taken = |id: &str| triggers.iter().any(|other| other.id == id);
        // Two that fire alike differ by their order.
        let mut free = (1..).map(|number| if number == 1 { own.clone() } else { format!("{own}-{number}") });
        let id = free.find(|id| !taken(id)).unwrap_or_default();
        triggers[position].id = id;
    }
    spec.workflow.triggers = triggers;
}

fn input_places(reader: &Reader<'_, '_>, trigger: NodeId) -> Vec<(String, Place)> {
    let entries = |id: NodeId| match &reader.node(id).kind {
        Kind::Mapping(entries) => entries.as_slice(),
        _ => &[],
    };
    let inputs = entries(trigger).iter().filter(|(key, _)| reader.tree.scalar(*key) == "inputs");
    let inputs = inputs.flat_map(|(_, value)| entries(*value));
    inputs.map(|(key, value)| (reader.tree.scalar(*key).to_owned(), reader.place(*value))).collect()
}

/// One trigger, and where its id was written if it was.
fn trigger<'t>(
    reader: &mut Reader<'t, '_>,
    id: NodeId,
    path: Path<'_>,
    number: usize,
    defaults: &Defaults,
    spec: &mut Spec<'t>,
) -> Option<(Trigger, Option<NodeId>)> {
    let Kind::Mapping(_) = reader.node(id).kind else {
        reader.wrong_type(id, path, "a mapping");
        return None;
    };
    let entries = reader.entries(id, path, &TRIGGER)?;
    let kind = kind(reader, id, path, &entries)?;
    let check = match kind.name {
        "poll" => Some(poll::read(reader, kind, path, number, defaults, &mut spec.texts)?),
        _ => None,
    };
    let mut trigger = Trigger {
        id: String::new(),
        source: match &check {
            Some(check) => TriggerSource::Poll(check.every_ms),
            None => source(reader, kind, path)?,
        },
        timezone: None,
        catchup: None,
        overlap: None,
        jitter_ms: None,
        calendar: None,
        inputs: IndexMap::new(),
        start: None,
        end: None,
        max_executions: None,
        debounce: None,
        poll: None,
        condition: None,
        priority: None,
        trace: None,
    };
    if let Some(check) = check {
        trigger.condition = check.condition;
        trigger.poll = Some(Box::new(Poll { key: check.key, task: check.task.task.clone() }));
        spec.checks.push((number, check.task));
    }
    let mut named_at = None;
    for entry in entries.iter().filter(|entry| entry.name != kind.name) {
        if !belongs(entry.name, &trigger.source) {
            let message = format!("`{}` has no meaning for a trigger with `{}`", entry.name, kind.name);
            let help = (kind.name == "poll" && POLL.has(entry.name)).then(|| "write it within `poll`".to_owned());
            reader.report.push(reader.place(entry.key), path.key(entry.name), message, help);
            continue;
        }
        if entry.name == "id" {
            named_at = Some(entry.value);
        }
        option(reader, &mut trigger, *entry, path, number, &mut spec.texts);
    }
    check_times(reader, &trigger, &entries, path);
    if let TriggerSource::Cron(cron) = &trigger.source {
        check_cron(reader, cron, kind, path);
    }
    Some((trigger, named_at))
}

fn kind<'t>(reader: &mut Reader<'t, '_>, id: NodeId, path: Path<'_>, entries: &[Entry<'t>]) -> Option<Entry<'t>> {
    let kinds: Vec<&Entry<'_>> = entries.iter().filter(|entry| TRIGGER_KINDS.contains(&entry.name)).collect();
    match kinds[..] {
        [kind] => Some(*kind),
        [] => {
            let help = format!("give it one of {}", TRIGGER_KINDS.join(", "));
            reader.report.add_with_help(reader.place(id), path, "the trigger does not say when it fires", help);
            None
        }
        [first, second, ..] => {
            let message =
                format!("a trigger fires for one reason, but this one has both `{}` and `{}`", first.name, second.name);
            let help = match (first.name, second.name) {
                ("every", "poll") | ("poll", "every") => "write `every` within `poll`",
                _ => "make two triggers of it",
            };
            reader.report.add_with_help(reader.place(second.key), path.key(second.name), message, help);
            None
        }
    }
}

fn source(reader: &mut Reader<'_, '_>, kind: Entry<'_>, path: Path<'_>) -> Option<TriggerSource> {
    let (at, value) = (path.key(kind.name), kind.value);
    Some(match kind.name {
        "cron" => TriggerSource::Cron(reader.constant(value, at)?.trim().to_owned()),
        "every" => TriggerSource::Every(interval(reader, value, at)?),
        "at" => TriggerSource::At(reader.instant(value, at)?),
        "event" => TriggerSource::Event(reader.event(value, at, true)?.to_owned()),
        "webhook" => TriggerSource::Webhook(reader.name(value, at)?.to_owned()),
        "workflow" => {
            let name = reader.name(value, at)?.to_owned();
            TriggerSource::Workflow { name, namespace: None, on: vec![RunEnd::Success] }
        }
        _ => {
            reader.only_true(value, at)?;
            TriggerSource::Manual
        }
    })
}

/// A duration that is not too short to fire at.
pub(super) fn interval(reader: &mut Reader<'_, '_>, value: NodeId, at: Path<'_>) -> Option<u64> {
    let interval = reader.duration(value, at)?;
    if interval < SHORTEST_MS {
        reader.report.add(reader.place(value), at, "`every` must be at least 1s");
        return None;
    }
    Some(interval)
}

/// Whether an option means something for this kind of trigger.
fn belongs(option: &str, source: &TriggerSource) -> bool {
    use TriggerSource::{At, Cron, Every, Manual, Poll, Workflow};
    match option {
        "timezone" => matches!(source, Cron(_)),
        "namespace" | "on" => matches!(source, Workflow { .. }),
        "catchup" => source.has_past(),
        "jitter" | "calendar" => source.is_scheduled(),
        "debounce" | "if" => !source.is_scheduled() && !matches!(source, Manual),
        "start" | "end" => !matches!(source, At(_) | Manual),
        // The clock counts checks, not what they find.
        "max_executions" => !matches!(source, At(_) | Manual | Poll(_)),
        _ => matches!(option, "id" | "overlap" | "inputs" | "priority") || matches!(source, Every(_)),
    }
}

fn option(
    reader: &mut Reader<'_, '_>,
    trigger: &mut Trigger,
    entry: Entry<'_>,
    path: Path<'_>,
    number: usize,
    texts: &mut Vec<Text>,
) {
    let (at, value) = (path.key(entry.name), entry.value);
    match entry.name {
        "id" => trigger.id = reader.name(value, at).unwrap_or_default().into(),
        "namespace" => {
            if let TriggerSource::Workflow { namespace, .. } = &mut trigger.source {
                *namespace = reader.name(value, at).map(Into::into);
            }
        }
        "on" => {
            let ends = run_ends(reader, value, at);
            if let TriggerSource::Workflow { on, .. } = &mut trigger.source
                && !ends.is_empty()
            {
                *on = ends;
            }
        }
        "timezone" => trigger.timezone = timezone(reader, value, at),
        "catchup" => trigger.catchup = catchup(reader, value, at),
        "overlap" => trigger.overlap = reader.word(value, at, Overlap::ALL),
        "jitter" => trigger.jitter_ms = reader.duration(value, at),
        "calendar" => trigger.calendar = reader.name(value, at).map(Into::into),
        "inputs" => {
            trigger.inputs = values(reader, value, at, "input name", |name, pointer, node, path| {
                texts.push(Text::new(Field::TriggerInput(number, name.into(), pointer.into()), node, path));
            });
        }
        "start" => trigger.start = reader.instant(value, at),
        "end" => trigger.end = reader.instant(value, at),
        "max_executions" => {
            trigger.max_executions = reader.integer(value, at, 1..=i64::MAX).map(|number| number as u64);
        }
        "debounce" => trigger.debounce = debounce(reader, value, at, number, texts),
        "if" => {
            trigger.condition = reader.text(value, at).map(Into::into);
            texts.push(Text::new(Field::TriggerCondition(number), value, at));
        }
        "priority" => trigger.priority = reader.priority(value, at),
        other => unread(other),
    }
}

fn run_ends(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Vec<RunEnd> {
    let items = reader.one_or_many(id, path, "a word or a list of words").unwrap_or_default();
    if items.is_empty() {
        reader.report.add(reader.place(id), path, "`on` names no end of a run");
    }
    let mut ends: Vec<RunEnd> = Vec::new();
    for item in items {
        if let Some(end) = reader.word(item, path, RunEnd::ALL)
            && !ends.contains(&end)
        {
            ends.push(end);
        }
    }
    ends
}

fn timezone(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<String> {
    let text = reader.constant(id, path)?;
    match schedule::timezone(text) {
        Ok(_) => Some(text.to_owned()),
        Err(unknown) => {
            reader.report.add_with_help(reader.place(id), path, unknown.to_string(), unknown.help);
            None
        }
    }
}

/// A policy, or a mapping.
fn catchup(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<Catchup> {
    let mut catchup = Catchup { policy: CatchupPolicy::Latest, window_ms: None, max: None };
    if let Kind::Scalar { .. } = reader.node(id).kind {
        catchup.policy = reader.word(id, path, CatchupPolicy::ALL)?;
        return Some(catchup);
    }
    let entries = reader.entries(id, path, &CATCHUP)?;
    for entry in &entries {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "policy" => catchup.policy = reader.word(value, at, CatchupPolicy::ALL)?,
            "window" => catchup.window_ms = reader.positive_duration(value, at),
            "max" => catchup.max = reader.integer(value, at, 1..=100_000).map(|number| number as u32),
            other => unread(other),
        }
    }
    for entry in entries.iter().filter(|entry| entry.name != "policy" && catchup.policy == CatchupPolicy::None) {
        let message = format!("`{}` has no meaning with the policy `none`", entry.name);
        reader.report.add(reader.place(entry.key), path.key(entry.name), message);
    }
    Some(catchup)
}

/// A window, or a mapping.
fn debounce(
    reader: &mut Reader<'_, '_>,
    id: NodeId,
    path: Path<'_>,
    number: usize,
    texts: &mut Vec<Text>,
) -> Option<Debounce> {
    if let Kind::Scalar { .. } = reader.node(id).kind {
        return reader.positive_duration(id, path).map(|window_ms| Debounce { window_ms, key: None });
    }
    let (mut window, mut key) = (None, None);
    for entry in reader.entries(id, path, &DEBOUNCE)? {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "window" => window = Some(reader.positive_duration(value, at)?),
            "key" => {
                key = reader.filled_text(value, at).map(Into::into);
                texts.push(Text::new(Field::DebounceKey(number), value, at));
            }
            other => unread(other),
        }
    }
    let Some(window_ms) = window else {
        reader.report.add_with_help(
            reader.place(id),
            path,
            "`debounce` has no window",
            "write `debounce: {window: 30s}`",
        );
        return None;
    };
    Some(Debounce { window_ms, key })
}

fn check_times(reader: &mut Reader<'_, '_>, trigger: &Trigger, entries: &[Entry<'_>], path: Path<'_>) {
    if let (Some(start), Some(end)) = (trigger.start, trigger.end)
        && end <= start
        && let Some(entry) = entries.iter().find(|entry| entry.name == "end")
    {
        let message = "`end` is not after `start`, so the trigger could never fire";
        reader.report.add(reader.place(entry.value), path.key("end"), message);
    }
    if let (TriggerSource::Every(interval) | TriggerSource::Poll(interval), Some(jitter)) =
        (&trigger.source, trigger.jitter_ms)
        && jitter > *interval
        && let Some(entry) = entries.iter().find(|entry| entry.name == "jitter")
    {
        let message = "`jitter` is longer than `every`, so fires would overtake each other";
        reader.report.add(reader.place(entry.value), path.key("jitter"), message);
    }
}

/// Whether it can be read and some day ever fits it.
fn check_cron(reader: &mut Reader<'_, '_>, cron: &str, kind: Entry<'_>, path: Path<'_>) {
    // A bad timezone has its own place.
    let error = match Cron::parse(cron, DEFAULT_TIMEZONE) {
        Ok(cron) => {
            for warning in cron.warnings() {
                reader.report.warn(reader.place(kind.value), path.key("cron"), warning.clone(), None);
            }
            return;
        }
        Err(error) => error,
    };
    let message = match &error {
        CronError::FieldCount(1) => format!("{} has 1 field", quoted(cron)),
        CronError::FieldCount(fields) => format!("{} has {fields} fields", quoted(cron)),
        CronError::NeverFires => format!("{} never fires: there is no such day", quoted(cron)),
        CronError::TooLong => "`cron` is longer than 256 characters".into(),
        error => format!("{} is not a cron expression: {error}", quoted(cron)),
    };
    reader.report.add_with_help(reader.place(kind.value), path.key("cron"), message, error.help());
}
