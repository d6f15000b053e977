//! From an answer to a value, or to a failure that a person can read.

use mainspring_api::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Exit, Failure, Result};

/// What the API answered, as it came.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The edition of what is shown, for `If-Match`.
    pub(crate) etag: Option<String>,
    pub(super) bytes: Vec<u8>,
    /// With which token it was asked for.
    pub(super) token: TokenSource,
}

/// Where the token of a request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// None is needed: the database is at hand.
    Local,
    Missing,
    From(String),
}

impl Answer {
    /// The JSON in it, or why there is none.
    pub(crate) fn value(&self) -> Result<Value> {
        read(self.status, &self.bytes, &self.token)
    }

    /// A type of the API, or why there is none.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let value = self.value()?;
        serde_json::from_value(value).map_err(|error| {
            tracing::debug!(%error, "an answer does not have the shape of the API");
            strange()
        })
    }

    /// What is in it where that is no JSON.
    pub(crate) fn content(self) -> Result<Vec<u8>> {
        match self.status {
            200..300 => Ok(self.bytes),
            _ => Err(read(self.status, &self.bytes, &self.token).err().unwrap_or_else(strange)),
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
fn read(status: u16, bytes: &[u8], token: &TokenSource) -> Result<Value> {
    if bytes.is_empty() && (200..300).contains(&status) {
        return Ok(Value::Null);
    }
    let body: Option<Value> = serde_json::from_slice(bytes).ok();
    match body {
        Some(body) if (200..300).contains(&status) => Ok(body),
        Some(body) if body.get("detail").is_some() => Err(failure(status, &body, token)),
        _ => Err(Failure::unreachable(format!("the server answered {status} in a way that is not Mainspring's"))
            .remedy("check that --server names a Mainspring server and not something before it")),
    }
}

/// A problem in words: its detail, then every fault with its place.
fn failure(status: u16, body: &Value, token: &TokenSource) -> Failure {
    let problem: Problem = match serde_json::from_value(body.clone()) {
        Ok(problem) => problem,
        Err(_) => {
            let detail = body["detail"].as_str().unwrap_or("it was refused").to_owned();
            Problem { r#type: String::new(), title: String::new(), status, detail, errors: Vec::new() }
        }
    };
    if status == 401 {
        return refused_token(token);
    }
    let mut message = plain_places(&problem);
    for fault in &problem.errors {
        if problem.errors.len() == 1 && message.contains(&fault.detail) && fault.line.is_none() {
            continue;
        }
        message.push_str("\n  ");
        if let Some(pointer) = fault.pointer.as_deref().filter(|pointer| !pointer.is_empty()) {
            message.push_str(&format!("{}: ", place(pointer)));
        }
        message.push_str(&fault.detail);
        if let (Some(line), Some(column)) = (fault.line, fault.column) {
            message.push_str(&format!(" (line {line}, column {column})"));
        }
        if let Some(help) = &fault.help {
            message.push_str(&format!("\n    {help}"));
        }
    }
    let (exit, remedy) = match status {
        403 => {
            (Exit::BadInput, Some("ask for a token with that role: `mainspring tokens create --role ROLE` makes one"))
        }
        404 => (Exit::BadInput, lister(&message)),
        429 => (Exit::Unreachable, None),
        503 => (Exit::Unreachable, None),
        500..=599 => (Exit::WorkFailed, None),
        _ => (Exit::BadInput, lister(&message).filter(|_| message.starts_with("the run has no task"))),
    };
    Failure { exit, message, remedy: remedy.map(str::to_owned) }
}

/// The command that shows what could have been meant.
fn lister(message: &str) -> Option<&'static str> {
    Some(match message.split(' ').next()? {
        "run" => "`mainspring runs list` shows what there is",
        "workflow" => "`mainspring workflows list` shows what there is",
        "job" => "`mainspring jobs list` shows what there is",
        "worker" => "`mainspring workers list` shows what there is",
        "namespace" => "`mainspring namespaces list` shows what there is",
        "dead" => "`mainspring dlq list` shows what there is",
        _ if message.starts_with("the run has no task") => "`mainspring runs get RUN` shows its tasks",
        _ if message.ends_with("has no dead letter") => "`mainspring dlq list` shows what there is",
        _ => return None,
    })
}

/// The server answers alike whatever is wrong with a token; what was sent is known here.
fn refused_token(token: &TokenSource) -> Failure {
    match token {
        TokenSource::From(place) => Failure::bad_input(format!("the server does not accept the token of {place}"))
            .remedy("it may be revoked, expired, mistyped or of another server; `mainspring tokens create` makes one"),
        TokenSource::Missing | TokenSource::Local => Failure::bad_input("the server wants a token, and none was given")
            .remedy("set MAINSPRING_TOKEN, or `token` in a profile; `mainspring tokens create` makes one"),
    }
}

/// The detail, with the fields of a body named as people type them instead of by their pointers.
fn plain_places(problem: &Problem) -> String {
    let mut detail = problem.detail.clone();
    for pointer in problem.errors.iter().filter_map(|fault| fault.pointer.as_deref()) {
        if let Some(rest) = detail.strip_prefix(&format!("{pointer}: ")).filter(|_| pointer.starts_with('/')) {
            detail = format!("{}: {rest}", place(pointer));
        }
    }
    detail
}

/// `/retry/attempts` is `retry.attempts`.
fn place(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(status: u16, body: &[u8]) -> Result<Value> {
        read(status, body, &TokenSource::Local)
    }

    #[test]
    fn a_missing_token_and_a_wrong_one_read_differently() {
        let body = br#"{"type":"about:blank","title":"x","status":401,"detail":"a valid token is needed"}"#;
        let missing = read(401, body, &TokenSource::Missing).unwrap_err();
        let wrong = read(401, body, &TokenSource::From("MAINSPRING_TOKEN".into())).unwrap_err();
        assert!(missing.message.contains("none was given"), "{}", missing.message);
        assert!(wrong.message.contains("does not accept the token of MAINSPRING_TOKEN"), "{}", wrong.message);
    }

    #[test]
    fn pointers_are_not_shown_to_people() {
        let body = br#"{"type":"about:blank","title":"x","status":422,"detail":"/execute_at: must be a time",
            "errors":[{"detail":"must be a time","pointer":"/execute_at"}]}"#;
        assert_eq!(checked(422, body).unwrap_err().message, "execute_at: must be a time");
    }

    #[test]
    fn problems_become_failures_with_places() {
        let body = br#"{"type":"about:blank","title":"x","status":422,"detail":"the body does not fit",
            "errors":[{"detail":"must be a number","pointer":"/slots","line":1,"column":5}]}"#;
        let failure = checked(422, body).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        assert_eq!(failure.message, "the body does not fit\n  slots: must be a number (line 1, column 5)");
        assert_eq!(checked(503, br#"{"detail":"away"}"#).unwrap_err().exit, Exit::Unreachable);
        assert_eq!(checked(200, b"<html>").unwrap_err().exit, Exit::Unreachable);
        assert_eq!(checked(204, b"").unwrap(), Value::Null);
    }
}
