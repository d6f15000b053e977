//! The small grammars: names, durations, priorities, plain scalars.

use serde_json::{Number, Value};

/// Ten years: longer than any sensible timeout, far from overflowing microseconds.
pub(super) const MAX_DURATION_MS: u64 = 10 * 365 * 24 * 60 * 60 * 1_000;

pub(super) const NAME_RULE: &str =
    "names begin with a-z or 0-9, go on with a-z 0-9 _ . - and have at most 128 characters";
pub(super) const IDENTIFIER_RULE: &str = "write letters, digits and `_`, not beginning with a digit, at most 128";

/// `^[a-z0-9][a-z0-9_.-]{0,127}$`
pub(crate) fn is_name(text: &str) -> bool {
    let start = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 128
        && text.as_bytes().first().is_some_and(start)
        && text.bytes().all(|byte| start(&byte) || matches!(byte, b'_' | b'.' | b'-'))
}

/// `^[A-Za-z_][A-Za-z0-9_]{0,127}$`
pub(super) fn is_identifier(text: &str) -> bool {
    text.len() <= 128
        && text.as_bytes().first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

pub(super) const INPUT_NAME_RULE: &str =
    "write letters, digits, `_`, `-` and `.`, beginning with a letter or `_`, not ending with `-` or `.`, at most 128";

/// `^[A-Za-z_]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?$`
pub(super) fn is_input_name(text: &str) -> bool {
    text.len() <= 128
        && text.as_bytes().first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && text.as_bytes().last().is_some_and(|byte| !matches!(byte, b'-' | b'.'))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// `500ms 30s 5m 2h 1d`, or several of them with the largest first (`1h30m`), in milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<u64, &'static str> {
    const TOO_LONG: &str = "a duration is at most ten years";
    let mut total: u64 = 0;
    let mut smallest = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() || smallest == u64::MAX {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let factor = match &rest[digits..digits + letters] {
            _ if digits == 0 => return Err("a duration is a number and a unit"),
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "" if digits == rest.len() => return Err("a duration needs a unit"),
            _ => return Err("the units are ms, s, m, h and d"),
        };
        if factor >= smallest {
            return Err("the units go from large to small, as in `1h30m`");
        }
        smallest = factor;
        let number: u64 = rest[..digits].parse().map_err(|_| TOO_LONG)?;
        let part = number.checked_mul(factor).ok_or(TOO_LONG)?;
        total = total.checked_add(part).filter(|total| *total <= MAX_DURATION_MS).ok_or(TOO_LONG)?;
        rest = &rest[digits + letters..];
    }
    Ok(total)
}

/// `512KiB 64MiB 2GiB 1GB 100`, in bytes. The letter `B` may be left out.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let factor: u64 = match text[digits..].trim_start().strip_suffix('B').unwrap_or(text[digits..].trim_start()) {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "K" | "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor).filter(|size| *size <= i64::MAX as u64)
}

pub(super) const PRIORITIES: [(&str, i16); 4] = [("low", 250), ("medium", 500), ("high", 750), ("critical", 1000)];

/// What a plain scalar means in YAML's core schema. `None`: a number that JSON cannot hold.
pub(super) fn plain_value(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if looks_like_integer(text) => match text.parse::<i64>() {
            Ok(number) => Value::Number(number.into()),
            Err(_) => Value::Number(text.parse::<u64>().ok()?.into()),
        },
        _ if looks_like_float(text) => Value::Number(text.parse().ok().and_then(Number::from_f64)?),
        _ => Value::String(text.to_owned()),
    })
}

fn looks_like_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn looks_like_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    unsigned.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.')
        && unsigned.bytes().any(|byte| byte.is_ascii_digit())
        && unsigned.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'))
        && unsigned.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["a", "0", "load-orders_2.x", &"a".repeat(128)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", ".a", "..", "A", "a b", "a/b", "ä", "a\u{200b}", "a\0", "%2f", &"a".repeat(129)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, expected) in [
            ("500ms", Ok(500)),
            ("30s", Ok(30_000)),
            ("5m", Ok(300_000)),
            ("2h", Ok(7_200_000)),
            ("1d", Ok(86_400_000)),
            ("0s", Ok(0)),
            ("30", Err("a duration needs a unit")),
            ("s", Err("a duration is a number and a unit")),
            ("-1s", Err("a duration is a number and a unit")),
            ("1h30m", Ok(5_400_000)),
            ("1d2h3m4s5ms", Ok(93_784_005)),
            ("30m1h", Err("the units go from large to small, as in `1h30m`")),
            ("1h1h", Err("the units go from large to small, as in `1h30m`")),
            ("1h30", Err("a duration needs a unit")),
            ("1w", Err("the units are ms, s, m, h and d")),
            ("1.5h", Err("the units are ms, s, m, h and d")),
            ("", Err("a duration is a number and a unit")),
            ("99999999999999999999s", Err("a duration is at most ten years")),
            ("18446744073709551615d", Err("a duration is at most ten years")),
            ("4000d", Err("a duration is at most ten years")),
        ] {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes() {
        for (text, expected) in [
            ("100", Some(100)),
            ("512KiB", Some(524_288)),
            ("64Mi", Some(67_108_864)),
            ("2 GiB", Some(2_147_483_648)),
            ("1kB", Some(1_000)),
            ("1GB", Some(1_000_000_000)),
            ("10B", Some(10)),
            ("", None),
            ("MiB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("true", json!(true)),
            ("yes", json!("yes")),
            ("12", json!(12)),
            ("-3", json!(-3)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("1.5", json!(1.5)),
            ("1e3", json!(1000.0)),
            ("1.2.3", json!("1.2.3")),
            ("2026-01-01", json!("2026-01-01")),
            (".", json!(".")),
            ("-", json!("-")),
        ] {
            assert_eq!(plain_value(text), Some(expected), "{text}");
        }
        assert_eq!(plain_value("99999999999999999999"), None);
        assert_eq!(plain_value("1e999"), None);
    }
}
