//! Whether an answer is the one that was expected.

use mainspring_core::expr::holds;
use mainspring_core::work::Failure;
use mainspring_core::workflow::{BodyExpect, HttpExpect, StatusRange};
use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::answer::Answer;
use crate::text::first_characters;

/// Compiled size of a regular expression; a pattern that needs more is a mistake.
const REGEX_LIMIT: usize = 1024 * 1024;

pub(super) fn check(expect: &HttpExpect, answer: &Answer, facts: &Map<String, Value>) -> Result<(), Failure> {
    let status = answer.status.as_u16();
    if !expect.status.iter().any(|range| (range.from..=range.to).contains(&status)) {
        let reason = answer.status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let expected: Vec<String> = expect.status.iter().map(shown).collect();
        return Err(Failure {
            kind: "http_status".into(),
            message: format!("the server answered {status}{reason}; expected {}", expected.join(", ")),
            status: Some(status),
            detail: answer.excerpt(),
            ..Failure::default()
        });
    }
    let Some(body) = &expect.body else { return Ok(()) };
    let unmet = |message: String, permanent: bool| Failure {
        kind: "expect".into(),
        message,
        status: Some(status),
        detail: answer.excerpt(),
        permanent,
        ..Failure::default()
    };
    let text = || String::from_utf8_lossy(&answer.body);
    let shorten = |text: &str| first_characters(text, 200).to_owned();
    match body {
        BodyExpect::Contains(part) if text().contains(part.as_str()) => Ok(()),
        BodyExpect::Contains(part) => {
            Err(unmet(format!("the body does not contain the expected `{}`", shorten(part)), false))
        }
        BodyExpect::Matches(pattern) => match RegexBuilder::new(pattern).size_limit(REGEX_LIMIT).build() {
            Ok(regex) if regex.is_match(&text()) => Ok(()),
            Ok(_) => Err(unmet(format!("the body does not match the expected `{}`", shorten(pattern)), false)),
            Err(error) => {
                let reason = error.to_string().lines().last().unwrap_or_default().to_owned();
                Err(unmet(format!("`expect.body` is not a regular expression: `{}`: {reason}", shorten(pattern)), true))
            }
        },
        BodyExpect::Json(expression) => match holds(expression, facts) {
            Ok(true) => Ok(()),
            Ok(false) => Err(unmet(format!("the answer does not satisfy `{}`", shorten(expression)), false)),
            Err(reason) => Err(unmet(format!("the answer cannot be judged: {reason}"), false)),
        },
    }
}

fn shown(range: &StatusRange) -> String {
    if range.from == range.to { range.from.to_string() } else { format!("{} to {}", range.from, range.to) }
}
