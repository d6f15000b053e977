//! When a trigger fires: cron expressions, intervals, single instants, calendars and what is owed after a pause.
//!
//! Everything is a function of its arguments: no clock, no store. A *nominal* instant is what the schedule says and
//! names the fire; `fire_at` is when it happens, later by the jitter or by a calendar that moves it. Both are whole
//! numbers of microseconds, UTC.

mod calendar;
mod catchup;
mod cron;
mod describe;
mod fields;
mod identity;
mod pattern;
mod timetable;
mod turn;
mod tzif;
mod zone;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use calendar::{Calendar, CalendarAction, CalendarError, CalendarSpec, Window};
pub use catchup::{CatchupFires, DEFAULT_CATCHUP_MAX, MOST_CATCHUP, MOST_COUNTED, Missed};
pub use cron::Cron;
pub use fields::{CronError, CronField};
pub use identity::{identity, jitter};
pub use timetable::{BlackedOut, Fire, Next, Schedule, ScheduleError};
pub use turn::{Advance, GIVE_UP, GRACE, Progress};
pub use zone::{
    UnknownTimezone, Zone, ZoneTables, ZoneVersion, install_zones, local, timezone, zone_generation, zone_version,
};
