//! Cron expressions and their instants.
//!
//! What happens where clocks are changed is a promise of ours (see `docs/decisions/0006-cron-and-daylight-saving.md`):
//!
//! - *Fixed*: neither the hour nor the minute field begins with `*`. Each local time fires once: in an overlap at
//!   the first of the two, in a gap at the first instant after the gap. Several times in one gap are one fire.
//! - Everything else follows elapsed time: it fires at every instant whose local time fits, so in both passes of an
//!   overlap and never in a gap.

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

use crate::Micros;

use super::fields::{self, CronError, Fields};
use super::pattern::Pattern;
use super::zone::{self, Resolved, SECOND, Zone};

/// A day that exists at all comes again within 40 years: the 29th of February on a given weekday, across 2100.
const HORIZON_YEARS: u32 = 41;
const LAST_YEAR: i32 = 9999;
/// How often one search may run into clock changes: more than all of one zone within the horizon.
const MOST_TURNS: usize = 100_000;

/// An expression with its timezone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    pub(super) fields: Fields,
    pattern: Pattern,
    zone: Zone,
    fixed: bool,
    warnings: Vec<String>,
}

impl Cron {
    /// Five fields, six with seconds before them, seven with years behind, or a nickname like `@daily`.
    pub fn parse(text: &str, timezone: &str) -> Result<Self, CronError> {
        let zone = zone::timezone(timezone)?;
        let (fields, pattern, warnings) = fields::read(text)?;
        let fixed = fields.0[1..3].iter().all(|field| !field.starts_with('*'));
        let cron = Self { fields, pattern, zone, fixed, warnings };
        let some_day = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default();
        if cron.next_day(some_day, cron.limit(some_day)).is_none() {
            return Err(CronError::NeverFires);
        }
        Ok(cron)
    }

    pub fn timezone(&self) -> &Zone {
        &self.zone
    }

    /// Whether hour and minute are fixed: see the module for what that means where clocks are changed.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// What is legal but hardly meant, in words.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// In words: `at 02:00 on weekdays`.
    pub fn describe(&self) -> String {
        super::describe::describe(&self.fields.0.each_ref().map(String::as_str))
    }

    /// The first nominal instant strictly after `after`. `None` if there is none within 41 years or before the year
    /// 10000.
    pub fn next_after(&self, after: Micros) -> Option<Micros> {
        let clock = self.zone.instant(after)?.naive_local();
        let until = self.limit(clock.date());
        if self.fixed { self.next_fixed(after, clock, until) } else { self.next_elapsed(after, clock, until) }
    }

    fn next_fixed(&self, after: Micros, clock: NaiveDateTime, until: NaiveDate) -> Option<Micros> {
        let mut clock = self.next_clock(whole_second_after(clock)?, until)?;
        // Local times are in the order of their instants, so the first that is late enough is the next. Only the
        // second pass of an overlap has times that are not.
        for _ in 0..MOST_TURNS {
            let at = self.zone.earliest(clock)?;
            if at > after {
                return Some(at);
            }
            clock = self.next_clock(whole_second_after(clock)?, until)?;
        }
        None
    }

    fn next_elapsed(&self, after: Micros, clock: NaiveDateTime, until: NaiveDate) -> Option<Micros> {
        let mut from = whole_second_after(clock)?;
        if let Resolved::Twice(first, second) = self.zone.resolve(clock)?
            && first == after
        {
            // In the first pass: what is left of it, then the second from its begin.
            let turn = self.zone.turned_back(after, second - first)?;
            let found = self.next_clock(from, until)?;
            if let Resolved::Twice(first, _) = self.zone.resolve(found)?
                && first > after
                && first < turn
            {
                return Some(first);
            }
            from = self.zone.instant(turn)?.naive_local();
            return self.at_or_after(from, turn, until);
        }
        self.at_or_after(from, after + 1, until)
    }

    /// The first instant not before `earliest` whose clock fits and shows `from` or later.
    fn at_or_after(&self, mut from: NaiveDateTime, earliest: Micros, until: NaiveDate) -> Option<Micros> {
        for _ in 0..MOST_TURNS {
            let clock = self.next_clock(from, until)?;
            match self.zone.resolve(clock)? {
                Resolved::Once(at) | Resolved::Twice(at, _) if at >= earliest => return Some(at),
                Resolved::Twice(_, at) if at >= earliest => return Some(at),
                Resolved::Once(_) | Resolved::Twice(..) => from = whole_second_after(clock)?,
                Resolved::Never(_, shown) => from = shown,
            }
        }
        None
    }

    /// The first local time at or after `from` that fits; whether it exists is not asked.
    fn next_clock(&self, from: NaiveDateTime, until: NaiveDate) -> Option<NaiveDateTime> {
        let today = self.next_day(from.date(), until)?;
        if today == from.date()
            && let Some(time) = self.next_time(from.time())
        {
            return Some(today.and_time(time));
        }
        let day = if today == from.date() { self.next_day(today.succ_opt()?, until)? } else { today };
        Some(day.and_time(self.next_time(NaiveTime::MIN)?))
    }

    /// Whether a local time fits; only for comparing with a naive search.
    #[cfg(test)]
    pub(super) fn fits(&self, clock: NaiveDateTime) -> bool {
        self.next_clock(clock, clock.date()) == Some(clock)
    }

    fn next_day(&self, from: NaiveDate, until: NaiveDate) -> Option<NaiveDate> {
        let mut day = from;
        while day <= until {
            if !self.pattern.has_year(day.year()) {
                day = NaiveDate::from_ymd_opt(self.pattern.next_year(day.year())?, 1, 1)?;
                continue;
            }
            if !self.pattern.has_month(day.month()) {
                day = day.with_day(1)?.checked_add_months(Months::new(1))?;
                continue;
            }
            if self.pattern.has_day(day) {
                return Some(day);
            }
            day = day.checked_add_days(Days::new(1))?;
        }
        None
    }

    /// The first time of a day at or after `from`.
    fn next_time(&self, from: NaiveTime) -> Option<NaiveTime> {
        let hours = (from.hour()..24).filter(|hour| self.pattern.hours & 1 << hour != 0);
        for hour in hours {
            let first = if hour == from.hour() { from.minute() } else { 0 };
            for minute in (first..60).filter(|minute| self.pattern.minutes & 1 << minute != 0) {
                let same = hour == from.hour() && minute == from.minute();
                let mut seconds = if same { from.second() } else { 0 }..60;
                if let Some(second) = seconds.find(|second| self.pattern.seconds & 1 << second != 0) {
                    return NaiveTime::from_hms_opt(hour, minute, second);
                }
            }
        }
        None
    }
}

impl Cron {
    /// How far a search from this day goes: a restricted year may lie far ahead.
    fn limit(&self, from: NaiveDate) -> NaiveDate {
        let year = self.pattern.next_year(from.year()).and_then(|year| NaiveDate::from_ymd_opt(year, 1, 1));
        limit(year.map_or(from, |year| year.max(from)))
    }
}

fn limit(from: NaiveDate) -> NaiveDate {
    let end = NaiveDate::from_ymd_opt(LAST_YEAR, 12, 31).unwrap_or(NaiveDate::MAX);
    from.checked_add_months(Months::new(HORIZON_YEARS * 12)).map_or(end, |until| until.min(end))
}

/// The first whole second that is later.
fn whole_second_after(clock: NaiveDateTime) -> Option<NaiveDateTime> {
    clock.with_nanosecond(0)?.checked_add_signed(TimeDelta::microseconds(SECOND))
}
