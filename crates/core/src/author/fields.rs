//! Typed reading of nodes: each function gives a value, or reports why there is none.

use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::diagnostic::{Place, Report, did_you_mean, quoted};
use crate::expr::has_expression;
use crate::yaml::{Kind, Node, NodeId, Style, Tree};

use super::dialect::Table;
use super::other_words::other_word;
use super::values::{IDENTIFIER_RULE, NAME_RULE, PRIORITIES, is_identifier, is_name, parse_duration, plain_value};

/// The longest text of a description, a label or a variable.
const MAX_TEXT: usize = 64 * 1024;
const MAX_SCRIPT: usize = 1024 * 1024;

/// The way from the root to a node; written out only for a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    segment: Segment<'p>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl Path<'_> {
    fn is_root(&self) -> bool {
        matches!(self.segment, Segment::Root)
    }
}

impl Path<'static> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, segment: Segment::Root };
}

impl<'p> Path<'p> {
    pub(super) fn key(&'p self, key: &'p str) -> Path<'p> {
        Path { parent: Some(self), segment: Segment::Key(key) }
    }

    /// The key it ends with.
    pub(super) fn last(&self) -> &'p str {
        match self.segment {
            Segment::Key(key) => key,
            _ => "",
        }
    }

    pub(super) fn index(&'p self, index: usize) -> Path<'p> {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            // As deep as the text is nested, which the reader bounds.
            parent.fmt(out)?;
        }
        match self.segment {
            Segment::Root => Ok(()),
            Segment::Key(key) => {
                let shown: String = key.chars().take(128).collect();
                write!(out, "/{}", shown.replace('~', "~0").replace('/', "~1"))
            }
            Segment::Index(index) => write!(out, "/{index}"),
        }
    }
}

/// Reads nodes of one tree.
pub(super) struct Reader<'t, 'r> {
    pub(super) tree: &'t Tree<'t>,
    pub(super) report: &'r mut Report,
}

impl<'t> Reader<'t, '_> {
    pub(super) fn node(&self, id: NodeId) -> &'t Node<'t> {
        self.tree.node(id)
    }

    pub(super) fn place(&self, id: NodeId) -> Place {
        self.tree.node(id).place
    }

    pub(super) fn is_null(&self, id: NodeId) -> bool {
        matches!(&self.node(id).kind, Kind::Scalar { text, style: Style::Plain } if plain_value(text) == Some(Value::Null))
    }

    pub(super) fn describe(&self, id: NodeId) -> &'static str {
        match &self.node(id).kind {
            Kind::Sequence(_) => "a list",
            Kind::Mapping(_) => "a mapping",
            Kind::Scalar { .. } if self.is_null(id) => "nothing",
            Kind::Scalar { text, style: Style::Plain } => match plain_value(text) {
                Some(Value::Bool(_)) => "true or false",
                Some(Value::Number(_)) => "a number",
                _ => "a text",
            },
            Kind::Scalar { .. } => "a text",
        }
    }

    pub(super) fn wrong_type(&mut self, id: NodeId, path: Path<'_>, expected: &str) {
        let what = subject(path);
        let message = format!("{what} must be {expected}, not {}", self.describe(id));
        let help = match path.segment {
            _ if id == self.tree.root() => Some("begin with `name: …`, and `tasks:` with a name for each below"),
            Segment::Key("approval") => Some("write `approval: {}`, with `roles`, `message` and `timeout` as needed"),
            Segment::Key("wait") => Some("write `wait: {for: 5m}`, `wait: {until: …}` or `wait: {event: …}`"),
            Segment::Key("inputs") if expected == "a mapping" && path.parent.is_some_and(|parent| parent.is_root()) => {
                Some("write `inputs: {day: {type: date}}`: a name for each, and what it takes")
            }
            _ => None,
        };
        self.report.push(self.place(id), path, message, help.map(Into::into));
    }

    /// The entries of a mapping; nothing at all reads like an empty one.
    pub(super) fn mapping(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t [(NodeId, NodeId)]> {
        match &self.node(id).kind {
            Kind::Mapping(entries) => Some(entries),
            _ if self.is_null(id) => Some(&[]),
            _ => {
                self.wrong_type(id, path, "a mapping");
                None
            }
        }
    }

    /// A scalar's text as written, whatever it looks like: `run: true` is the command `true`.
    pub(super) fn text(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t str> {
        self.text_up_to(id, path, MAX_TEXT)
    }

    pub(super) fn script(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t str> {
        let text = self.text_up_to(id, path, MAX_SCRIPT)?;
        if text.trim().is_empty() {
            self.report.add(self.place(id), path, "the script is empty");
            return None;
        }
        self.warn_of_braces(id, text, path);
        Some(text)
    }

    /// `{{ ds }}` is a template elsewhere and plain text here.
    fn warn_of_braces(&mut self, id: NodeId, text: &str, path: Path<'_>) {
        let mut from = 0;
        while let Some(found) = text[from..].find("{{").map(|found| from + found) {
            from = found + 2;
            let Some((within, _)) = text[from..].split_once("}}") else { return };
            let inner = within.trim();
            let is_name = inner.starts_with(|first: char| first.is_ascii_alphabetic())
                && inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
            if is_name && !text[..found].ends_with('$') {
                let message = format!("{} stays as it is written", quoted(&format!("{{{{ {inner} }}}}")));
                let help = "expressions are written `${{ … }}`; the day of a run is `${{ run.scheduled_for | date }}`";
                let place = self.tree.locate(id, found, within.len() + 4);
                self.report.warn(place, path, message, Some(help.into()));
            }
        }
    }

    fn text_up_to(&mut self, id: NodeId, path: Path<'_>, longest: usize) -> Option<&'t str> {
        match &self.node(id).kind {
            Kind::Scalar { text, .. } if !self.is_null(id) => {
                if text.len() > longest {
                    let message = format!("{} is longer than {} KiB", subject(path), longest / 1024);
                    self.report.add(self.place(id), path, message);
                    return None;
                }
                Some(text)
            }
            _ => {
                self.wrong_type(id, path, "a text");
                None
            }
        }
    }

    pub(super) fn name(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t str> {
        let text = match &self.node(id).kind {
            Kind::Scalar { text, .. } if !self.is_null(id) => text.as_ref(),
            _ => {
                self.wrong_type(id, path, "a name");
                return None;
            }
        };
        self.checked_name(text, self.place(id), path)
    }

    /// A key that is a name, like that of a task.
    pub(super) fn checked_name(&mut self, text: &'t str, place: Place, path: Path<'_>) -> Option<&'t str> {
        if is_name(text) {
            return Some(text);
        }
        self.report.add_with_help(place, path, format!("{} is not a valid name", quoted(text)), NAME_RULE);
        None
    }

    pub(super) fn boolean(&mut self, id: NodeId, path: Path<'_>) -> Option<bool> {
        if let Kind::Scalar { text, style: Style::Plain } = &self.node(id).kind
            && let Some(Value::Bool(truth)) = plain_value(text)
        {
            return Some(truth);
        }
        self.wrong_type(id, path, "true or false");
        None
    }

    pub(super) fn integer(&mut self, id: NodeId, path: Path<'_>, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        let number = match &self.node(id).kind {
            Kind::Scalar { text, style: Style::Plain } => match plain_value(text) {
                Some(Value::Number(number)) => number.as_i64(),
                None => Some(i64::MAX),
                _ => None,
            },
            _ => None,
        };
        match number {
            Some(number) if range.contains(&number) => Some(number),
            Some(_) => {
                let message = format!("{} must lie between {} and {}", subject(path), range.start(), range.end());
                self.report.add(self.place(id), path, message);
                None
            }
            None => {
                self.wrong_type(id, path, "a whole number");
                None
            }
        }
    }

    pub(super) fn number(&mut self, id: NodeId, path: Path<'_>, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
        if let Kind::Scalar { text, style: Style::Plain } = &self.node(id).kind
            && let Some(Value::Number(number)) = plain_value(text)
            && let Some(number) = number.as_f64()
        {
            if range.contains(&number) {
                return Some(number);
            }
            let message = format!("{} must lie between {} and {}", subject(path), range.start(), range.end());
            self.report.add(self.place(id), path, message);
            return None;
        }
        self.wrong_type(id, path, "a number");
        None
    }

    /// Milliseconds.
    pub(super) fn duration(&mut self, id: NodeId, path: Path<'_>) -> Option<u64> {
        let text = self.text(id, path)?;
        match parse_duration(text) {
            Ok(duration) => Some(duration),
            Err(cause) => {
                let message = format!("{} {} is not a duration: {cause}", subject(path), quoted(text));
                self.report.add_with_help(
                    self.place(id),
                    path,
                    message,
                    "write `500ms`, `30s`, `5m`, `2h`, `1d` or `1h30m`",
                );
                None
            }
        }
    }

    pub(super) fn positive_duration(&mut self, id: NodeId, path: Path<'_>) -> Option<u64> {
        let duration = self.duration(id, path)?;
        if duration == 0 {
            self.report.add(self.place(id), path, format!("{} must be longer than nothing", subject(path)));
            return None;
        }
        Some(duration)
    }

    pub(super) fn priority(&mut self, id: NodeId, path: Path<'_>) -> Option<i16> {
        let text = self.text(id, path)?;
        let named = PRIORITIES.iter().find(|(word, _)| *word == text).map(|(_, number)| *number);
        let number = named.or_else(|| text.parse().ok().filter(|number| (0..=1000).contains(number)));
        if number.is_none() {
            let help = "write `low`, `medium`, `high`, `critical` or a number from 0 to 1000";
            self.report.add_with_help(self.place(id), path, format!("{} is not a priority", quoted(text)), help);
        }
        number
    }

    /// One word of a fixed set.
    pub(super) fn word<T: FromStr + fmt::Display + Copy>(
        &mut self,
        id: NodeId,
        path: Path<'_>,
        all: &[T],
    ) -> Option<T> {
        let text = self.text(id, path)?;
        if let Ok(word) = text.parse() {
            return Some(word);
        }
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        let help = did_you_mean(text, words.iter().map(String::as_str))
            .unwrap_or_else(|| format!("write one of {}", words.join(", ")));
        let message = format!("{} cannot be {}", subject(path), quoted(text));
        self.report.add_with_help(self.place(id), path, message, help);
        None
    }

    /// The items of a list; a single scalar reads like a list of one.
    pub(super) fn one_or_many(&mut self, id: NodeId, path: Path<'_>, expected: &str) -> Option<Vec<NodeId>> {
        match &self.node(id).kind {
            Kind::Sequence(items) => Some(items.clone()),
            Kind::Scalar { .. } if self.is_null(id) => Some(Vec::new()),
            Kind::Scalar { .. } => Some(vec![id]),
            Kind::Mapping(_) => {
                self.wrong_type(id, path, expected);
                None
            }
        }
    }

    pub(super) fn list(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t [NodeId]> {
        match &self.node(id).kind {
            Kind::Sequence(items) => Some(items),
            _ if self.is_null(id) => Some(&[]),
            _ => {
                self.wrong_type(id, path, "a list");
                None
            }
        }
    }

    /// Environment variables; `seen` is called for each value that holds an expression.
    pub(super) fn env(
        &mut self,
        id: NodeId,
        path: Path<'_>,
        mut seen: impl FnMut(&str, NodeId, Path<'_>),
    ) -> IndexMap<String, String> {
        let mut env = IndexMap::new();
        for (key, value) in self.mapping(id, path).unwrap_or_default() {
            let name = self.tree.scalar(*key);
            let path = path.key(name);
            if !is_identifier(name) {
                let message = format!("{} is not a valid variable name", quoted(name));
                self.report.add_with_help(self.place(*key), path, message, IDENTIFIER_RULE);
                continue;
            }
            if name.starts_with("MAINSPRING_") {
                let message =
                    format!("{} is reserved: variables beginning with MAINSPRING_ are set for the task", quoted(name));
                self.report.add(self.place(*key), path, message);
                continue;
            }
            let text = if self.is_null(*value) { Some("") } else { self.text(*value, path) };
            if let Some(text) = text {
                if has_expression(text) {
                    seen(name, *value, path);
                }
                self.warn_of_braces(*value, text, path);
                env.insert(name.to_owned(), text.to_owned());
            }
        }
        env
    }

    /// Any value as JSON; `seen` is called for each text that holds an expression, with its JSON
    /// pointer below this one.
    pub(super) fn json(
        &mut self,
        id: NodeId,
        path: Path<'_>,
        pointer: &str,
        seen: &mut dyn FnMut(&str, NodeId, Path<'_>),
    ) -> Option<Value> {
        // Recursion as deep as the text is nested, which the reader bounds.
        Some(match &self.node(id).kind {
            Kind::Scalar { text, style: Style::Plain } => match plain_value(text) {
                Some(Value::String(text)) => {
                    if has_expression(&text) {
                        seen(pointer, id, path);
                    }
                    Value::String(text)
                }
                Some(value) => value,
                None => {
                    let message = format!("{} does not fit into a number", quoted(text));
                    self.report.add_with_help(self.place(id), path, message, "put it in quotes to make it a text");
                    return None;
                }
            },
            Kind::Scalar { text, .. } => {
                if has_expression(text) {
                    seen(pointer, id, path);
                }
                Value::String(text.to_string())
            }
            Kind::Sequence(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    list.push(self.json(*item, path.index(index), &format!("{pointer}/{index}"), seen)?);
                }
                Value::Array(list)
            }
            Kind::Mapping(entries) => {
                let mut fields = Map::with_capacity(entries.len());
                for (key, value) in entries {
                    let name = self.tree.scalar(*key);
                    let escaped = name.replace('~', "~0").replace('/', "~1");
                    let value = self.json(*value, path.key(name), &format!("{pointer}/{escaped}"), seen)?;
                    fields.insert(name.to_owned(), value);
                }
                Value::Object(fields)
            }
        })
    }

    /// The entries of a mapping whose keys a table knows; the others are complained about.
    pub(super) fn entries(&mut self, id: NodeId, path: Path<'_>, table: &Table) -> Option<Vec<Entry<'t>>> {
        let written = self.mapping(id, path)?;
        let mut known = Vec::with_capacity(written.len());
        for (key, value) in written {
            let name = self.tree.scalar(*key);
            if table.has(name) {
                known.push(Entry { name, key: *key, value: *value });
                continue;
            }
            // What is not shown needs no suggestion: there may be as many as fit into the text.
            if self.report.is_full() {
                self.report.add(self.place(*key), "", String::new());
                continue;
            }
            let names: Vec<&str> = table.names().collect();
            let help = other_word(table, name)
                .map(str::to_owned)
                .or_else(|| did_you_mean(name, names.iter().copied()))
                .unwrap_or_else(|| format!("{} has the keys {}", table.what, names.join(", ")));
            let message = format!("{} has no key {}", table.what, quoted(name));
            self.report.add_with_help(self.place(*key), path.key(name), message, help);
        }
        Some(known)
    }
}

/// A known key and its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'t> {
    pub(super) name: &'t str,
    pub(super) key: NodeId,
    pub(super) value: NodeId,
}

/// A table and the code that reads it have come apart; a test walks all tables.
pub(super) fn unread(name: &str) {
    debug_assert!(false, "the table knows `{name}`, but no code reads it");
}

/// How a message names the value at a path: its last key.
pub(super) fn subject(path: Path<'_>) -> String {
    match path.segment {
        Segment::Root => "a workflow".into(),
        Segment::Key(key) => quoted(key),
        Segment::Index(_) => match path.parent {
            Some(parent) => format!("an item of {}", subject(*parent)),
            None => "an item".into(),
        },
    }
}
