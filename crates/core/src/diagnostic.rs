//! What is wrong with a text a person wrote: where, why, and what to do about it.
//!
//! Problems are collected rather than returned one by one, so that a file is corrected in one round. The number
//! kept is bounded, because a hostile file can be wrong a million times.

use std::fmt;

use serde::Serialize;

/// How many problems are reported; the others are counted.
pub const MAX_SHOWN: usize = 100;
/// How many are kept until they are sorted by position.
const MAX_KEPT: usize = 2_000;

/// A place in a text: line and column count from 1, in characters; `length` is at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    pub line: u32,
    pub column: u32,
    pub length: u32,
}

impl Default for Place {
    fn default() -> Self {
        Self { line: 1, column: 1, length: 1 }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    #[serde(flatten)]
    pub place: Place,
    /// Where in the structure, like a JSON pointer: `/tasks/load/needs/0`. Empty for the whole text.
    pub path: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// All problems of one text, sorted by position; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Every problem as `FILE:LINE:COLUMN: message`, its help on the next line.
    pub fn display<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        Listing { file: Some(file), diagnostics: self }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Listing { file: None, diagnostics: self }.fmt(out)
    }
}

impl std::error::Error for Diagnostics {}

struct Listing<'a> {
    file: Option<&'a str>,
    diagnostics: &'a Diagnostics,
}

impl fmt::Display for Listing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, diagnostic) in self.diagnostics.0.iter().enumerate() {
            if number > 0 {
                out.write_str("\n")?;
            }
            if let Some(file) = self.file {
                write!(out, "{file}:")?;
            }
            write!(out, "{}:{}: {}", diagnostic.place.line, diagnostic.place.column, diagnostic.message)?;
            if let Some(help) = &diagnostic.help {
                write!(out, "\n  help: {help}")?;
            }
        }
        Ok(())
    }
}

/// Gathers problems while a text is read.
#[derive(Debug, Default)]
pub(crate) struct Report {
    kept: Vec<Diagnostic>,
    dropped: usize,
    /// What is allowed but hardly meant.
    warnings: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn add(&mut self, place: Place, path: impl fmt::Display, message: impl Into<String>) {
        self.push(place, path, message.into(), None);
    }

    pub(crate) fn add_with_help(
        &mut self,
        place: Place,
        path: impl fmt::Display,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(place, path, message.into(), Some(help.into()));
    }

    pub(crate) fn push(&mut self, place: Place, path: impl fmt::Display, message: String, help: Option<String>) {
        if self.kept.len() >= MAX_KEPT {
            self.dropped += 1;
            return;
        }
        self.kept.push(Diagnostic { place, path: path.to_string(), message, help });
    }

    /// Something that is allowed but hardly meant.
    pub(crate) fn warn(&mut self, place: Place, path: impl fmt::Display, message: String, help: Option<String>) {
        if self.warnings.len() < MAX_SHOWN {
            self.warnings.push(Diagnostic { place, path: path.to_string(), message, help });
        }
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<Diagnostic> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.sort_by(|one, other| (one.place, &one.message).cmp(&(other.place, &other.message)));
        warnings
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The number of problems after which looking for more is of no use.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= MAX_KEPT
    }

    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, Diagnostics> {
        if self.kept.is_empty() {
            match value {
                Some(value) => return Ok(value),
                None => self.add(Place::default(), "", "nothing could be read"),
            }
        }
        self.kept.sort_by(|one, other| (one.place, &one.message).cmp(&(other.place, &other.message)));
        self.kept.dedup();
        let more = self.dropped + self.kept.len().saturating_sub(MAX_SHOWN);
        self.kept.truncate(MAX_SHOWN);
        if more > 0 {
            let place = self.kept.last().map(|last| last.place).unwrap_or_default();
            self.add(place, "", format!("and at least {more} more problems"));
        }
        Err(Diagnostics(self.kept))
    }
}

/// A text from outside as it may appear in a message: shortened, on one line, in backticks.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown = String::from("`");
    for (count, character) in text.chars().enumerate() {
        if count == LONGEST {
            shown.push('…');
            break;
        }
        if character.is_control() || is_invisible(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown.push('`');
    shown
}

/// Zero-width and direction-changing characters: they make two different names look the same.
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{ad}')
}

/// ``did you mean `needs`?`` if one of the known words is close enough to be meant.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(word, known).map(|near| format!("did you mean {}?", quoted(near)))
}

fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 128;
    const MOST: usize = 2_000;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    let allowed = (word.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .take(MOST)
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed + 2)
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Place {
        Place { line, column, length: 1 }
    }

    #[test]
    fn problems_are_listed_by_position_with_their_help() {
        let mut report = Report::default();
        report.add(at(3, 1), "/tasks", "second");
        report.add_with_help(at(1, 5), "/nam", "first", "did you mean `name`?");
        let problems = report.finish::<()>(None).unwrap_err();
        assert_eq!(
            problems.display("a.yaml").to_string(),
            "a.yaml:1:5: first\n  help: did you mean `name`?\na.yaml:3:1: second"
        );
    }

    #[test]
    fn a_million_problems_stay_a_hundred() {
        let mut report = Report::default();
        for line in 0..1_000_000 {
            report.add(at(line + 1, 1), "", "wrong");
        }
        let problems = report.finish::<()>(None).unwrap_err();
        assert_eq!(problems.0.len(), MAX_SHOWN + 1);
        assert_eq!(problems.0.last().unwrap().message, "and at least 999900 more problems");
    }

    #[test]
    fn suggestions_are_near_or_absent() {
        let known = ["needs", "name", "retry", "trigger_rule"];
        assert_eq!(did_you_mean("need", known).as_deref(), Some("did you mean `needs`?"));
        assert_eq!(did_you_mean("trigger-rule", known).as_deref(), Some("did you mean `trigger_rule`?"));
        assert_eq!(did_you_mean("zzzz", known), None);
        assert_eq!(did_you_mean(&"x".repeat(10_000_000), known), None);
    }

    #[test]
    fn outside_text_is_shortened_and_escaped() {
        assert_eq!(quoted("a\0b\u{202e}"), "`a\\u{0}b\\u{202e}`");
        assert!(quoted(&"x".repeat(1_000)).chars().count() < 70);
    }
}
