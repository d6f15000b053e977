//! `retry` and `defaults` as written.

use crate::diagnostic::quoted;
use crate::retry::{Backoff, Retry};
use crate::yaml::{Kind, NodeId, Style};

use super::dialect::{DEFAULTS, RETRY};
use super::fields::{Path, Reader, subject, unread};
use super::spec::{Field, Text};

/// What tasks get that say nothing themselves.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    pub(super) timeout_ms: Option<u64>,
    pub(super) retry: RetrySpec,
}

/// The keys of `retry` that were written.
#[derive(Debug, Default, Clone)]
pub(super) struct RetrySpec {
    /// Whether `retry` was written at all.
    asked: bool,
    attempts: Option<u16>,
    backoff: Option<Backoff>,
    delay_ms: Option<u64>,
    max_delay_ms: Option<u64>,
    jitter: Option<f64>,
    retryable: Option<bool>,
    on: Option<Vec<String>>,
    /// As written, and where.
    condition: Option<(String, NodeId, String)>,
}

impl RetrySpec {
    /// As written.
    pub(super) fn attempts(&self) -> Option<u16> {
        self.attempts
    }

    /// The expression of `if`, to be checked with the texts of the task.
    pub(super) fn condition_text(&self) -> Option<Text> {
        let (_, node, path) = self.condition.as_ref()?;
        Some(Text { field: Field::RetryCondition, node: *node, path: path.clone() })
    }

    pub(super) fn over(self, base: &RetrySpec) -> RetrySpec {
        RetrySpec {
            asked: self.asked || base.asked,
            attempts: self.attempts.or(base.attempts),
            backoff: self.backoff.or(base.backoff),
            delay_ms: self.delay_ms.or(base.delay_ms),
            max_delay_ms: self.max_delay_ms.or(base.max_delay_ms),
            jitter: self.jitter.or(base.jitter),
            retryable: self.retryable.or(base.retryable),
            on: self.on.or_else(|| base.on.clone()),
            condition: self.condition.or_else(|| base.condition.clone()),
        }
    }

    /// A delay longer than the usual cap raises the cap, unless a cap was written.
    pub(super) fn build(self) -> Retry {
        let usual = Retry::default();
        let delay_ms = self.delay_ms.unwrap_or(usual.delay_ms);
        Retry {
            attempts: self.attempts.unwrap_or(if self.asked { Retry::DEFAULT_ATTEMPTS } else { usual.attempts }),
            backoff: self.backoff.unwrap_or(usual.backoff),
            delay_ms,
            max_delay_ms: self.max_delay_ms.unwrap_or(usual.max_delay_ms.max(delay_ms)),
            jitter: self.jitter.unwrap_or(usual.jitter),
            retryable: self.retryable.unwrap_or(usual.retryable),
            on: self.on.unwrap_or_default(),
            condition: self.condition.map(|(text, ..)| text),
        }
    }
}

pub(super) fn defaults(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Defaults {
    let mut defaults = Defaults::default();
    for entry in reader.entries(id, path, &DEFAULTS).unwrap_or_default() {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "timeout" => defaults.timeout_ms = reader.positive_duration(value, at),
            "retry" => defaults.retry = retry(reader, value, at),
            other => unread(other),
        }
    }
    defaults
}

pub(super) fn retry(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> RetrySpec {
    let mut spec = RetrySpec { asked: true, ..RetrySpec::default() };
    if let Kind::Scalar { text, style: Style::Plain } = &reader.node(id).kind
        && let Ok(number) = text.parse::<u16>()
    {
        let message = format!("{} must be a mapping, not a number", subject(path));
        let help = format!("write `retry: {{attempts: {}}}`, the first attempt included", number.max(1));
        reader.report.add_with_help(reader.place(id), path, message, help);
        return spec;
    }
    for entry in reader.entries(id, path, &RETRY).unwrap_or_default() {
        let (at, value) = (path.key(entry.name), entry.value);
        match entry.name {
            "attempts" => spec.attempts = reader.integer(value, at, 1..=10_000).map(|number| number as u16),
            "backoff" => spec.backoff = reader.word(value, at, Backoff::ALL),
            "delay" => spec.delay_ms = reader.duration(value, at),
            "max_delay" => spec.max_delay_ms = reader.duration(value, at),
            "jitter" => spec.jitter = reader.number(value, at, 0.0..=1.0),
            "retryable" => spec.retryable = reader.boolean(value, at),
            "on" => spec.on = on(reader, value, at),
            "if" => spec.condition = reader.filled_text(value, at).map(|text| (text.to_owned(), value, at.to_string())),
            other => unread(other),
        }
    }
    if let (Some(delay), Some(cap)) = (spec.delay_ms, spec.max_delay_ms)
        && delay > cap
    {
        reader.report.add(reader.place(id), path, "`delay` is longer than `max_delay`");
    }
    spec
}

fn on(reader: &mut Reader<'_, '_>, id: NodeId, path: Path<'_>) -> Option<Vec<String>> {
    let mut on = Vec::new();
    for (index, item) in reader.one_or_many(id, path, "a list of error kinds")?.into_iter().enumerate() {
        let path = path.index(index);
        let text = reader.text(item, path)?;
        if !is_kind_of_failure(text) {
            let message = format!("{} is not a kind of failure", quoted(text));
            let help = "write `timeout`, `5xx`, `4xx`, a status like `429`, `exit:75` or an error kind";
            reader.report.add_with_help(reader.place(item), path, message, help);
            return None;
        }
        on.push(text.to_owned());
    }
    Some(on)
}

fn is_kind_of_failure(text: &str) -> bool {
    if let Some(code) = text.strip_prefix("exit:") {
        return code.parse::<u8>().is_ok();
    }
    let is_word = || text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    matches!(text, "5xx" | "4xx")
        || text.parse::<u16>().is_ok_and(|number| number < 600)
        || !text.is_empty() && text.len() <= 64 && is_word()
}
