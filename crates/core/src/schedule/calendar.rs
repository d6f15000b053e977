//! Days and windows on which nothing fires.

use std::collections::BTreeSet;

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::Micros;
use crate::diagnostic::quoted;
use crate::state::{UnknownState, coded_enum};
use crate::workflow::DEFAULT_TIMEZONE;

use super::zone::{self, UnknownTimezone, Zone};

/// A calendar that is closed for longer than this never opens again.
const LONGEST_CLOSED_DAYS: usize = 1_100;
const MOST_WINDOWS: usize = 10_000;
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

coded_enum! {
    /// What becomes of a fire on a closed day.
    CalendarAction("action of a calendar") {
        Skip = 0 "skip",
        Move = 1 "move",
    }
}

/// A calendar as it is written and stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// Where its days begin; UTC unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// `2026-12-25`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
    /// Closed in every week: `sat`, `sun`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weekdays: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    pub action: CalendarAction,
}

/// Closed from the first instant up to, not including, the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub from: Micros,
    pub to: Micros,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    #[error(transparent)]
    Timezone(#[from] UnknownTimezone),
    #[error("days[{index}] {} is not a day like `2026-12-25`", quoted(.text))]
    Day { index: usize, text: String },
    #[error("weekdays[{index}] {} is not one of mon, tue, wed, thu, fri, sat, sun", quoted(.text))]
    Weekday { index: usize, text: String },
    #[error("windows[{index}] does not end after it begins")]
    Window { index: usize },
    #[error("a calendar has at most {MOST_WINDOWS} windows")]
    TooManyWindows,
    #[error("every weekday is closed, so nothing could ever fire")]
    AlwaysClosed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    zone: Zone,
    days: BTreeSet<NaiveDate>,
    /// By days from Monday.
    weekdays: [bool; 7],
    /// In order and apart from each other.
    windows: Vec<Window>,
    action: CalendarAction,
}

impl Calendar {
    pub fn new(spec: &CalendarSpec) -> Result<Self, CalendarError> {
        let zone = zone::timezone(spec.timezone.as_deref().unwrap_or(DEFAULT_TIMEZONE))?;
        let mut days = BTreeSet::new();
        for (index, text) in spec.days.iter().enumerate() {
            let day = NaiveDate::parse_from_str(text, "%Y-%m-%d");
            days.insert(day.map_err(|_| CalendarError::Day { index, text: text.clone() })?);
        }
        let mut weekdays = [false; 7];
        for (index, text) in spec.weekdays.iter().enumerate() {
            let known = WEEKDAYS.iter().position(|name| name.eq_ignore_ascii_case(text));
            weekdays[known.ok_or_else(|| CalendarError::Weekday { index, text: text.clone() })?] = true;
        }
        if weekdays == [true; 7] {
            return Err(CalendarError::AlwaysClosed);
        }
        Ok(Self { zone, days, weekdays, windows: merged(&spec.windows)?, action: spec.action })
    }

    pub fn action(&self) -> CalendarAction {
        self.action
    }

    pub fn is_closed(&self, at: Micros) -> bool {
        self.window(at).is_some() || self.zone.instant(at).is_some_and(|at| self.closes(at.date_naive()))
    }

    /// The first open instant at or after `at`; `None` if the calendar stays closed for more than three years of days.
    pub fn opens(&self, at: Micros) -> Option<Micros> {
        let mut at = at;
        for _ in 0..LONGEST_CLOSED_DAYS + self.windows.len() {
            if let Some(window) = self.window(at) {
                at = window.to;
            } else {
                let day = self.zone.instant(at)?.date_naive();
                if !self.closes(day) {
                    return Some(at);
                }
                at = self.begin(day.succ_opt()?)?;
            }
        }
        None
    }

    /// The first instant of the closed time around `at`, which is closed.
    pub(super) fn closed_since(&self, at: Micros) -> Option<Micros> {
        let mut since = at;
        for _ in 0..LONGEST_CLOSED_DAYS + self.windows.len() {
            // What lies right before decides, so that a window and a day that touch are one closed time.
            let before = since - 1;
            if let Some(window) = self.window(if since == at { at } else { before }) {
                since = window.from.min(since);
            } else {
                let day = self.zone.instant(if since == at { at } else { before })?.date_naive();
                if !self.closes(day) {
                    return Some(since);
                }
                since = self.begin(day)?.min(since);
            }
            if !self.is_closed(since - 1) {
                return Some(since);
            }
        }
        Some(since)
    }

    /// Where a fire at `at`, which is closed, moves to: the same local time on the first day that is open, or the end
    /// of the window that this falls into.
    pub(super) fn moved(&self, at: Micros) -> Option<Micros> {
        let opens = self.opens(at)?;
        let time = self.zone.instant(at)?.time();
        let day = self.zone.instant(opens)?.date_naive();
        let same_time = self.zone.earliest(day.and_time(time))?;
        self.opens(same_time.max(opens))
    }

    fn closes(&self, day: NaiveDate) -> bool {
        self.weekdays[day.weekday().num_days_from_monday() as usize] || self.days.contains(&day)
    }

    fn begin(&self, day: NaiveDate) -> Option<Micros> {
        self.zone.earliest(day.and_hms_opt(0, 0, 0)?)
    }

    fn window(&self, at: Micros) -> Option<&Window> {
        let next = self.windows.partition_point(|window| window.from <= at);
        next.checked_sub(1).map(|last| &self.windows[last]).filter(|window| at < window.to)
    }
}

fn merged(windows: &[Window]) -> Result<Vec<Window>, CalendarError> {
    if windows.len() > MOST_WINDOWS {
        return Err(CalendarError::TooManyWindows);
    }
    if let Some(index) = windows.iter().position(|window| window.to <= window.from) {
        return Err(CalendarError::Window { index });
    }
    let mut sorted = windows.to_vec();
    sorted.sort_unstable_by_key(|window| window.from);
    let mut merged: Vec<Window> = Vec::with_capacity(sorted.len());
    for window in sorted {
        match merged.last_mut() {
            Some(last) if window.from <= last.to => last.to = last.to.max(window.to),
            _ => merged.push(window),
        }
    }
    Ok(merged)
}
