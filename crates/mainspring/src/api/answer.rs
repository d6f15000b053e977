//! From an answer to a value, or to a failure that a person can read.

use serde_json::Value;

use crate::failure::{Exit, Failure, Result};

/// What the API answered, as it came.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The edition of what is shown, for `If-Match`.
    pub(crate) etag: Option<String>,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    /// The JSON in it, or why there is none.
    pub(crate) fn value(&self) -> Result<Value> {
        read(self.status, &self.bytes)
    }

    /// What is in it where that is no JSON.
    pub(crate) fn content(self) -> Result<Vec<u8>> {
        match self.status {
            200..300 => Ok(self.bytes),
            _ => Err(read(self.status, &self.bytes).err().unwrap_or_else(strange)),
        }
    }
}

/// The items of a list.
pub(crate) fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

/// An answer without what every answer of its kind has.
pub(crate) fn strange() -> Failure {
    Failure::unreachable("the server answered in a way that is not Mainspring's")
        .remedy("check that --server names a Mainspring server of about this version and not something before it")
}

/// What the API answered.
fn read(status: u16, bytes: &[u8]) -> Result<Value> {
    if bytes.is_empty() && (200..300).contains(&status) {
        return Ok(Value::Null);
    }
    let body: Option<Value> = serde_json::from_slice(bytes).ok();
    match body {
        Some(body) if (200..300).contains(&status) => Ok(body),
        Some(body) if body.get("detail").is_some() => Err(failure(status, &body)),
        _ => Err(Failure::unreachable(format!("the server answered {status} in a way that is not Mainspring's"))
            .remedy("check that --server names a Mainspring server and not something before it")),
    }
}

/// A problem in words: its detail, then every fault with its place.
fn failure(status: u16, body: &Value) -> Failure {
    let mut message = body["detail"].as_str().unwrap_or("it was refused").to_owned();
    let faults: Vec<&Value> = body["errors"].as_array().into_iter().flatten().collect();
    for fault in &faults {
        let detail = fault["detail"].as_str().unwrap_or_default();
        if faults.len() == 1 && message.contains(detail) && fault.get("line").is_none() {
            continue;
        }
        message.push_str("\n  ");
        if let Some(pointer) = fault["pointer"].as_str() {
            message.push_str(&format!("{pointer}: "));
        }
        message.push_str(detail);
        if let (Some(line), Some(column)) = (fault["line"].as_u64(), fault["column"].as_u64()) {
            message.push_str(&format!(" (line {line}, column {column})"));
        }
        if let Some(help) = fault["help"].as_str() {
            message.push_str(&format!("\n    {help}"));
        }
    }
    let (exit, remedy) = match status {
        401 => {
            (Exit::BadInput, Some("set MAINSPRING_TOKEN, or `token` in a profile; `mainspring token create` makes one"))
        }
        403 => (Exit::BadInput, Some("ask for a token with a wider role")),
        404 if message.starts_with("run ") => (Exit::BadInput, Some("`mainspring runs list` shows what there is")),
        429 => (Exit::Unreachable, None),
        503 => (Exit::Unreachable, None),
        500..=599 => (Exit::WorkFailed, None),
        _ => (Exit::BadInput, None),
    };
    Failure { exit, message, remedy: remedy.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_become_failures_with_places() {
        let body = br#"{"type":"about:blank","title":"x","status":422,"detail":"the body does not fit",
            "errors":[{"detail":"must be a number","pointer":"/slots","line":1,"column":5}]}"#;
        let failure = read(422, body).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        assert_eq!(failure.message, "the body does not fit\n  /slots: must be a number (line 1, column 5)");
        assert_eq!(read(503, br#"{"detail":"away"}"#).unwrap_err().exit, Exit::Unreachable);
        assert_eq!(read(200, b"<html>").unwrap_err().exit, Exit::Unreachable);
        assert_eq!(read(204, b"").unwrap(), Value::Null);
    }
}
