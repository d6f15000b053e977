//! Time zone files as operating systems have them (RFC 9636), and the rule at their end for the years to come.

/// Rules are spelled out up to here; later years keep the last offset, as the bundled tables do.
const LAST_YEAR: i64 = 2099;
const MOST_TRANSITIONS: usize = 20_000;

/// When a zone's clocks are changed, and by how much they differ from UTC before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transitions {
    /// Before the first change.
    first: i64,
    /// Seconds since 1970 → seconds east of UTC from then on; ascending.
    changes: Vec<(i64, i64)>,
}

impl Transitions {
    /// `None` if this is not such a file.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let old = Header::read(bytes)?;
        if old.version < 2 {
            return old.body(bytes.get(Header::LENGTH..)?, 4).map(|(read, _)| read);
        }
        let second = bytes.get(Header::LENGTH + old.body_length(4)..)?;
        let new = Header::read(second)?;
        let (mut read, length) = new.body(second.get(Header::LENGTH..)?, 8)?;
        let footer = second.get(Header::LENGTH + length..).unwrap_or_default();
        let footer = std::str::from_utf8(footer).ok()?.trim_matches('\n');
        if let Some(rule) = Rule::read(footer) {
            rule.extend(&mut read);
        }
        Some(read)
    }

    /// Seconds east of UTC at an instant.
    pub(super) fn offset(&self, at: i64) -> i64 {
        match self.changes.partition_point(|(from, _)| *from <= at) {
            0 => self.first,
            next => self.changes[next - 1].1,
        }
    }

    /// The instants at which clocks show `local` (as seconds), or the change that leaps over it and what is shown then.
    pub(super) fn resolve(&self, local: i64) -> Result<(i64, Option<i64>), (i64, i64)> {
        // No offset is more than a day, so only changes nearby matter.
        const DAY: i64 = 26 * 3_600;
        let start = self.changes.partition_point(|(from, _)| *from < local - DAY);
        let mut before = if start == 0 { self.first } else { self.changes[start - 1].1 };
        let mut found: Vec<i64> = Vec::new();
        let mut leap = None;
        let mut from = i64::MIN;
        for (change, after) in self.changes[start..].iter().take_while(|(from, _)| *from <= local + DAY) {
            let at = local - before;
            if (from..*change).contains(&at) {
                found.push(at);
            }
            if (*change + before..*change + after).contains(&local) {
                leap = Some((*change, *change + after));
            }
            (from, before) = (*change, *after);
        }
        if local - before >= from {
            found.push(local - before);
        }
        match found[..] {
            [] => Err(leap.unwrap_or((local - before, local))),
            [one] => Ok((one, None)),
            [one, .., other] => Ok((one, Some(other))),
        }
    }
}

struct Header {
    version: u8,
    /// isut, isstd, leap, time, type, char
    counts: [usize; 6],
}

impl Header {
    const LENGTH: usize = 44;

    fn read(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(b"TZif") || bytes.len() < Self::LENGTH {
            return None;
        }
        let version = match bytes[4] {
            0 => 1,
            digit => digit.checked_sub(b'0')?,
        };
        let mut counts = [0; 6];
        for (count, part) in counts.iter_mut().zip(bytes[20..44].chunks_exact(4)) {
            *count = usize::try_from(number(part)?).ok().filter(|count| *count <= MOST_TRANSITIONS)?;
        }
        Some(Self { version, counts })
    }

    fn body_length(&self, width: usize) -> usize {
        let [isut, isstd, leap, time, kinds, characters] = self.counts;
        time * (width + 1) + kinds * 6 + characters + leap * (width + 4) + isstd + isut
    }

    /// The changes, and how long the body is.
    fn body(&self, bytes: &[u8], width: usize) -> Option<(Transitions, usize)> {
        let [_, _, _, time, kinds, _] = self.counts;
        let times = bytes.get(..time * width)?;
        let indexes = bytes.get(time * width..time * (width + 1))?;
        let kinds = bytes.get(time * (width + 1)..time * (width + 1) + kinds * 6)?;
        let offset = |kind: usize| number(kinds.get(kind * 6..kind * 6 + 4)?);
        let mut changes = Vec::with_capacity(time);
        for (at, kind) in times.chunks_exact(width).zip(indexes) {
            changes.push((number(at)?, offset(usize::from(*kind))?));
        }
        changes.is_sorted_by_key(|(at, _)| *at).then_some(())?;
        Some((Transitions { first: offset(0)?, changes }, self.body_length(width)))
    }
}

/// A big-endian number of 4 or 8 bytes.
fn number(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [a, b, c, d] => Some(i64::from(i32::from_be_bytes([a, b, c, d]))),
        _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

/// `CET-1CEST,M3.5.0,M10.5.0/3`: what holds after the last change.
struct Rule {
    standard: i64,
    /// The offset in summer, when it begins and when it ends.
    summer: Option<(i64, Day, Day)>,
}

/// A day of the year and the seconds after its midnight.
struct Day {
    kind: DayKind,
    time: i64,
}

enum DayKind {
    /// Month, week (5 is the last), weekday from Sunday.
    Weekday(i64, i64, i64),
    /// 1 to 365, the 29th of February never counted.
    Julian(i64),
    /// 0 to 365.
    Ordinal(i64),
}

impl Rule {
    fn read(text: &str) -> Option<Self> {
        let mut rest = text;
        skip_name(&mut rest)?;
        let standard = -time(&mut rest)?;
        if rest.is_empty() {
            return Some(Self { standard, summer: None });
        }
        skip_name(&mut rest)?;
        let offset = if rest.starts_with(',') { standard + 3_600 } else { -time(&mut rest)? };
        let mut days = rest.strip_prefix(',')?.split(',');
        let (begin, end) = (Day::read(days.next()?)?, Day::read(days.next()?)?);
        Some(Self { standard, summer: Some((offset, begin, end)) })
    }

    fn extend(&self, zone: &mut Transitions) {
        let last = zone.changes.last().map_or(i64::MIN, |(at, _)| *at);
        let Some((offset, begin, end)) = &self.summer else { return };
        let first_year = if last == i64::MIN { 1970 } else { year_of(last) };
        let mut more = Vec::new();
        for year in first_year..=LAST_YEAR {
            more.push((begin.instant(year) - self.standard, *offset));
            more.push((end.instant(year) - offset, self.standard));
        }
        more.sort_unstable();
        // In winter at the end, like the bundled tables.
        zone.changes.extend(more.into_iter().filter(|(at, _)| *at > last));
        zone.changes.dedup_by_key(|(at, _)| *at);
    }
}

impl Day {
    fn read(text: &str) -> Option<Self> {
        let (day, at) = text.split_once('/').map_or((text, None), |(day, at)| (day, Some(at)));
        let time = match at {
            None => 2 * 3_600,
            Some(mut at) => time(&mut at)?,
        };
        let kind = if let Some(rule) = day.strip_prefix('M') {
            let mut parts = rule.split('.').map(|part| part.parse::<i64>().ok());
            let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
            ((1..=12).contains(&month) && (1..=5).contains(&week) && (0..=6).contains(&weekday)).then_some(())?;
            DayKind::Weekday(month, week, weekday)
        } else if let Some(day) = day.strip_prefix('J') {
            DayKind::Julian(day.parse().ok()?)
        } else {
            DayKind::Ordinal(day.parse().ok()?)
        };
        Some(Self { kind, time })
    }

    /// The local time in a year, as seconds.
    fn instant(&self, year: i64) -> i64 {
        let days = match self.kind {
            DayKind::Ordinal(day) => days_from_civil(year, 1, 1) + day,
            DayKind::Julian(day) => days_from_civil(year, 1, 1) + day - 1 + i64::from(is_leap(year) && day >= 60),
            DayKind::Weekday(month, week, weekday) => {
                let first = days_from_civil(year, month, 1);
                // 1970-01-01 was a Thursday.
                let first_weekday = (first + 4).rem_euclid(7);
                let mut day = first + (weekday - first_weekday).rem_euclid(7) + (week - 1) * 7;
                let next =
                    if month == 12 { days_from_civil(year + 1, 1, 1) } else { days_from_civil(year, month + 1, 1) };
                if day >= next {
                    day -= 7;
                }
                day
            }
        };
        days * 86_400 + self.time
    }
}

fn skip_name(rest: &mut &str) -> Option<()> {
    let end = if rest.starts_with('<') {
        rest.find('>')? + 1
    } else {
        rest.find(|one: char| !one.is_ascii_alphabetic()).unwrap_or(rest.len())
    };
    *rest = &rest[end..];
    (end > 0).then_some(())
}

/// `[+-]hh[:mm[:ss]]`
fn time(rest: &mut &str) -> Option<i64> {
    let end = rest.find(|one: char| !(one.is_ascii_digit() || matches!(one, '+' | '-' | ':'))).unwrap_or(rest.len());
    let text = &rest[..end];
    *rest = &rest[end..];
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    for (part, unit) in digits.split(':').zip([3_600, 60, 1]) {
        seconds += part.parse::<i64>().ok()? * unit;
    }
    Some(sign * seconds)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days since 1970 of a date.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn year_of(at: i64) -> i64 {
    let mut year = 1970 + at.div_euclid(31_556_952);
    while days_from_civil(year + 1, 1, 1) * 86_400 <= at {
        year += 1;
    }
    while days_from_civil(year, 1, 1) * 86_400 > at {
        year -= 1;
    }
    year
}
