//! YAML line by line, with remarks.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::Imported;

#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    left_out: usize,
}

impl Writer {
    pub(super) fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    pub(super) fn comment(&mut self, indent: usize, text: &str) {
        for line in text.lines() {
            let line: String = line.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
            self.line(indent, &format!("# {}", line.trim()));
        }
    }

    /// Says what has no counterpart here.
    pub(super) fn left_out(&mut self, indent: usize, what: &str) {
        const LONGEST: usize = 300;
        self.left_out += 1;
        let mut shown: String = what.split_whitespace().collect::<Vec<_>>().join(" ");
        if shown.chars().count() > LONGEST {
            shown = shown.chars().take(LONGEST).chain("…".chars()).collect();
        }
        self.comment(indent, &format!("not carried over: {shown}"));
    }

    pub(super) fn value(&mut self, indent: usize, key: &str, value: &Value) {
        self.line(indent, &format!("{key}: {value}"));
    }

    pub(super) fn text(&mut self, indent: usize, key: &str, text: &str) {
        self.value(indent, key, &text.into());
    }

    /// A script: as lines where YAML can hold it so.
    pub(super) fn script(&mut self, indent: usize, key: &str, script: &str) {
        let script = script.trim_end();
        let is_plain = !script.starts_with([' ', '\n', '#'])
            && !script
                .chars()
                .any(|one| one.is_control() && one != '\n' || matches!(one, '\u{85}' | '\u{2028}' | '\u{feff}'));
        if !is_plain {
            return self.text(indent, key, script);
        }
        self.line(indent, &format!("{key}: |"));
        for line in script.lines() {
            if line.trim().is_empty() {
                self.text.push('\n');
            } else {
                self.line(indent + 2, line);
            }
        }
    }

    pub(super) fn finish(self, name: String) -> Imported {
        Imported { name, text: self.text, left_out: self.left_out }
    }
}

/// Texts become names; no two are the same.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    pub(super) fn name(&mut self, text: &str, otherwise: &str) -> String {
        let base = name(text, otherwise);
        let mut unique = base.clone();
        let mut number = 2;
        while !self.0.insert(unique.clone()) {
            unique = format!("{base}-{number}");
            number += 1;
        }
        unique
    }
}

pub(super) fn name(text: &str, otherwise: &str) -> String {
    let lower = text.to_lowercase();
    let mut name = String::new();
    for character in lower.chars().take(60) {
        match character {
            'a'..='z' | '0'..='9' | '_' | '.' => name.push(character),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let name = name.trim_matches(['-', '_', '.']);
    if name.is_empty() { otherwise.to_owned() } else { name.to_owned() }
}

pub(super) fn is_variable(name: &str) -> bool {
    name.len() <= 128
        && !name.starts_with("MAINSPRING_")
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A scalar as it was written, without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A text without `${{`, which would begin an expression.
pub(super) fn literal(text: &str) -> String {
    text.replace("${{", "$ {{")
}
