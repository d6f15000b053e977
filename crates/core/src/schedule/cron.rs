//! Cron expressions and their instants.
//!
//! croner reads the expression and knows which days fit it; the walk over the days, and what happens where clocks are
//! changed, is here, because it is a promise of ours (see `docs/decisions/0006-cron-and-daylight-saving.md`):
//!
//! - *Fixed*: neither the hour nor the minute field contains `*` or `/`. Each local time fires once: in an overlap at
//!   the first of the two, in a gap at the first instant after the gap. Several times in one gap are one fire.
//! - Everything else follows elapsed time: it fires at every instant whose local time fits, so in both passes of an
//!   overlap and never in a gap.

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};
use chrono_tz::Tz;
use croner::CronPattern;

use crate::Micros;

use super::fields::{self, CronError, Fields};
use super::zone::{self, Resolved, SECOND};

/// A day that exists at all comes again within 40 years: the 29th of February on a given weekday, across 2100.
const HORIZON_YEARS: u32 = 41;
const LAST_YEAR: i32 = 9999;
/// How often one search may run into clock changes: more than all of one zone within the horizon.
const MOST_TURNS: usize = 100_000;

/// An expression with its timezone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    pub(super) fields: Fields,
    pattern: CronPattern,
    zone: Tz,
    fixed: bool,
}

impl Cron {
    /// Five fields, six with seconds before them, or a nickname like `@daily`.
    pub fn parse(text: &str, timezone: &str) -> Result<Self, CronError> {
        let zone = zone::timezone(timezone)?;
        let (fields, pattern) = fields::read(text)?;
        let fixed = fields.0[1..3].iter().all(|field| !field.contains(['*', '/']));
        let cron = Self { fields, pattern, zone, fixed };
        let some_day = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default();
        if cron.next_day(some_day, limit(some_day)).is_none() {
            return Err(CronError::NeverFires);
        }
        Ok(cron)
    }

    pub fn timezone(&self) -> Tz {
        self.zone
    }

    /// Whether hour and minute are fixed: see the module for what that means where clocks are changed.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// In words: `at 02:00 on weekdays`.
    pub fn describe(&self) -> String {
        super::describe::describe(&self.fields.0.each_ref().map(String::as_str))
    }

    /// The first nominal instant strictly after `after`. `None` if there is none within 41 years or before the year
    /// 10000.
    pub fn next_after(&self, after: Micros) -> Option<Micros> {
        let clock = zone::instant(after, self.zone)?.naive_local();
        let until = limit(clock.date());
        if self.fixed { self.next_fixed(after, clock, until) } else { self.next_elapsed(after, clock, until) }
    }

    fn next_fixed(&self, after: Micros, clock: NaiveDateTime, until: NaiveDate) -> Option<Micros> {
        let mut clock = self.next_clock(whole_second_after(clock)?, until)?;
        // Local times are in the order of their instants, so the first that is late enough is the next. Only the
        // second pass of an overlap has times that are not.
        for _ in 0..MOST_TURNS {
            let at = zone::earliest(clock, self.zone)?;
            if at > after {
                return Some(at);
            }
            clock = self.next_clock(whole_second_after(clock)?, until)?;
        }
        None
    }

    fn next_elapsed(&self, after: Micros, clock: NaiveDateTime, until: NaiveDate) -> Option<Micros> {
        let mut from = whole_second_after(clock)?;
        if let Resolved::Twice(first, second) = zone::resolve(clock, self.zone)?
            && first == after
        {
            // In the first pass: what is left of it, then the second from its begin.
            let turn = zone::turned_back(after, second - first, self.zone)?;
            let found = self.next_clock(from, until)?;
            if let Resolved::Twice(first, _) = zone::resolve(found, self.zone)?
                && first > after
                && first < turn
            {
                return Some(first);
            }
            from = zone::instant(turn, self.zone)?.naive_local();
            return self.at_or_after(from, turn, until);
        }
        self.at_or_after(from, after + 1, until)
    }

    /// The first instant not before `earliest` whose clock fits and shows `from` or later.
    fn at_or_after(&self, mut from: NaiveDateTime, earliest: Micros, until: NaiveDate) -> Option<Micros> {
        for _ in 0..MOST_TURNS {
            let clock = self.next_clock(from, until)?;
            match zone::resolve(clock, self.zone)? {
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
            if !self.pattern.month_match(day.month()).unwrap_or(false) {
                day = day.with_day(1)?.checked_add_months(Months::new(1))?;
                continue;
            }
            let weekday = croner_weekday(day);
            if self.pattern.day_match(day.year(), day.month(), day.day(), weekday).unwrap_or(false) {
                return Some(day);
            }
            day = day.checked_add_days(Days::new(1))?;
        }
        None
    }

    /// The first time of a day at or after `from`.
    fn next_time(&self, from: NaiveTime) -> Option<NaiveTime> {
        let hours = (from.hour()..24).filter(|hour| self.pattern.hour_match(*hour).unwrap_or(false));
        for hour in hours {
            let first = if hour == from.hour() { from.minute() } else { 0 };
            for minute in (first..60).filter(|minute| self.pattern.minute_match(*minute).unwrap_or(false)) {
                let same = hour == from.hour() && minute == from.minute();
                let mut seconds = if same { from.second() } else { 0 }..60;
                if let Some(second) = seconds.find(|second| self.pattern.second_match(*second).unwrap_or(false)) {
                    return NaiveTime::from_hms_opt(hour, minute, second);
                }
            }
        }
        None
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

fn croner_weekday(day: NaiveDate) -> croner::Weekday {
    use croner::Weekday::{Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};
    [Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday][day.weekday().num_days_from_monday() as usize]
}
