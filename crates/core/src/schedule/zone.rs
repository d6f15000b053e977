//! Timezones: their names, and how local clocks map to instants.

use std::str::FromStr;

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{GapInfo, Tz};

use crate::Micros;
use crate::diagnostic::{did_you_mean, quoted};

pub(super) const SECOND: Micros = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no timezone {}", quoted(.name))]
pub struct UnknownTimezone {
    pub name: String,
    pub help: String,
}

/// The zone of the tz database with exactly this name.
pub fn timezone(name: &str) -> Result<Tz, UnknownTimezone> {
    Tz::from_str(name).map_err(|_| {
        let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
        // `Paris` for `Europe/Paris`.
        let same_city = |zone: &&str| zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(name));
        let help = did_you_mean(name, names())
            .or_else(|| names().find(same_city).map(|zone| format!("did you mean {}?", quoted(zone))))
            .unwrap_or_else(|| "write a name of the tz database, like `Europe/Paris` or `UTC`".into());
        UnknownTimezone { name: name.to_owned(), help }
    })
}

/// An instant as the clocks of a zone show it: `2026-03-29 03:00:00 +02:00`. Empty outside the years of the calendar.
pub fn local(at: Micros, zone: Tz) -> String {
    instant(at, zone).map(|at| at.format("%Y-%m-%d %H:%M:%S %:z").to_string()).unwrap_or_default()
}

pub(super) fn instant(at: Micros, zone: Tz) -> Option<DateTime<Tz>> {
    DateTime::from_timestamp_micros(at).map(|at| at.with_timezone(&zone))
}

/// Seconds east of UTC at an instant.
pub(super) fn offset(at: Micros, zone: Tz) -> Option<i64> {
    instant(at, zone).map(|at| i64::from(at.offset().fix().local_minus_utc()))
}

/// Where a local time lies.
pub(super) enum Resolved {
    Once(Micros),
    /// The clocks go back and show it twice.
    Twice(Micros, Micros),
    /// The clocks jump over it: the first instant after the gap, and what they show then.
    Never(Micros, NaiveDateTime),
}

/// `None` outside what the calendar can express.
pub(super) fn resolve(clock: NaiveDateTime, zone: Tz) -> Option<Resolved> {
    match zone.from_local_datetime(&clock) {
        LocalResult::Single(at) => Some(Resolved::Once(at.timestamp_micros())),
        LocalResult::Ambiguous(one, other) => {
            let (one, other) = (one.timestamp_micros(), other.timestamp_micros());
            Some(Resolved::Twice(one.min(other), one.max(other)))
        }
        LocalResult::None => {
            let end = GapInfo::new(&clock, &zone)?.end?;
            Some(Resolved::Never(end.timestamp_micros(), end.naive_local()))
        }
    }
}

/// The first instant whose clocks show this time or, in a gap, the first after the gap.
pub(super) fn earliest(clock: NaiveDateTime, zone: Tz) -> Option<Micros> {
    Some(match resolve(clock, zone)? {
        Resolved::Once(at) | Resolved::Twice(at, _) | Resolved::Never(at, _) => at,
    })
}

/// The instant after `at` at which the clocks go back, where `at` lies in the first of two passes `width` apart.
pub(super) fn turned_back(at: Micros, width: Micros, zone: Tz) -> Option<Micros> {
    let before = offset(at, zone)?;
    // In whole seconds, the only places where clocks are changed.
    let (mut low, mut high) = (at.div_euclid(SECOND), (at + width).div_euclid(SECOND));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if offset(middle * SECOND, zone)? == before { low = middle } else { high = middle }
    }
    Some(high * SECOND)
}
