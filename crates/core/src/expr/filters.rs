//! Filters of our own, and replacements for those whose result can be far larger than what goes in.
//!
//! MiniJinja counts instructions, not bytes: one `replace` in one instruction could fill the memory. What these
//! filters produce during one evaluation is counted together.

use std::cell::Cell;

use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use regex::Regex;

use crate::pattern;

use super::times;

/// Bytes the filters may produce during one evaluation.
const MAX_PRODUCED: usize = 16 * 1024 * 1024;

thread_local! {
    static PRODUCED: Cell<usize> = const { Cell::new(0) };
}

/// An evaluation begins on this thread.
pub(super) fn begin() {
    PRODUCED.set(0);
}

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_function("range", range);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("map", map);
    environment.add_filter("tojson", tojson);
    environment.add_filter("json", tojson);
    environment.add_filter("fromjson", fromjson);
    environment.add_filter("regex_match", regex_match);
    environment.add_filter("regex_find", regex_find);
    environment.add_filter("regex_replace", regex_replace);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("basename", basename);
    environment.add_filter("dirname", dirname);
    environment.add_filter("trimprefix", trimprefix);
    times::add(environment);
}

pub(super) fn spend(bytes: usize) -> Result<(), Error> {
    let produced = PRODUCED.get().saturating_add(bytes);
    PRODUCED.set(produced);
    if produced > MAX_PRODUCED {
        return Err(invalid("the expression produces more than 16 MiB"));
    }
    Ok(())
}

pub(super) fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn text_of(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None if value.is_number() || value.kind() == minijinja::value::ValueKind::Bool => Ok(value.to_string()),
        None => Err(invalid(format!("a text is needed, but there is a {}", value.kind()))),
    }
}

fn replace(value: &Value, from: &str, to: &str) -> Result<String, Error> {
    let text = text_of(value)?;
    let found = text.matches(from).count();
    spend(text.len().saturating_add(found.saturating_mul(to.len())))?;
    Ok(text.replace(from, to))
}

fn join(value: &Value, separator: Option<&str>) -> Result<String, Error> {
    let separator = separator.unwrap_or("");
    let mut joined = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        let text = text_of(&item)?;
        spend(text.len() + separator.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&text);
    }
    Ok(joined)
}

/// `map(attribute='name')`; mapping through another filter could multiply a text by the length of a list.
fn map(value: &Value, options: Kwargs) -> Result<Vec<Value>, Error> {
    let attribute: String = options.get("attribute")?;
    options.assert_all_used()?;
    value.try_iter()?.map(|item| item.get_attr(&attribute)).collect()
}

fn tojson(value: &Value) -> Result<String, Error> {
    let text = serde_json::to_string(value).map_err(|error| invalid(error.to_string()))?;
    spend(text.len())?;
    Ok(text)
}

/// The value that a JSON text holds.
fn fromjson(text: &str) -> Result<Value, Error> {
    spend(text.len())?;
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| invalid(format!("`fromjson` needs JSON: {error}")))?;
    Ok(Serde(value).into())
}

fn regex(text: &str, pattern: &str) -> Result<Regex, Error> {
    if text.len() > pattern::MAX_SEARCHED {
        return Err(invalid("regular expressions search texts of at most 256 KiB"));
    }
    pattern::compile(pattern).map_err(|cause| invalid(format!("the regular expression does not compile: {cause}")))
}

/// Whether it finds something anywhere.
fn regex_match(value: &Value, pattern: &str) -> Result<bool, Error> {
    let text = text_of(value)?;
    Ok(regex(&text, pattern)?.is_match(&text))
}

/// The first match, or its first group if there is one; none without a match.
fn regex_find(value: &Value, pattern: &str) -> Result<Option<String>, Error> {
    let text = text_of(value)?;
    let found = regex(&text, pattern)?.captures(&text).and_then(|groups| groups.get(1).or_else(|| groups.get(0)));
    let found = found.map(|group| group.as_str().to_owned());
    spend(found.as_ref().map_or(0, String::len))?;
    Ok(found)
}

/// Every match; `$1` and `${name}` stand for groups.
fn regex_replace(value: &Value, pattern: &str, replacement: &str) -> Result<String, Error> {
    // Looking for all matches can take the square of the text's length; this many bytes take about a second.
    const MAX_WORK: usize = 1 << 30;
    let text = text_of(value)?;
    let regex = regex(&text, pattern)?;
    let references = replacement.matches('$').count();
    let mut replaced = String::new();
    let (mut last, mut work) = (0, 0_usize);
    for groups in regex.captures_iter(&text) {
        let Some(whole) = groups.get(0) else { continue };
        work = work.saturating_add(text.len() - last);
        if work > MAX_WORK {
            return Err(invalid("`regex_replace` finds too much in too long a text"));
        }
        spend(whole.start() - last + replacement.len() + references.saturating_mul(whole.len()))?;
        replaced.push_str(&text[last..whole.start()]);
        groups.expand(replacement, &mut replaced);
        last = whole.end();
    }
    spend(text.len() - last)?;
    replaced.push_str(&text[last..]);
    Ok(replaced)
}

/// As a part of a path or a parameter: everything but letters, digits and `-._~` as `%XX`.
fn urlencode(value: &Value) -> Result<String, Error> {
    let text = text_of(value)?;
    spend(text.len() * 3)?;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(encoded)
}

/// What follows the last `/`.
fn basename(path: &str) -> String {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or("").to_owned()
}

/// What precedes the last `/`.
fn dirname(path: &str) -> String {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((directory, _)) => directory.to_owned(),
        None => ".".to_owned(),
    }
}

fn trimprefix(text: &str, prefix: &str) -> String {
    text.strip_prefix(prefix).unwrap_or(text).to_owned()
}

/// As many as a task may be repeated.
const MAX_RANGE: i64 = 10_000;

/// `range(3)` is 0, 1, 2; `range(1, 3)` is 1, 2.
fn range(first: i64, end: Option<i64>) -> Result<Vec<i64>, Error> {
    let (first, end) = end.map_or((0, first), |end| (first, end));
    if end.saturating_sub(first) > MAX_RANGE {
        let message = format!("`range` gives at most {MAX_RANGE} numbers");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok((first..end).collect())
}
