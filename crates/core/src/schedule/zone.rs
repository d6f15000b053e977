//! Timezones: their names, and how local clocks map to instants.
//!
//! Governments change their clocks at short notice, so the tables that were compiled in are only what holds without
//! better ones: the program reads the operating system's and hands them over with [`install`]. What was made of a zone
//! keeps the tables it was made with.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use chrono::{DateTime, FixedOffset, LocalResult, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{GapInfo, Tz};

use crate::Micros;
use crate::diagnostic::{did_you_mean, quoted};

use super::tzif::Transitions;

pub(super) const SECOND: Micros = 1_000_000;

static GENERATION: AtomicU64 = AtomicU64::new(0);
static INSTALLED: LazyLock<RwLock<Arc<ZoneTables>>> = LazyLock::new(RwLock::default);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no timezone {}", quoted(.name))]
pub struct UnknownTimezone {
    pub name: String,
    pub help: String,
}

/// Tables of zones that were read from somewhere; empty ones leave everything to what was compiled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneTables {
    source: String,
    version: String,
    zones: HashMap<String, Arc<Transitions>>,
}

impl ZoneTables {
    /// `source` is where they were read, `version` like `2026a`.
    pub fn new(source: impl Into<String>, version: impl Into<String>) -> Self {
        Self { source: source.into(), version: version.into(), zones: HashMap::new() }
    }

    /// Adds a zone from the bytes of its file; false if they cannot be read or the zone is unknown to the program.
    pub fn add(&mut self, name: &str, file: &[u8]) -> bool {
        let transitions = Transitions::read(file);
        let read = transitions.filter(|_| Tz::from_str(name).is_ok());
        read.map(|transitions| self.zones.insert(name.to_owned(), Arc::new(transitions))).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// The names that can be looked up, for the reader of the files.
    pub fn names() -> impl Iterator<Item = &'static str> {
        chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())
    }
}

/// Which tables are in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneVersion {
    /// A folder, or `bundled`.
    pub source: String,
    pub version: String,
}

/// Uses these tables from now on; true if they differ from those before.
pub fn install_zones(tables: ZoneTables) -> bool {
    let mut installed = INSTALLED.write().unwrap_or_else(PoisonError::into_inner);
    let differs = **installed != tables;
    *installed = Arc::new(tables);
    if differs {
        GENERATION.fetch_add(1, Ordering::Release);
    }
    differs
}

/// Grows whenever other tables are installed: what was made before may say something else.
pub fn zone_generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

pub fn zone_version() -> ZoneVersion {
    let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
    if installed.is_empty() {
        return ZoneVersion { source: "bundled".into(), version: chrono_tz::IANA_TZDB_VERSION.into() };
    }
    ZoneVersion { source: installed.source.clone(), version: installed.version.clone() }
}

/// A zone with its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    named: Tz,
    /// What was installed when the zone was looked up; the compiled tables without.
    table: Option<Arc<Transitions>>,
}

/// The zone of the tz database with exactly this name.
pub fn timezone(name: &str) -> Result<Zone, UnknownTimezone> {
    let named = Tz::from_str(name).map_err(|_| {
        // `Paris` for `Europe/Paris`.
        let same_city = |zone: &&str| zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(name));
        let help = did_you_mean(name, ZoneTables::names())
            .or_else(|| ZoneTables::names().find(same_city).map(|zone| format!("did you mean {}?", quoted(zone))))
            .unwrap_or_else(|| "write a name of the tz database, like `Europe/Paris` or `UTC`".into());
        UnknownTimezone { name: name.to_owned(), help }
    })?;
    let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
    Ok(Zone { named, table: installed.zones.get(name).cloned() })
}

/// An instant as the clocks of a zone show it: `2026-03-29 03:00:00 +02:00`. Empty outside the years of the calendar.
pub fn local(at: Micros, zone: &Zone) -> String {
    zone.instant(at).map(|at| at.format("%Y-%m-%d %H:%M:%S %:z").to_string()).unwrap_or_default()
}

/// Where a local time lies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    Once(Micros),
    /// The clocks go back and show it twice.
    Twice(Micros, Micros),
    /// The clocks jump over it: the first instant after the gap, and what they show then.
    Never(Micros, NaiveDateTime),
}

impl Zone {
    pub fn name(&self) -> &'static str {
        self.named.name()
    }

    /// An instant with the zone's offset. `None` outside the calendar.
    pub fn instant(&self, at: Micros) -> Option<DateTime<FixedOffset>> {
        let utc = DateTime::from_timestamp_micros(at)?;
        let offset = match &self.table {
            None => utc.with_timezone(&self.named).offset().fix(),
            Some(table) => FixedOffset::east_opt(i32::try_from(table.offset(at.div_euclid(SECOND))).ok()?)?,
        };
        // Clocks at the very ends of the calendar would leave it.
        utc.naive_utc().checked_add_offset(offset)?;
        Some(utc.with_timezone(&offset))
    }

    /// `CET`; the offset where the compiled tables, which have the names, disagree about it.
    pub(crate) fn abbreviation(&self, at: &DateTime<FixedOffset>) -> String {
        let named = at.with_timezone(&self.named);
        if named.offset().fix() == *at.offset() {
            return named.format("%Z").to_string();
        }
        at.offset().to_string()
    }

    /// Seconds east of UTC at an instant.
    fn offset(&self, at: Micros) -> Option<i64> {
        self.instant(at).map(|at| i64::from(at.offset().local_minus_utc()))
    }

    /// `None` outside what the calendar can express.
    pub(super) fn resolve(&self, clock: NaiveDateTime) -> Option<Resolved> {
        let Some(table) = &self.table else { return self.resolve_bundled(clock) };
        let local = clock.and_utc();
        let part = Micros::from(local.timestamp_subsec_micros());
        let micros = |seconds: i64| seconds.checked_mul(SECOND)?.checked_add(part);
        Some(match table.resolve(local.timestamp()) {
            Ok((once, None)) => Resolved::Once(micros(once)?),
            Ok((first, Some(second))) => Resolved::Twice(micros(first)?, micros(second)?),
            Err((change, shown)) => {
                Resolved::Never(change.checked_mul(SECOND)?, DateTime::from_timestamp(shown, 0)?.naive_utc())
            }
        })
    }

    fn resolve_bundled(&self, clock: NaiveDateTime) -> Option<Resolved> {
        match self.named.from_local_datetime(&clock) {
            LocalResult::Single(at) => Some(Resolved::Once(at.timestamp_micros())),
            LocalResult::Ambiguous(one, other) => {
                let (one, other) = (one.timestamp_micros(), other.timestamp_micros());
                Some(Resolved::Twice(one.min(other), one.max(other)))
            }
            LocalResult::None => {
                let end = GapInfo::new(&clock, &self.named)?.end?;
                Some(Resolved::Never(end.timestamp_micros(), end.naive_local()))
            }
        }
    }

    /// The first instant whose clocks show this time or, in a gap, the first after the gap.
    pub(super) fn earliest(&self, clock: NaiveDateTime) -> Option<Micros> {
        Some(match self.resolve(clock)? {
            Resolved::Once(at) | Resolved::Twice(at, _) | Resolved::Never(at, _) => at,
        })
    }

    /// The instant after `at` at which the clocks go back, where `at` lies in the first of two passes `width` apart.
    pub(super) fn turned_back(&self, at: Micros, width: Micros) -> Option<Micros> {
        let before = self.offset(at)?;
        // In whole seconds, the only places where clocks are changed.
        let (mut low, mut high) = (at.div_euclid(SECOND), (at + width).div_euclid(SECOND));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.offset(middle * SECOND)? == before { low = middle } else { high = middle }
        }
        Some(high * SECOND)
    }
}
