//! Texts from outside as they may appear on a terminal, and durations as people read them.

/// Without control characters and escape sequences, which could move the cursor or pretend to be our own words.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_escape(&mut characters),
            '\t' => plain.push(' '),
            character if character.is_control() || is_direction(character) => plain.push('·'),
            character => plain.push(character),
        }
    }
    plain
}

/// `ESC [ … letter`, `ESC ] … BEL`, or `ESC` and one more.
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => while characters.next().is_some_and(|character| !('@'..='~').contains(&character)) {},
        Some(']') => while characters.next().is_some_and(|character| !matches!(character, '\u{7}' | '\u{1b}')) {},
        _ => {}
    }
}

fn is_direction(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// How many columns a text takes, nearly: wide scripts and pictures count two.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(column_count).sum()
}

fn column_count(character: char) -> usize {
    match character as u32 {
        0x300..=0x36f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// At most `columns` wide, with `…` where something was left out.
pub(crate) fn clip(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut clipped = String::new();
    let mut taken = 1;
    for character in text.chars() {
        taken += column_count(character);
        if taken > columns {
            break;
        }
        clipped.push(character);
    }
    if columns > 0 {
        clipped.push('…');
    }
    clipped
}

/// `0.1s`, `12.3s`, `4m05s`, `2h03m`.
pub(crate) fn seconds(micros: i64) -> String {
    let micros = micros.max(0);
    let whole = micros / 1_000_000;
    match whole {
        0..60 => format!("{}.{}s", whole, micros % 1_000_000 / 100_000),
        60..3_600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3_600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_is_left() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a\x1b[31mred\x1b[0m", "ared"),
            ("\x1b]0;title\x07after", "after"),
            ("a\rb\nc\0", "a·b·c·"),
            ("\u{202e}evil", "·evil"),
            ("\x1b[", ""),
            ("col\tumn", "col umn"),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn clipping_counts_columns() {
        for (text, columns, expected) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 6, "日本語"), ("日本語", 5, "日本…"), ("ab", 0, "")]
        {
            assert_eq!(clip(text, columns), expected, "{text} {columns}");
            assert!(width(&clip(text, columns)) <= columns);
        }
    }

    #[test]
    fn durations_are_short() {
        for (micros, expected) in [
            (0, "0.0s"),
            (123_456, "0.1s"),
            (59_999_999, "59.9s"),
            (65_000_000, "1m05s"),
            (7_380_000_000, "2h03m"),
            (-5, "0.0s"),
        ] {
            assert_eq!(seconds(micros), expected);
        }
    }
}
