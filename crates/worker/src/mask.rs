//! Keeps the values of secrets out of what is stored.
//!
//! A value is replaced wherever it stands whole on a line of the log, in an error or in a text of an output. What a task
//! makes of it (encoded, cut, reversed, one character per line) is not recognised.

use std::borrow::Cow;

use mainspring_core::work::{Failure, Outcome};
use serde_json::{Map, Value};

/// Shorter values are left alone: they would tear holes into unrelated text and protect nothing.
const SHORTEST: usize = 4;
const MASK: &str = "***";

/// The values of one order, longest first, so that a value that contains another one goes whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mask {
    values: Vec<String>,
}

impl Mask {
    pub(crate) fn new(secrets: &[String]) -> Self {
        let long = |text: &&str| text.chars().count() >= SHORTEST;
        // Logs know lines only, so a value of several lines is known by each of them.
        let pieces = secrets.iter().flat_map(|secret| std::iter::once(secret.as_str()).chain(secret.lines()));
        let mut values: Vec<String> =
            pieces.map(|piece| piece.trim_end_matches(['\r', '\n'])).filter(long).map(str::to_owned).collect();
        values.sort_unstable_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        values.dedup();
        Self { values }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut masked = Cow::Borrowed(text);
        for value in &self.values {
            if masked.contains(value.as_str()) {
                masked = Cow::Owned(masked.replace(value.as_str(), MASK));
            }
        }
        masked
    }

    pub(crate) fn in_place(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.text(text) {
            *text = masked;
        }
    }

    pub(crate) fn outcome(&self, outcome: Outcome) -> Outcome {
        if self.is_empty() {
            return outcome;
        }
        match outcome {
            Outcome::Success { output } => Outcome::Success { output: output.map(|output| self.value(output)) },
            Outcome::Failed(failure) => Outcome::Failed(Failure {
                kind: self.text(&failure.kind).into_owned(),
                message: self.text(&failure.message).into_owned(),
                detail: failure.detail.map(|detail| self.text(&detail).into_owned()),
                ..failure
            }),
            other @ (Outcome::Cancelled { .. } | Outcome::Released) => other,
        }
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(mut text) => {
                self.in_place(&mut text);
                Value::String(text)
            }
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let masked = fields.into_iter().map(|(key, field)| (self.text(&key).into_owned(), self.value(field)));
                Value::Object(masked.collect::<Map<_, _>>())
            }
            // A number can be a secret too.
            Value::Number(number) => match self.text(&number.to_string()) {
                Cow::Owned(masked) => Value::String(masked),
                Cow::Borrowed(_) => Value::Number(number),
            },
            other @ (Value::Null | Value::Bool(_)) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mask(secrets: &[&str]) -> Mask {
        Mask::new(&secrets.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_masked_wherever_they_stand_whole() {
        for (secrets, text, expected) in [
            (&["hunter22"][..], "login hunter22!", "login ***!"),
            (&["hunter22"], "hunter22hunter22", "******"),
            (&["hunter22"], "hunter2", "hunter2"),
            (&["abc"], "abc", "abc"),
            (&["äöüß"], "xäöüßx", "x***x"),
            (&["pass", "password"], "password pass", "*** ***"),
            (&["first line\nsecond line\n}"], "> second line }", "> *** }"),
            (&[""], "text", "text"),
        ] {
            assert_eq!(mask(secrets).text(text), expected, "{secrets:?}");
        }
    }

    #[test]
    fn outputs_and_errors_are_masked() {
        let mask = mask(&["hunter22", "123456"]);
        let output = json!({"a": ["x hunter22", {"hunter22": 123456}], "n": 12345});
        let masked = json!({"a": ["x ***", {"***": "***"}], "n": 12345});
        assert_eq!(mask.outcome(Outcome::Success { output: Some(output) }), Outcome::Success { output: Some(masked) });
        let failure = Failure {
            kind: "hunter22".into(),
            message: "no hunter22".into(),
            detail: Some("a\nhunter22".into()),
            ..Failure::default()
        };
        let Outcome::Failed(failure) = mask.outcome(Outcome::Failed(failure)) else { panic!() };
        assert_eq!((failure.message.as_str(), failure.detail.as_deref()), ("no ***", Some("a\n***")));
        assert_eq!(failure.kind, "***");
    }
}
