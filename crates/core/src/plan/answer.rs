//! Whether the answer of a request is the expected one.

use serde_json::{Map, Value};

use crate::diagnostic::quoted;
use crate::expr::{Scope, evaluate, is_true};
use crate::pattern;
use crate::work::Failure;
use crate::workflow::{BodyExpect, HttpExpect};

impl HttpExpect {
    /// Judges the status and the body. `headers` have lower-case names; `text` is the body as it was sent, `body` the same as
    /// JSON if it is any.
    ///
    /// A wrong status is an `http_status` failure, a wrong body an `expect` failure.
    pub fn check(&self, status: u16, headers: &Map<String, Value>, text: &str, body: &Value) -> Result<(), Failure> {
        if !self.accepts(status) {
            return Err(Failure {
                kind: "http_status".into(),
                message: format!("the server answered {status}; expected {}", self.shown()),
                status: Some(status),
                ..Failure::default()
            });
        }
        let unexpected =
            |message: String| Failure { kind: "expect".into(), message, status: Some(status), ..Failure::default() };
        match &self.body {
            None => Ok(()),
            Some(BodyExpect::Contains(wanted)) if text.contains(wanted) => Ok(()),
            Some(BodyExpect::Contains(wanted)) => Err(unexpected(format!("the body does not hold {}", quoted(wanted)))),
            Some(BodyExpect::Matches(wanted)) => {
                let regex = pattern::compile(wanted).map_err(|cause| unexpected(format!("`matches`: {cause}")))?;
                if regex.is_match(text) {
                    return Ok(());
                }
                Err(unexpected(format!("the body does not match {}", quoted(wanted))))
            }
            Some(BodyExpect::Json(expression)) => {
                let answer = Map::from_iter([
                    ("status".to_owned(), status.into()),
                    ("headers".to_owned(), Value::Object(headers.clone())),
                    ("body".to_owned(), body.clone()),
                ]);
                let scope = Scope { answer, ..Scope::default() };
                match evaluate(expression, &scope, &Map::new()) {
                    Ok(value) if is_true(&value) => Ok(()),
                    Ok(_) => Err(unexpected(format!("{} is not true of the answer", quoted(expression)))),
                    Err(error) => Err(unexpected(format!("`expect.body.json`: {error}"))),
                }
            }
        }
    }

    fn shown(&self) -> String {
        let shown = self.status.iter().map(|range| match (range.from, range.to) {
            (from, to) if from == to => from.to_string(),
            (from, to) if from % 100 == 0 && to == from + 99 => format!("{}xx", from / 100),
            (from, to) => format!("{from}-{to}"),
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}
