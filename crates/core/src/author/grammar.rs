//! Typed reading, continued: the texts with a grammar of their own.

use crate::Micros;
use crate::diagnostic::quoted;
use crate::expr::has_expression;
use crate::pattern;
use crate::time;
use crate::yaml::{Kind, NodeId};

use super::fields::{Path, Reader, subject};
use super::values::{IDENTIFIER_RULE, MAX_DURATION_MS, NAME_RULE, is_identifier, is_name, parse_size};

const MAX_PATH: usize = 1_024;
/// How many members a list of names or paths may have.
const MAX_MEMBERS: usize = 1_000;

impl<'t> Reader<'t, '_> {
    /// An RFC 3339 time with a zone.
    pub(super) fn instant(&mut self, id: NodeId, path: Path<'_>) -> Option<Micros> {
        let text = self.text(id, path)?;
        let instant = time::parse(text);
        if instant.is_none() {
            let message = format!("{} {} is not a time", subject(path), quoted(text));
            self.report.add_with_help(self.place(id), path, message, "write it with its zone: 2026-01-31T08:00:00Z");
        }
        instant
    }

    /// Bytes: `512MiB`, `1GB` or a plain number.
    pub(super) fn size(&mut self, id: NodeId, path: Path<'_>) -> Option<u64> {
        let text = self.text(id, path)?;
        let size = parse_size(text).filter(|size| *size > 0);
        if size.is_none() {
            let message = format!("{} {} is not a size", subject(path), quoted(text));
            self.report.add_with_help(
                self.place(id),
                path,
                message,
                "write `512KiB`, `64MiB`, `2GiB` or a number of bytes",
            );
        }
        size
    }

    /// A text that may hold expressions and is not empty.
    pub(super) fn filled_text(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t str> {
        let text = self.text(id, path)?;
        if text.trim().is_empty() {
            self.report.add(self.place(id), path, format!("{} is empty", subject(path)));
            return None;
        }
        Some(text)
    }

    /// A text without expressions: what it says must be known before anything runs.
    pub(super) fn constant(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t str> {
        let text = self.filled_text(id, path)?;
        if has_expression(text) {
            self.report.add(self.place(id), path, format!("{} cannot hold an expression", subject(path)));
            return None;
        }
        Some(text)
    }

    pub(super) fn identifier(&mut self, id: NodeId, path: Path<'_>, what: &str) -> Option<&'t str> {
        let text = self.text(id, path)?;
        if is_identifier(text) {
            return Some(text);
        }
        let message = format!("{} is not a valid {what}", quoted(text));
        self.report.add_with_help(self.place(id), path, message, IDENTIFIER_RULE);
        None
    }

    /// The name of an event. With `pattern`, a `*` at its end is allowed.
    pub(super) fn event(&mut self, id: NodeId, path: Path<'_>, pattern: bool) -> Option<&'t str> {
        let text = self.text(id, path)?;
        let stem = if pattern { text.strip_suffix('*').unwrap_or(text) } else { text };
        // The system's own events have a colon: `scheduler:job.completed`.
        let is_event = |text: &str| is_name(&text.replace(':', "."));
        if is_event(text) || pattern && (text == "*" || text != stem && is_event(stem)) {
            return Some(text);
        }
        let message = format!("{} is not the name of an event", quoted(text));
        self.report.add_with_help(self.place(id), path, message, NAME_RULE);
        None
    }

    /// `true`: the only thing that `manual` and `result` can be.
    pub(super) fn only_true(&mut self, id: NodeId, path: Path<'_>) -> Option<()> {
        match self.boolean(id, path)? {
            true => Some(()),
            false => {
                let message = format!("{} can only be true", subject(path));
                self.report.add_with_help(self.place(id), path, message, "leave it out otherwise");
                None
            }
        }
    }

    /// A regular expression within the limits.
    pub(super) fn pattern(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t str> {
        let text = self.text(id, path)?;
        match pattern::compile(text) {
            Ok(_) => Some(text),
            Err(cause) => {
                let message = format!("{} is not a regular expression: {cause}", subject(path));
                self.report.add(self.place(id), path, message);
                None
            }
        }
    }

    /// Members of a list (or the one scalar), each read alone; the same one twice is an error.
    pub(super) fn members(
        &mut self,
        id: NodeId,
        path: Path<'_>,
        expected: &str,
        mut read: impl FnMut(&mut Self, NodeId, Path<'_>) -> Option<&'t str>,
    ) -> Vec<String> {
        let items = self.one_or_many(id, path, expected).unwrap_or_default();
        if items.len() > MAX_MEMBERS {
            self.report.add(self.place(id), path, format!("{} has more than {MAX_MEMBERS} members", subject(path)));
            return Vec::new();
        }
        let single = !matches!(self.node(id).kind, Kind::Sequence(_));
        let mut members: Vec<String> = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let at = if single { path } else { path.index(index) };
            let Some(member) = read(self, item, at) else { continue };
            if members.iter().any(|known| known == member) {
                self.report.add(self.place(item), at, format!("{} is listed twice", quoted(member)));
                continue;
            }
            members.push(member.to_owned());
        }
        members
    }

    /// A path that stays below where it begins.
    pub(super) fn relative_path(&mut self, id: NodeId, path: Path<'_>) -> Option<&'t str> {
        let text = self.constant(id, path)?;
        let cause = if text.len() > MAX_PATH {
            "is too long"
        } else if text.starts_with('/') || text.as_bytes().get(1) == Some(&b':') {
            "is absolute"
        } else if text.split('/').any(|part| part == "..") {
            "leads out of its directory"
        } else if text.contains('\\') || text.chars().any(char::is_control) {
            "holds a backslash or a control character"
        } else if text.strip_suffix('/').unwrap_or(text).split('/').any(|part| part.is_empty() || part == ".") {
            "has an empty part"
        } else {
            return Some(text);
        };
        let message = format!("the path {} {cause}", quoted(text));
        self.report.add_with_help(
            self.place(id),
            path,
            message,
            "write a relative path without `..`, like `sub/file.sh`",
        );
        None
    }

    /// Milliseconds from a whole number of minutes.
    pub(super) fn minutes(&mut self, id: NodeId, path: Path<'_>) -> Option<u64> {
        const MINUTE: u64 = 60_000;
        self.integer(id, path, 1..=(MAX_DURATION_MS / MINUTE) as i64).map(|minutes| minutes as u64 * MINUTE)
    }
}
