//! Which local times fit a cron expression: one set of numbers per field, and rules for days.

use chrono::{Datelike, NaiveDate};

use super::fields::CronField;

/// The years that can be asked for.
pub(super) const YEARS: (u32, u32) = (1970, 9999);

/// An expression in the form in which it is compared with clocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pattern {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) months: u64,
    pub(super) days: Vec<DayRule>,
    pub(super) weekdays: Vec<WeekdayRule>,
    /// Day and weekday must both fit: `+` was written. Otherwise either does if both are restricted.
    pub(super) both: bool,
    /// Every year if empty; first, last, step.
    pub(super) years: Vec<(u32, u32, u32)>,
}

/// What a day of the month must be. No rule at all: any day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayRule {
    /// Bit N is day N.
    Days(u64),
    /// This number of days before the last of the month.
    BeforeLast(u32),
    /// The last Monday to Friday of the month.
    LastWeekday,
    /// The Monday to Friday nearest to this day, in the same month.
    Nearest(u32),
}

/// What a weekday must be; Sunday is 0. No rule at all: any day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeekdayRule {
    Weekdays(u64),
    /// The nth of these weekdays in the month.
    Nth(u64, u32),
    /// The last of these weekdays in the month.
    Last(u64),
}

impl Pattern {
    pub(super) fn has_month(&self, month: u32) -> bool {
        self.months & 1 << month != 0
    }

    pub(super) fn has_year(&self, year: i32) -> bool {
        let fits = |(low, high, step): &(u32, u32, u32)| {
            u32::try_from(year).is_ok_and(|year| (*low..=*high).contains(&year) && (year - low).is_multiple_of(*step))
        };
        self.years.is_empty() || self.years.iter().any(fits)
    }

    /// The first year at or after this one.
    pub(super) fn next_year(&self, year: i32) -> Option<i32> {
        if self.years.is_empty() {
            return Some(year);
        }
        let first = year.max(YEARS.0 as i32);
        (first..=YEARS.1 as i32).find(|year| self.has_year(*year))
    }

    pub(super) fn has_day(&self, day: NaiveDate) -> bool {
        let by_day = self.days.iter().any(|rule| rule.fits(day));
        let by_weekday = self.weekdays.iter().any(|rule| rule.fits(day));
        match (self.days.is_empty(), self.weekdays.is_empty()) {
            (true, true) => true,
            (true, false) => by_weekday,
            (false, true) => by_day,
            (false, false) if self.both => by_day && by_weekday,
            (false, false) => by_day || by_weekday,
        }
    }
}

impl DayRule {
    fn fits(self, day: NaiveDate) -> bool {
        let last = u32::from(day.num_days_in_month());
        match self {
            Self::Days(days) => days & 1 << day.day() != 0,
            Self::BeforeLast(before) => day.day() + before == last,
            Self::LastWeekday => working_day(day, last, last) == Some(day.day()),
            Self::Nearest(wanted) => wanted <= last && working_day(day, wanted, last) == Some(day.day()),
        }
    }
}

/// The Monday to Friday nearest to `wanted` in the month of `month`, whose last day is `last`.
fn working_day(month: NaiveDate, wanted: u32, last: u32) -> Option<u32> {
    let weekday = month.with_day(wanted)?.weekday().num_days_from_monday();
    Some(match weekday {
        5 if wanted == 1 => 3,
        5 => wanted - 1,
        6 if wanted == last => wanted - 2,
        6 => wanted + 1,
        _ => wanted,
    })
}

impl WeekdayRule {
    fn fits(self, day: NaiveDate) -> bool {
        let has = |weekdays: u64| weekdays & 1 << day.weekday().num_days_from_sunday() != 0;
        match self {
            Self::Weekdays(weekdays) => has(weekdays),
            Self::Nth(weekdays, nth) => has(weekdays) && (day.day() - 1) / 7 + 1 == nth,
            Self::Last(weekdays) => has(weekdays) && day.day() + 7 > u32::from(day.num_days_in_month()),
        }
    }
}

/// The values of one item without a rule of its own: `*`, `5`, `5/15`, `1-5`, `22-3/2`.
pub(super) fn values(field: CronField, first: u32, last: u32, step: u32) -> u64 {
    let (low, high) = field.bounds();
    // Sunday is 0 and 7; a range that wraps goes on with Monday.
    let high = if field == CronField::Weekday { 6 } else { high };
    let size = high - low + 1;
    let length = if last >= first { last - first } else { last + size - first };
    let mut found = 0;
    let mut at = 0;
    while at <= length {
        found |= 1 << (low + (first - low + at) % size);
        at += step;
    }
    found
}
