//! Whether an answer is the one that was expected.

use mainspring_core::work::Failure;
use mainspring_core::workflow::HttpExpect;
use serde_json::{Map, Value};

use super::answer::Answer;

/// Checks an answer; `facts` hold its `headers` and `body`. The message of a failure quotes the beginning of the body.
pub(super) fn check(expect: &HttpExpect, answer: &Answer, facts: &Map<String, Value>) -> Result<(), Failure> {
    let nothing = Map::new();
    let headers = facts.get("headers").and_then(Value::as_object).unwrap_or(&nothing);
    let body = facts.get("body").unwrap_or(&Value::Null);
    let text = String::from_utf8_lossy(&answer.body);
    expect
        .check(answer.status.as_u16(), headers, &text, body)
        .map_err(|failure| Failure { detail: answer.excerpt(), ..failure })
}
