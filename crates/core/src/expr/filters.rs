//! Filters of our own, and replacements for those whose result can be far larger than what goes in.
//!
//! MiniJinja counts instructions, not bytes: one `replace` in one instruction could fill the memory. What these
//! filters produce during one evaluation is counted together.

use std::cell::Cell;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};

use crate::inputs::is_date;

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
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("map", map);
    environment.add_filter("tojson", tojson);
    environment.add_filter("date", date);
}

fn spend(bytes: usize) -> Result<(), Error> {
    let produced = PRODUCED.get().saturating_add(bytes);
    PRODUCED.set(produced);
    if produced > MAX_PRODUCED {
        return Err(invalid("the expression produces more than 16 MiB"));
    }
    Ok(())
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
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

/// The day of a time: `2026-01-31T08:00:00Z` is `2026-01-31`.
fn date(value: &str) -> Result<String, Error> {
    match value.get(..10) {
        Some(day) if is_date(day) => Ok(day.to_owned()),
        _ => Err(invalid("`date` needs a time like 2026-01-31T08:00:00Z")),
    }
}
