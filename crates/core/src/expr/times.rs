//! Filters over dates and times. A date is a text like `2026-01-31`, a time one like `2026-01-31T08:00:00Z`.

use std::fmt::Write;

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Utc};
use minijinja::value::Value;
use minijinja::{Environment, Error};

use crate::author::parse_duration;
use crate::inputs::is_date;
use crate::schedule::timezone;
use crate::{Micros, time};

use super::filters::{invalid, spend};

const DAY_MS: u64 = 86_400_000;
const MAX_FORMAT: usize = 256;

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("date", date);
    environment.add_filter("datetime", datetime);
    environment.add_filter("plus", |value: &Value, duration: &str| moved(value, duration, 1));
    environment.add_filter("minus", |value: &Value, duration: &str| moved(value, duration, -1));
    environment.add_filter("format", format);
    environment.add_filter("timestamp", timestamp);
    environment.add_filter("seconds", seconds);
}

/// A date or a time, or seconds since 1970.
fn instant(value: &Value, filter: &str) -> Result<Micros, Error> {
    let wrong = || invalid(format!("`{filter}` needs a date like 2026-01-31 or a time like 2026-01-31T08:00:00Z"));
    if let Some(text) = value.as_str() {
        let whole = if is_date(text) { time::parse(&format!("{text}T00:00:00Z")) } else { time::parse(text) };
        return whole.ok_or_else(wrong);
    }
    let seconds = value.as_i64().filter(|seconds| value.is_number() && seconds.abs() < 1 << 40).ok_or_else(wrong)?;
    Ok(seconds * 1_000_000)
}

/// The day of a time, in the time's own zone: `2026-01-31T08:00:00Z` is `2026-01-31`.
fn date(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str()
        && let Some(day) = text.get(..10).filter(|day| is_date(day))
        && (text.len() == 10 || matches!(text.as_bytes()[10], b'T' | b't' | b' '))
    {
        return Ok(day.to_owned());
    }
    instant(value, "date").map(|at| time::rfc3339(at)[..10].to_owned())
}

/// The time in UTC; a date begins at midnight.
fn datetime(value: &Value) -> Result<String, Error> {
    instant(value, "datetime").map(time::rfc3339_short)
}

/// A date stays a date, so it moves by whole days.
fn moved(value: &Value, duration: &str, direction: i64) -> Result<String, Error> {
    let filter = if direction > 0 { "plus" } else { "minus" };
    let by = parse_duration(duration)
        .map_err(|cause| invalid(format!("`{filter}` needs a duration like 1d or 90m: {cause}")))?;
    let is_day = value.as_str().is_some_and(is_date);
    if is_day && by % DAY_MS != 0 {
        return Err(invalid(format!("a date moves by whole days; write `| datetime | {filter}(…)` to get a time")));
    }
    let at = instant(value, filter)? + direction * (by as i64) * 1_000;
    if !(i64::from(i32::MIN)..=253_402_300_799).contains(&(at / 1_000_000)) {
        return Err(invalid("the result lies outside the years that can be written"));
    }
    let text = time::rfc3339_short(at);
    Ok(if is_day { text[..10].to_owned() } else { text })
}

/// As `strftime` does, in UTC or in the zone named second.
fn format(value: &Value, format: &str, zone: Option<&str>) -> Result<String, Error> {
    let at = DateTime::<Utc>::from_timestamp_micros(instant(value, "format")?)
        .ok_or_else(|| invalid("the time is out of range"))?;
    if format.len() > MAX_FORMAT || StrftimeItems::new(format).any(|item| matches!(item, Item::Error)) {
        return Err(invalid("`format` needs a format like '%Y-%m-%d'"));
    }
    let mut text = String::new();
    let written = match zone {
        None => write!(text, "{}", at.format(format)),
        Some(zone) => {
            let zone = timezone(zone).map_err(|_| invalid("`format` needs a zone like 'Europe/Paris'"))?;
            let at = zone.instant(at.timestamp_micros()).ok_or_else(|| invalid("the time is out of range"))?;
            let format: Vec<String> =
                format.split("%%").map(|part| part.replace("%Z", &zone.abbreviation(&at))).collect();
            write!(text, "{}", at.format(&format.join("%%")))
        }
    };
    written.map_err(|_| invalid("`format` needs a format like '%Y-%m-%d'"))?;
    spend(text.len())?;
    Ok(text)
}

/// Seconds since 1970.
fn timestamp(value: &Value) -> Result<i64, Error> {
    instant(value, "timestamp").map(|at| at.div_euclid(1_000_000))
}

/// The seconds of a duration: `90m` is 5400.
fn seconds(duration: &str) -> Result<u64, Error> {
    let length = parse_duration(duration).map_err(|cause| invalid(format!("`seconds` needs a duration: {cause}")))?;
    Ok(length / 1_000)
}
