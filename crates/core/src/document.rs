//! Reading a file that is no workflow (a test, a file to import): values with their places, problems collected.

use serde_json::{Map, Number, Value};

use crate::diagnostic::{Diagnostics, Place, Report, did_you_mean, quoted};
use crate::yaml::{Kind, NodeId, Style, Tree};
use crate::{Micros, author, yaml};

/// One value of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doc<'t> {
    pub(crate) tree: &'t Tree<'t>,
    pub(crate) id: NodeId,
}

/// One entry of a mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'t> {
    pub(crate) key: &'t str,
    pub(crate) place: Place,
    pub(crate) value: Doc<'t>,
}

impl<'t> Doc<'t> {
    pub(crate) fn root(tree: &'t Tree<'t>) -> Self {
        Self { tree, id: tree.root() }
    }

    pub(crate) fn place(self) -> Place {
        self.tree.node(self.id).place
    }

    fn at(self, id: NodeId) -> Self {
        Self { id, ..self }
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(self.tree.node(self.id).kind, Kind::Sequence(_))
    }

    pub(crate) fn is_mapping(self) -> bool {
        matches!(self.tree.node(self.id).kind, Kind::Mapping(_))
    }

    /// The entries of a mapping; nothing reads like an empty one.
    pub(crate) fn entries(self, what: &str, report: &mut Report) -> Vec<Entry<'t>> {
        match &self.tree.node(self.id).kind {
            Kind::Mapping(entries) => entries
                .iter()
                .map(|(key, value)| Entry {
                    key: self.tree.scalar(*key),
                    place: self.at(*key).place(),
                    value: self.at(*value),
                })
                .collect(),
            _ if self.value().is_null() => Vec::new(),
            _ => {
                report.add(self.place(), "", format!("{what} must be a mapping"));
                Vec::new()
            }
        }
    }

    /// The members of a list; nothing reads like an empty one.
    pub(crate) fn items(self, what: &str, report: &mut Report) -> Vec<Doc<'t>> {
        match &self.tree.node(self.id).kind {
            Kind::Sequence(items) => items.iter().map(|id| self.at(*id)).collect(),
            _ if self.value().is_null() => Vec::new(),
            _ => {
                report.add(self.place(), "", format!("{what} must be a list"));
                Vec::new()
            }
        }
    }

    /// As JSON. Recursion as deep as the text is nested, which the reader bounds.
    pub(crate) fn value(self) -> Value {
        match &self.tree.node(self.id).kind {
            Kind::Scalar { text, style: Style::Plain } => plain(text),
            Kind::Scalar { text, .. } => Value::String(text.to_string()),
            Kind::Sequence(items) => items.iter().map(|id| self.at(*id).value()).collect(),
            Kind::Mapping(entries) => {
                let fields =
                    entries.iter().map(|(key, value)| (self.tree.scalar(*key).into(), self.at(*value).value()));
                Value::Object(fields.collect())
            }
        }
    }

    pub(crate) fn object(self, what: &str, report: &mut Report) -> Map<String, Value> {
        match self.value() {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            _ => {
                report.add(self.place(), "", format!("{what} must be a mapping"));
                Map::new()
            }
        }
    }

    /// A scalar as written.
    pub(crate) fn text(self, what: &str, report: &mut Report) -> Option<&'t str> {
        if let Kind::Scalar { text, .. } = &self.tree.node(self.id).kind {
            return Some(text);
        }
        report.add(self.place(), "", format!("{what} must be a text"));
        None
    }

    pub(crate) fn boolean(self, what: &str, report: &mut Report) -> Option<bool> {
        let truth = self.value().as_bool();
        if truth.is_none() {
            report.add(self.place(), "", format!("{what} must be true or false"));
        }
        truth
    }

    pub(crate) fn count(self, what: &str, report: &mut Report) -> Option<u32> {
        let count = self.value().as_u64().and_then(|count| u32::try_from(count).ok());
        if count.is_none() {
            report.add(self.place(), "", format!("{what} must be a whole number from 0 on"));
        }
        count
    }

    /// Milliseconds.
    pub(crate) fn duration(self, what: &str, report: &mut Report) -> Option<u64> {
        let text = self.text(what, report)?;
        match author::parse_duration(text) {
            Ok(duration) => Some(duration),
            Err(cause) => {
                let message = format!("{what} {} is not a duration: {cause}", quoted(text));
                let help = "write `500ms`, `30s`, `5m`, `2h`, `1d` or `1h30m`";
                report.add_with_help(self.place(), "", message, help);
                None
            }
        }
    }

    pub(crate) fn instant(self, what: &str, report: &mut Report) -> Option<Micros> {
        let text = self.text(what, report)?;
        let instant = crate::time::parse(text);
        if instant.is_none() {
            let message = format!("{what} {} is not a time", quoted(text));
            report.add_with_help(self.place(), "", message, "write it like 2026-01-31T08:00:00Z");
        }
        instant
    }
}

/// The values of a YAML or JSON file.
pub fn read_document(source: &str) -> Result<Value, Diagnostics> {
    let tree = yaml::parse(source)?;
    Ok(Doc::root(&tree).value())
}

/// Complains about a key that is not one of `known`.
pub(crate) fn unknown_key(entry: Entry<'_>, what: &str, known: &[&str], report: &mut Report) {
    let help = did_you_mean(entry.key, known.iter().copied())
        .unwrap_or_else(|| format!("{what} has the keys {}", known.join(", ")));
    report.add_with_help(entry.place, "", format!("{what} has no key {}", quoted(entry.key)), help);
}

/// YAML's core schema for a plain scalar.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => text.strip_prefix('+').unwrap_or(text).parse::<Number>().map_or_else(|_| text.into(), Value::Number),
    }
}
