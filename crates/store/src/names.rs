//! Names for the numbers in SQL: a text says `{task.ready}`, `{run_flag.followed}` or `{stage.finally}`, and the number comes
//! from the Rust type that the name is generated from.
//!
//! Statements in Rust are rendered at compile time by [`sql!`], where a name that does not exist is a compile error. The files
//! under `sql/` are rendered when they are installed. Literal numbers, not parameters, because partial indexes are only
//! used by statements that repeat their condition.

use mainspring_core::dead_letter::{Reason, Resolution};
use mainspring_core::rule::TriggerRule;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::workflow::{CacheKind, Stage};

use crate::runs::flags;

const GROUPS: &[(&str, &[(&str, i16)])] = &[
    ("task", TaskState::CODES),
    ("run", RunState::CODES),
    ("stage", Stage::CODES),
    ("rule", TriggerRule::CODES),
    ("task_flag", flags::TASK_FLAGS),
    ("run_flag", flags::RUN_FLAGS),
    ("limit", &[("pool", 0), ("concurrency", 1)]),
    ("attempt", &[("failed", 0), ("lost", 1), ("released", 2)]),
    ("wait", &[("timer", 0), ("event", 1), ("approval", 2), ("result", 3), ("child", 4), ("items", 5)]),
    ("waited", &[("badly", 0), ("well", 1), ("moot", 2)]),
    ("continuation", &[("create", 0), ("admit", 1), ("cancel", 2), ("fan_out", 3), ("cancel_child", 4)]),
    ("transition", &[("admitted", 0), ("stage", 1), ("ended", 2), ("timed_out", 3), ("cancelled", 4)]),
    ("letter", Resolution::CODES),
    ("letter_reason", Reason::CODES),
    ("cache", CacheKind::CODES),
    ("fire", &[("fired", 0), ("skipped", 1), ("missed", 2), ("blacked_out", 3), ("failed", 4)]),
    ("verdict", &[("wait", 0), ("start", 1)]),
    ("counts", &[("succeeded", 1), ("failed", 2), ("skipped", 3)]),
    ("answer", crate::postgres::ANSWERS),
];

/// The statement with numbers in place of names, at compile time.
macro_rules! sql {
    ($text:expr) => {{
        const NAMED: &str = $text;
        const BYTES: [u8; $crate::names::rendered_length(NAMED)] = $crate::names::rendered(NAMED);
        const RENDERED: &str = match ::core::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("a statement is not UTF-8"),
        };
        RENDERED
    }};
}
pub(crate) use sql;

/// The state that a task run takes up when nothing of its dependencies keeps it from starting, from expressions that say
/// whether its run is running, its flags and its pool. The twin of [`TaskState::startable`] and of `startable_v1`.
macro_rules! startable {
    ($run_is_running:literal, $flags:literal, $pool:literal) => {
        concat!(
            "CASE WHEN NOT (",
            $run_is_running,
            ") THEN {task.held} WHEN ",
            $flags,
            " & {task_flag.has_condition} <> 0 THEN {task.deciding} WHEN ",
            $pool,
            " IS NOT NULL THEN {task.gated} ELSE {task.ready} END"
        )
    };
}
pub(crate) use startable;

/// Names the states and flags in a text that is read at run time.
pub(crate) fn render(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut rendered = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        match placeholder(bytes, at) {
            Some((end, number)) => {
                rendered.push_str(&text[copied..at]);
                rendered.push_str(&number.to_string());
                (at, copied) = (end, end);
            }
            None => at += 1,
        }
    }
    rendered.push_str(&text[copied..]);
    rendered
}

pub(crate) const fn rendered_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut length) = (0, 0);
    while at < bytes.len() {
        match placeholder(bytes, at) {
            Some((end, number)) => {
                length += digits(number);
                at = end;
            }
            None => {
                length += 1;
                at += 1;
            }
        }
    }
    length
}

pub(crate) const fn rendered<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    let mut out = [0; N];
    let (mut at, mut to) = (0, 0);
    while at < bytes.len() {
        match placeholder(bytes, at) {
            Some((end, number)) => {
                let count = digits(number);
                let (mut rest, mut place) = (number, to + count);
                while place > to {
                    place -= 1;
                    out[place] = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
                to += count;
                at = end;
            }
            None => {
                out[to] = bytes[at];
                to += 1;
                at += 1;
            }
        }
    }
    out
}

const fn digits(number: i16) -> usize {
    let (mut rest, mut count) = (number / 10, 1);
    while rest > 0 {
        rest /= 10;
        count += 1;
    }
    count
}

/// Where the placeholder that begins here ends, and its number. `{}` and other braces are none.
const fn placeholder(text: &[u8], start: usize) -> Option<(usize, i16)> {
    if text[start] != b'{' {
        return None;
    }
    let (mut end, mut dot) = (start + 1, 0);
    while end < text.len() && (text[end] == b'.' || text[end] == b'_' || text[end].is_ascii_lowercase()) {
        if text[end] == b'.' {
            dot = end;
        }
        end += 1;
    }
    if dot == 0 || end == text.len() || text[end] != b'}' {
        return None;
    }
    Some((end + 1, number(text, (start + 1, dot), (dot + 1, end))))
}

const fn number(text: &[u8], group: (usize, usize), name: (usize, usize)) -> i16 {
    let mut g = 0;
    while g < GROUPS.len() {
        if is_word(text, group, GROUPS[g].0) {
            let names = GROUPS[g].1;
            let mut n = 0;
            while n < names.len() {
                if is_word(text, name, names[n].0) {
                    return names[n].1;
                }
                n += 1;
            }
        }
        g += 1;
    }
    panic!("a statement names a state or flag that does not exist")
}

const fn is_word(text: &[u8], (start, end): (usize, usize), word: &str) -> bool {
    let word = word.as_bytes();
    if end - start != word.len() {
        return false;
    }
    let mut at = 0;
    while at < word.len() {
        if text[start + at] != word[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text with SQL: the files, and the sources with statements.
    fn texts(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                texts(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs" || end == "sql") {
                found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }

    /// What is compared with a bare number: the column's name, an index, an operator, a digit. No flags at all is a number of its own.
    fn bare_number(line: &str) -> bool {
        ["state", "stage", "flags"].iter().any(|column| {
            line.match_indices(column).any(|(at, _)| {
                let rest = &line[at + column.len()..];
                let rest = rest.strip_prefix("[i]").or_else(|| rest.strip_prefix("[1]")).unwrap_or(rest);
                let Some(rest) = rest.strip_prefix(' ') else { return false };
                let operator = rest.split(' ').next().unwrap_or_default();
                let operand = rest[operator.len()..].trim_start().trim_start_matches(['(', '-', '~']);
                let is_number = operand.starts_with(|first: char| first.is_ascii_digit());
                let is_compared = ["=", "<>", "<", ">", "<=", ">=", "&", "|", "IN", "BETWEEN"].contains(&operator);
                let is_no_flags = *column == "flags" && operand.starts_with('0');
                is_number && is_compared && !is_no_flags
            })
        })
    }

    #[test]
    fn states_stages_and_flags_are_named() {
        assert!(bare_number("WHERE r.state = 3 AND"));
        assert!(bare_number("u.flags & 384 <> 0"));
        assert!(bare_number("r_state[i] >= 3"));
        assert!(bare_number("state IN (1, 2)"));
        assert!(!bare_number("state = {task.ready} AND flags & {task_flag.expanded} <> 0 AND flags <> 0"));
        let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        texts(&crate_folder.join("src"), &mut found);
        texts(&crate_folder.join("sql"), &mut found);
        let bare: Vec<String> = found
            .iter()
            .filter(|(path, _)| !path.ends_with("names.rs"))
            .flat_map(|(path, text)| {
                text.lines().filter(|line| bare_number(line)).map(move |line| format!("{path}: {line}"))
            })
            .collect();
        assert!(bare.is_empty(), "bare numbers where names belong:\n{}", bare.join("\n"));
    }

    #[test]
    fn names_become_numbers() {
        const TEXT: &str =
            "state = {task.waiting} AND flags & {run_flag.followed} <> 0 OR x = '{}' AND y = '{pending}'";
        let expected = "state = 8 AND flags & 256 <> 0 OR x = '{}' AND y = '{pending}'";
        assert_eq!(sql!(TEXT), expected);
        assert_eq!(render(TEXT), expected);
    }
}
