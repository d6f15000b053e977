//! Helpers for texts and locks that several modules of this crate need.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks even after a panic: guarded state is consistent after every operation.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of a text, at most `limit` characters.
pub(crate) fn last_characters(text: &str, limit: usize) -> &str {
    match text.char_indices().rev().nth(limit.saturating_sub(1)) {
        Some((start, _)) if limit > 0 => &text[start..],
        None if limit > 0 => text,
        _ => "",
    }
}

/// The beginning of a text, at most `limit` characters.
pub(crate) fn first_characters(text: &str, limit: usize) -> &str {
    match text.char_indices().nth(limit) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `1500 ms` for a person: in the largest unit that divides it.
pub(crate) fn duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if milliseconds > 0 && milliseconds.is_multiple_of(size) {
            return format!("{}{unit}", milliseconds / size);
        }
    }
    format!("{milliseconds}ms")
}

/// Reads `500ms 30s 5m 2h 1d 1h30m`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    mainspring_core::time::parse_duration(text.trim()).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["500ms", "30s", "5m", "2h", "1d", "1500ms", "90s"] {
            assert_eq!(duration(parse_duration(text).unwrap()), text);
        }
        for text in ["", "5", "s", "5 s", "-5s", "99999999999999999999s", "18446744073709551615d", "1w"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn ends_of_texts_respect_characters() {
        assert_eq!(last_characters("häßlich", 3), "ich");
        assert_eq!(last_characters("äöü", 2), "öü");
        assert_eq!(last_characters("abc", 3), "abc");
        assert_eq!(last_characters("abc", 9), "abc");
        assert_eq!(last_characters("abc", 0), "");
        assert_eq!(first_characters("äöü", 2), "äö");
        assert_eq!(first_characters("äöü", 5), "äöü");
    }
}
