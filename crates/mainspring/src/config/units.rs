//! Durations and sizes as people write them.

use std::time::Duration;

/// Ten years, as in the workflow dialect.
const LONGEST_MS: u64 = 10 * 365 * 24 * 60 * 60 * 1_000;

/// `500ms 30s 5m 2h 1d`, and several parts from the largest unit down: `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut total, mut last) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_lowercase).count();
        let factor = match &rest[digits..digits + letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let number: u64 = rest[..digits].parse().ok()?;
        if factor >= last {
            return None;
        }
        (total, last) = (total.checked_add(number.checked_mul(factor)?)?, factor);
        rest = &rest[digits + letters..];
    }
    (!text.is_empty() && total <= LONGEST_MS).then(|| Duration::from_millis(total))
}

/// `1048576 64KiB 8MiB 1GiB`.
pub(super) fn parse_size(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let factor = match text[digits..].trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<usize>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read() {
        assert_eq!(parse_duration("3500ms"), Some(Duration::from_millis(3_500)));
        assert_eq!(parse_duration("60s"), Some(Duration::from_secs(60)));
        assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5_400)));
        for wrong in ["", "60", "s", "30m1h", "1h1h", "1h30", "-1s", "99999999999999999999s", "4000d"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
        assert_eq!(parse_size("8MiB"), Some(8 << 20));
        assert_eq!(parse_size("512"), Some(512));
        for wrong in ["", "8MB", "x", "-1", "99999999999GiB"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
