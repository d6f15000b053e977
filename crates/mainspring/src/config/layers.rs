//! The value of each key, the layer that set it last, and what is wrong with it.

use std::collections::BTreeMap;
use std::fmt;

use super::KEYS;

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawValue {
    Text(String),
    Integer(i64),
    List(Vec<String>),
    Table(Vec<(String, String)>),
}

impl fmt::Display for RawValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => out.write_str(text),
            Self::Integer(number) => number.fmt(out),
            Self::List(items) => out.write_str(&items.join(",")),
            Self::Table(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
                out.write_str(&pairs.join(","))
            }
        }
    }
}

/// Who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    File { name: String, line: usize, column: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(out, "{name}:{line}:{column}"),
            Self::Variable(name) => out.write_str(name),
            Self::Flag(flag) => write!(out, "--{flag}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) word: RawValue,
    pub(crate) source: Source,
}

#[derive(Debug, Default)]
pub(crate) struct Layers {
    settings: BTreeMap<&'static str, Setting>,
    problems: Vec<String>,
    notes: Vec<String>,
}

impl Layers {
    /// A later word replaces an earlier one.
    pub(crate) fn set(&mut self, key: &'static str, word: RawValue, source: Source) {
        debug_assert!(KEYS.iter().any(|known| known.name == key), "{key} is no key");
        self.settings.insert(key, Setting { word, source });
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Setting> {
        self.settings.get(key)
    }

    pub(crate) fn said(&self) -> Vec<(&'static str, Setting)> {
        self.settings.iter().map(|(key, setting)| (*key, setting.clone())).collect()
    }

    /// What the one who starts a server should know, though nothing is wrong.
    pub(crate) fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    pub(crate) fn complain(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// What is wrong with the value of a key, named by where it was said.
    pub(crate) fn complain_about(&mut self, key: &str, cause: impl fmt::Display) {
        let problem = match self.settings.get(key) {
            Some(Setting { word, source }) => {
                let word: String = word.to_string().chars().take(60).collect();
                let name = match source {
                    Source::File { .. } => format!("{source}: `{key}`"),
                    other => other.to_string(),
                };
                format!("{name} is `{word}`, but {cause}")
            }
            None => format!("`{key}`: {cause}"),
        };
        self.problems.push(problem);
    }

    pub(crate) fn into_problems(self) -> Vec<String> {
        self.problems
    }
}
