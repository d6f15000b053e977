//! Instants as people write them.

use crate::Micros;

const DAY: Micros = 86_400_000_000;

/// `2026-11-15T20:04:05.123456Z`.
pub fn rfc3339(at: Micros) -> String {
    let (year, month, day) = civil(at.div_euclid(DAY));
    let within = at.rem_euclid(DAY);
    let (seconds, micros) = (within / 1_000_000, within % 1_000_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The instant that an RFC 3339 text with a zone names.
pub fn parse(text: &str) -> Option<Micros> {
    // A date alone or a time without a zone would be a guess.
    chrono::DateTime::parse_from_rfc3339(text).ok().map(|at| at.timestamp_micros())
}

/// Like [`rfc3339`], without a fraction that is zero.
pub fn rfc3339_short(at: Micros) -> String {
    let text = rfc3339(at);
    match text.strip_suffix(".000000Z") {
        Some(whole) => format!("{whole}Z"),
        None => text,
    }
}

/// A duration as it is written in a file: `4h`, `1m30s`, `250ms`.
pub fn duration(ms: u64) -> String {
    let parts = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let mut left = ms;
    let mut text = Vec::new();
    for (size, unit) in parts {
        if left >= size {
            text.push(format!("{}{unit}", left / size));
            left %= size;
        }
    }
    if text.is_empty() { "0s".into() } else { text.concat() }
}

/// Reads `500ms`, `30s`, `5m`, `2h`, `1d` or several of them, largest first: `1h30m`. In milliseconds.
pub fn parse_duration(text: &str) -> Result<u64, &'static str> {
    crate::author::parse_duration(text)
}

/// Days since the epoch → (year, month, day), proleptic Gregorian.
pub fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The first instant of a month.
pub fn month_start(year: i64, month: i64) -> Micros {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era - 719_468) * DAY
}

/// The month an instant lies in.
pub fn month_of(at: Micros) -> (i64, i64) {
    let (year, month, _) = civil(at.div_euclid(DAY));
    (year, month)
}

/// A duration such as `90s` or `2h`, in milliseconds.
pub fn parse_duration_ms(text: &str) -> Option<i64> {
    crate::author::parse_duration(text).ok().and_then(|ms| i64::try_from(ms).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(rfc3339(1_582_934_400_000_001), "2020-02-29T00:00:00.000001Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn instants_are_read_with_their_zone() {
        assert_eq!(parse("1970-01-01T01:00:00.000001+01:00"), Some(1));
        assert_eq!(parse("2026-01-31T08:00:00Z").map(rfc3339_short).as_deref(), Some("2026-01-31T08:00:00Z"));
        for bad in ["2026-01-31", "2026-01-31T08:00:00", "2026-02-30T08:00:00Z", "", "now", "1769846400"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn months_start_where_the_one_before_ends() {
        for year in [1970, 1999, 2000, 2024, 2100] {
            for month in 1..=12 {
                let start = month_start(year, month);
                assert_eq!(month_of(start), (year, month));
                assert_ne!(month_of(start - 1), (year, month));
            }
        }
    }
}
