//! Instants that people type: RFC 3339, or how long ago.

use mainspring_core::Micros;
use mainspring_core::diagnostic::quoted;
use mainspring_core::time::month_start;

use crate::config::parse_duration;
use crate::failure::{Failure, Result};

/// `2026-01-31T08:00:00Z`, `2026-01-31`, or `2h` for two hours before `now`.
pub(crate) fn parse_instant(flag: &str, text: &str, now: Micros) -> Result<Micros> {
    if let Some(ago) = parse_duration(text) {
        return Ok(now - ago.as_micros() as Micros);
    }
    rfc3339(text).ok_or_else(|| {
        Failure::bad_input(format!("--{flag} is {}, which is no time", quoted(text)))
            .remedy("write it like 2026-01-31T08:00:00Z, or like 2h for two hours ago")
    })
}

/// `2026-01-31T08:00:00Z`, `2026-01-31`, or `5m` for five minutes after `now`.
pub(crate) fn parse_future(flag: &str, text: &str, now: Micros) -> Result<Micros> {
    if let Some(ahead) = parse_duration(text) {
        return Ok(now.saturating_add(i64::try_from(ahead.as_micros()).unwrap_or(i64::MAX)));
    }
    rfc3339(text).ok_or_else(|| {
        Failure::bad_input(format!("--{flag} is {}, which is no time", quoted(text)))
            .remedy("write it like 2026-01-31T08:00:00Z, or like 5m for in five minutes")
    })
}

fn rfc3339(text: &str) -> Option<Micros> {
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00:00Z"));
    let mut parts = date.splitn(3, '-').map(|part| digits(part, if part.len() == 4 { 4 } else { 2 }));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if date.len() != 10 || !(1..=12).contains(&month) || year < 1970 {
        return None;
    }
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let start = month_start(year, month) + (day - 1) * 86_400_000_000;
    if day < 1 || start >= month_start(next_year, next_month) {
        return None;
    }
    let (time, zone) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let at = time.rfind(['+', '-'])?;
            let (hours, minutes) = time[at + 1..].split_once(':')?;
            let offset = digits(hours, 2)? * 60 + digits(minutes, 2)?;
            (&time[..at], if time[at..].starts_with('-') { -offset } else { offset })
        }
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':').map(|part| digits(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}")[..6].parse().ok()?;
    Some(start + ((hour * 60 + minute - zone) * 60 + second) * 1_000_000 + micros)
}

fn digits(text: &str, length: usize) -> Option<i64> {
    (text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use mainspring_core::time;

    use super::rfc3339;

    #[test]
    fn what_is_written_reads_back() {
        for at in [0, 1_582_934_400_000_001, 1_780_000_000_123_456] {
            assert_eq!(rfc3339(&time::rfc3339(at)), Some(at));
        }
        assert_eq!(rfc3339("2026-01-31T09:00:00+01:00"), rfc3339("2026-01-31T08:00:00.000Z"));
        assert_eq!(rfc3339("2026-01-31"), rfc3339("2026-01-31T00:00:00Z"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in
            ["", "now", "2026-02-30", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T25:00:00Z", "1-1-1"]
        {
            assert_eq!(rfc3339(wrong), None, "{wrong}");
        }
    }
}
