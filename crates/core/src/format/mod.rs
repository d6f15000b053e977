//! One way to lay out a workflow file, without touching what it says.
//!
//! It works on lines, so comments, quotes, the order of keys and the way collections are written stay. What it does:
//!
//! - block mappings and sequences are indented by two columns a level, sequences below a key too;
//! - one space behind `-`, no space at the end of a line, `\n` between lines and at the end of the file;
//! - at most one empty line in a row, none at the beginning and the end;
//! - comments move with the lines they stand with.
//!
//! Lines inside `[ ]`, `{ }`, quotes and block texts are shifted with the line they belong to and stay otherwise. The
//! result is read again and compared: a text whose meaning would change is refused.

mod lines;
mod scan;

#[cfg(test)]
mod tests;

use crate::diagnostic::Diagnostics;
use crate::yaml::{self, Kind, NodeId, Tree};
use crate::{Workflow, author};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// It cannot be read, so its meaning is unknown.
    #[error("{0}")]
    Unreadable(Diagnostics),
    #[error("formatting would change what the text means; it is left as it is")]
    WouldChange,
}

/// The text in its canonical layout. Formatting twice gives the same as once.
pub fn format(source: &str) -> Result<String, FormatError> {
    let unix = source.replace("\r\n", "\n");
    let unix = unix.strip_prefix('\u{feff}').unwrap_or(&unix);
    let before = yaml::parse(unix).map_err(FormatError::Unreadable)?;
    let formatted = lines::reindent(unix, &scan::scan(unix));
    let after = yaml::parse(&formatted).map_err(|_| FormatError::WouldChange)?;
    if !is_same(&before, before.root(), &after, after.root()) || !reads_the_same(unix, &formatted) {
        return Err(FormatError::WouldChange);
    }
    let again = lines::reindent(&formatted, &scan::scan(&formatted));
    if again != formatted {
        return Err(FormatError::WouldChange);
    }
    Ok(formatted)
}

/// What is a workflow stays the same workflow.
fn reads_the_same(before: &str, after: &str) -> bool {
    match author::parse(before) {
        Ok(workflow) => author::parse(after).is_ok_and(|other: Workflow| other == workflow),
        // Tests and drafts are formatted too; their values were compared.
        Err(_) => true,
    }
}

/// Values are equal, places aside. Recursion as deep as the text is nested, which the reader bounds.
fn is_same(one: &Tree<'_>, first: NodeId, other: &Tree<'_>, second: NodeId) -> bool {
    match (&one.node(first).kind, &other.node(second).kind) {
        (Kind::Scalar { text, style }, Kind::Scalar { text: other_text, style: other_style }) => {
            text == other_text && style == other_style
        }
        (Kind::Sequence(items), Kind::Sequence(others)) => {
            items.len() == others.len()
                && items.iter().zip(others).all(|(item, another)| is_same(one, *item, other, *another))
        }
        (Kind::Mapping(entries), Kind::Mapping(others)) => {
            entries.len() == others.len()
                && entries.iter().zip(others).all(|((key, value), (other_key, other_value))| {
                    is_same(one, *key, other, *other_key) && is_same(one, *value, other, *other_value)
                })
        }
        _ => false,
    }
}
