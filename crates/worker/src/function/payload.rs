//! Reads payloads strictly: a field that a handler does not know is an error.

use std::ops::RangeInclusive;

use mainspring_core::builtin::{EVENT_FIELD, builtin_function};
use mainspring_core::work::Failure;
use serde_json::{Map, Value};

/// The payload of one handler: an object, or nothing.
#[derive(Debug)]
pub(super) struct Payload<'a> {
    handler: &'static str,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> Payload<'a> {
    pub(super) fn of(handler: &'static str, payload: &'a Value) -> Result<Self, Failure> {
        match payload {
            Value::Null => Ok(Self { handler, fields: None }),
            Value::Object(fields) => Ok(Self { handler, fields: Some(fields) }),
            _ => Err(Self { handler, fields: None }.bad("it should be a mapping")),
        }
    }

    pub(super) fn bad(&self, reason: &str) -> Failure {
        let message = format!("the payload of `{}` cannot be used: {reason}", self.handler);
        Failure { kind: "handler".into(), message, permanent: true, ..Failure::default() }
    }

    /// Refuses every field that the function does not have. The event that made a job is not of the author's making.
    pub(super) fn only_known(&self) -> Result<(), Failure> {
        let known = builtin_function(self.handler).map_or(&[][..], |function| function.fields);
        let is_unknown = |name: &&String| !known.contains(&name.as_str()) && *name != EVENT_FIELD;
        let unknown = self.fields.into_iter().flat_map(Map::keys).find(is_unknown);
        match unknown {
            None => Ok(()),
            Some(name) if known.is_empty() => Err(self.bad(&format!("it takes no fields, but there is `{name}`"))),
            Some(name) => Err(self.bad(&format!("it has no field `{name}`; there are {}", known.join(", ")))),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields?.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.bad(&format!("`{name}` should be a text"))),
        }
    }

    pub(super) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Failure> {
        let Some(value) = self.get(name) else { return Ok(None) };
        // Expressions inside a longer text arrive as text.
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None if *range.end() == u64::MAX => {
                Err(self.bad(&format!("`{name}` should be a whole number of at least {}", range.start())))
            }
            None => {
                Err(self.bad(&format!("`{name}` should be a whole number from {} to {}", range.start(), range.end())))
            }
        }
    }
}
