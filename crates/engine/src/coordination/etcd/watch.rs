//! Watching the keys of this installation: a snapshot, then every change.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::gateway::{Gateway, decoded, encoded, number, range_end};
use crate::coordination::CoordinationError;

/// A line longer than this is no line of a watch.
const LONGEST_LINE: usize = 8 << 20;

type Result<T> = std::result::Result<T, CoordinationError>;

/// What happened to a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyChange {
    Put(String),
    Deleted(String),
}

pub(super) struct Watch {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Gateway {
    /// The keys with this prefix, and the revision of the snapshot.
    pub(super) async fn keys(&self, prefix: &str) -> Result<(Vec<String>, i64)> {
        let body = json!({"key": encoded(prefix), "range_end": range_end(prefix), "keys_only": true});
        let answer = self.call("/v3/kv/range", &body).await?;
        let rows = answer.get("kvs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let keys = rows.iter().filter_map(|row| decoded(row.get("key"))).collect();
        Ok((keys, answer.pointer("/header/revision").and_then(|value| number(Some(value))).unwrap_or(0)))
    }

    pub(super) async fn watch(&self, prefix: &str, from: i64) -> Result<Watch> {
        let request = json!({"create_request": {
            "key": encoded(prefix), "range_end": range_end(prefix), "start_revision": from.to_string(),
        }});
        Ok(Watch { body: self.open("/v3/watch", &request).await?, buffer: Vec::new() })
    }
}

impl Watch {
    /// The next changes; an error when the watch has ended.
    pub(super) async fn next(&mut self) -> Result<Vec<KeyChange>> {
        let over = |cause: &str| CoordinationError::Unreachable(format!("the watch has ended: {cause}"));
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return match serde_json::from_slice::<Value>(&line) {
                    Ok(message) => changes(&message),
                    Err(error) => Err(over(&error.to_string())),
                };
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(over(&error.to_string())),
                None => return Err(over("the connection was closed")),
            }
            if self.buffer.len() > LONGEST_LINE {
                return Err(over("a line does not end"));
            }
        }
    }
}

fn changes(message: &Value) -> Result<Vec<KeyChange>> {
    let result = message.get("result").unwrap_or(message);
    if result.get("canceled").and_then(Value::as_bool).unwrap_or(false) || message.get("error").is_some() {
        return Err(CoordinationError::Unreachable("the watch was cancelled".into()));
    }
    let events = result.get("events").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let change = |event: &Value| {
        let key = decoded(event.pointer("/kv/key"))?;
        Some(match event.get("type").and_then(Value::as_str) {
            Some("DELETE") => KeyChange::Deleted(key),
            _ => KeyChange::Put(key),
        })
    };
    Ok(events.iter().filter_map(change).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        let key = encoded("/mainspring/members/x");
        let put = json!({"result": {"header": {"revision": "5"}, "events": [{"kv": {"key": key}}]}});
        assert_eq!(changes(&put).unwrap(), [KeyChange::Put("/mainspring/members/x".into())]);
        let deleted = json!({"result": {"events": [{"type": "DELETE", "kv": {"key": key}}]}});
        assert_eq!(changes(&deleted).unwrap(), [KeyChange::Deleted("/mainspring/members/x".into())]);
        assert_eq!(changes(&json!({"result": {"created": true}})).unwrap(), []);
        assert!(changes(&json!({"result": {"canceled": true}})).is_err());
        assert!(changes(&json!({"error": {"message": "no"}})).is_err());
    }
}
