//! The answer to a request, and the part of it that a task sees.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use mainspring_core::work::Failure;
use serde_json::{Map, Value, json};

use crate::output::OUTPUT_LIMIT;
use crate::text::first_characters;

/// A whole answer, within the limit of its request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// `{status, headers, body}`. The body is JSON if the server declares it as JSON, else text. A body that is no text
    /// is given as base64, and the field `encoding` names that.
    pub(super) fn facts(&self) -> Map<String, Value> {
        let mut headers = Map::new();
        for (name, value) in &self.headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            match headers.get_mut(name.as_str()) {
                Some(Value::String(earlier)) => {
                    earlier.push_str(", ");
                    earlier.push_str(&value);
                }
                _ => drop(headers.insert(name.as_str().to_owned(), Value::String(value.into_owned()))),
            }
        }
        let mut facts = Map::new();
        facts.insert("status".into(), json!(self.status.as_u16()));
        facts.insert("headers".into(), Value::Object(headers));
        match std::str::from_utf8(&self.body) {
            Ok(text) => facts.insert("body".into(), self.json(text).unwrap_or_else(|| text.into())),
            Err(_) => {
                facts.insert("encoding".into(), "base64".into());
                facts.insert("body".into(), BASE64_STANDARD.encode(&self.body).into())
            }
        };
        facts
    }

    fn json(&self, text: &str) -> Option<Value> {
        let kind = self.headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim().to_ascii_lowercase();
        if kind != "application/json" && !kind.ends_with("+json") && kind != "text/json" {
            return None;
        }
        serde_json::from_str(text).ok()
    }

    /// The beginning of the body, to explain a failure.
    pub(crate) fn excerpt(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.body).replace('\0', "");
        let text = first_characters(text.trim(), 2_000);
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// An output is stored as JSON, in which a text can be several times as long as its body.
pub(super) fn output(facts: Map<String, Value>) -> Result<Value, Failure> {
    let output = Value::Object(facts);
    let length = output.to_string().len() as u64;
    if length > OUTPUT_LIMIT {
        return Err(too_large(format!(
            "the answer takes {length} bytes as an output, which is more than 1 MiB (1048576 bytes); ask for less"
        )));
    }
    Ok(output)
}

pub(super) fn too_large(message: String) -> Failure {
    Failure { kind: "too_large".into(), message, permanent: true, ..Failure::default() }
}
