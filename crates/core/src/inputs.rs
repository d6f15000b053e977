//! The inputs of a run: checked against what the workflow declares, completed by its defaults.

use serde_json::{Map, Value};

use crate::Workflow;
use crate::author::parse_duration;
use crate::diagnostic::{Diagnostics, Place, Report, did_you_mean, quoted};
use crate::expr::{Scope, has_expression, render_json};
use crate::pattern;
use crate::workflow::{Input, InputKind};

impl Workflow {
    /// Checks given inputs and adds defaults; the result holds every declared input. All problems at once.
    ///
    /// Defaults may hold expressions over `run` and `workflow`, which `scope` must have.
    pub fn resolve_inputs(&self, given: Map<String, Value>, scope: &Scope) -> Result<Map<String, Value>, Diagnostics> {
        let mut report = Report::default();
        let mut wrong = |name: &str, message: String, help: Option<String>| {
            let shown: String = name.chars().take(128).collect();
            report.push(Place::default(), format_args!("/inputs/{shown}"), message, help);
        };
        let mut given = given;
        let mut resolved = Map::with_capacity(self.inputs.len());
        for (name, input) in &self.inputs {
            let value = match given.remove(name) {
                Some(value) if !(value.is_null() && input.default.is_some()) => value,
                _ => match &input.default {
                    Some(default) => match render_json(default, scope, &Map::new()) {
                        Ok(value) => value,
                        Err(error) => {
                            wrong(name, format!("the default of input {} has no value: {error}", quoted(name)), None);
                            continue;
                        }
                    },
                    None if input.required => {
                        let help = format!("give it with `-i {name}=…`: type {}", input.kind);
                        wrong(name, format!("input {} is missing", quoted(name)), Some(help));
                        continue;
                    }
                    None => Value::Null,
                },
            };
            if value.is_null() && !input.required {
                resolved.insert(name.clone(), Value::Null);
                continue;
            }
            match conform(input, &value) {
                Ok(()) => _ = resolved.insert(name.clone(), value),
                Err(cause) => wrong(name, format!("input {} {cause}", quoted(name)), None),
            }
        }
        for name in given.keys() {
            let help = did_you_mean(name, self.inputs.keys().map(String::as_str)).or_else(|| {
                let known: Vec<&str> = self.inputs.keys().map(String::as_str).take(20).collect();
                Some(if known.is_empty() {
                    "the workflow has no inputs".into()
                } else {
                    format!("its inputs are {}", known.join(", "))
                })
            });
            wrong(name, format!("the workflow has no input {}", quoted(name)), help);
        }
        report.finish(Some(resolved))
    }

    /// Turns `-i name=text` into a value by the declared type; a text that does not fit stays a text, so that
    /// [`Workflow::resolve_inputs`] complains about it together with everything else.
    pub fn input_from_text(&self, name: &str, text: &str) -> Value {
        let as_text = || Value::String(text.to_owned());
        let Some(input) = self.inputs.get(name) else { return as_text() };
        match input.kind {
            InputKind::String | InputKind::Date | InputKind::Datetime | InputKind::Duration => as_text(),
            _ => match serde_json::from_str::<Value>(text) {
                Ok(value) if conform_type(input.kind, &value).is_ok() => value,
                _ => as_text(),
            },
        }
    }
}

pub(crate) fn is_template(value: &Value) -> bool {
    match value {
        Value::String(text) => has_expression(text),
        Value::Array(items) => items.iter().any(is_template),
        Value::Object(fields) => fields.values().any(is_template),
        _ => false,
    }
}

/// Whether a value fits an input's type and choices. The error continues a sentence that begins with the name.
pub(crate) fn conform(input: &Input, value: &Value) -> Result<(), String> {
    conform_type(input.kind, value)?;
    conform_bounds(input, value)?;
    if let (Some(pattern), Value::String(text)) = (&input.pattern, value) {
        // The pattern compiled when the workflow was read.
        let fits = pattern::compile_whole(pattern).is_ok_and(|regex| regex.is_match(text));
        if !fits {
            return Err(format!("is {}, but must match {}", quoted(&plain(value)), quoted(pattern)));
        }
    }
    if !input.choices.is_empty() && !input.choices.contains(value) {
        let choices: Vec<String> = input.choices.iter().take(20).map(|choice| quoted(&plain(choice))).collect();
        return Err(format!("is {}, but must be one of {}", quoted(&plain(value)), choices.join(", ")));
    }
    Ok(())
}

/// Numbers are bounded by value, texts and lists by length.
fn conform_bounds(input: &Input, value: &Value) -> Result<(), String> {
    let (measured, unit) = match value {
        Value::Number(number) => (number.as_f64().unwrap_or(f64::NAN), None),
        Value::String(text) => (text.chars().count() as f64, Some("characters")),
        Value::Array(items) => (items.len() as f64, Some("members")),
        _ => return Ok(()),
    };
    let bounds = [(&input.min, "at least"), (&input.max, "at most")];
    for (bound, word) in bounds.into_iter().filter_map(|(bound, word)| Some((bound.as_ref()?, word))) {
        let limit = bound.as_f64().unwrap_or(f64::NAN);
        let broken = if word == "at least" { measured < limit } else { measured > limit };
        match unit {
            Some(unit) if broken => return Err(format!("has {measured} {unit}, but must have {word} {bound}")),
            None if broken => return Err(format!("is {}, but must be {word} {bound}", quoted(&plain(value)))),
            _ => {}
        }
    }
    Ok(())
}

fn conform_type(kind: InputKind, value: &Value) -> Result<(), String> {
    let fits = match (kind, value) {
        (InputKind::String, Value::String(text)) => !text.contains('\0'),
        (InputKind::Integer, Value::Number(number)) => number.is_i64() || number.is_u64(),
        (InputKind::Number, Value::Number(_))
        | (InputKind::Boolean, Value::Bool(_))
        | (InputKind::Object, Value::Object(_))
        | (InputKind::List, Value::Array(_)) => true,
        (InputKind::Date, Value::String(text)) => is_date(text),
        (InputKind::Datetime, Value::String(text)) => is_datetime(text),
        (InputKind::Duration, Value::String(text)) => parse_duration(text).is_ok(),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let expected = match kind {
        InputKind::String if value.is_string() => "a text without NUL characters",
        InputKind::String => "a text",
        InputKind::Integer => "a whole number",
        InputKind::Number => "a number",
        InputKind::Boolean => "true or false",
        InputKind::Object => "an object",
        InputKind::List => "a list",
        InputKind::Date => "a date like 2026-01-31",
        InputKind::Datetime => "a time like 2026-01-31T08:00:00Z",
        InputKind::Duration => "a duration like 30s",
    };
    Err(format!("is {}, but must be {expected}", quoted(&plain(value))))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().take(100).collect(),
        other => other.to_string().chars().take(100).collect(),
    }
}

/// `YYYY-MM-DD`, a day that exists.
pub(crate) fn is_date(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        text.get(range)
            .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|part| part.parse::<u32>().ok())
    };
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (digits(0..4), digits(5..7), digits(8..10)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=longest).contains(&day)
}

/// RFC 3339 with a zone.
pub(crate) fn is_datetime(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let (time, zone_fits) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, true),
        None => match time.rfind(['+', '-']) {
            Some(at) => (&time[..at], is_clock(&time[at + 1..], 2)),
            None => return false,
        },
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    is_date(date)
        && zone_fits
        && is_clock(clock, 3)
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// `HH:MM` or `HH:MM:SS`.
fn is_clock(text: &str, parts: usize) -> bool {
    let limits = [23, 59, 60];
    text.split(':').count() == parts
        && text.split(':').zip(limits).all(|(part, limit)| {
            part.len() == 2
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && part.parse::<u32>().is_ok_and(|number| number <= limit)
        })
}
