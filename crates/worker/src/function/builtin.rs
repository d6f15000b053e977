//! Handlers that every worker has. They do nothing useful, which is what examples, tests and benchmarks need.

use std::time::Duration;

use mainspring_core::work::Failure;
use serde_json::Value;

use super::call::{FunctionCall, FunctionFuture, FunctionResult, Handler};
use crate::text::parse_duration;

/// Succeeds at once; its payload is its output.
pub(super) struct Noop;

impl Handler for Noop {
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_> {
        Box::pin(async move { Ok(Some(call.payload().clone()).filter(|payload| !payload.is_null())) })
    }

    fn immediate(&self, payload: &Value, _attempt: i32) -> Option<FunctionResult> {
        Some(Ok(if payload.is_null() { None } else { Some(payload.clone()) }))
    }
}

/// `{ms: 250}`, `{seconds: 1.5}` or `{for: "2s"}`: succeeds after that time.
pub(super) struct Sleep;

impl Handler for Sleep {
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_> {
        Box::pin(async move {
            let time = sleep_time(call.payload())?;
            tokio::select! {
                () = call.cancel.cancelled() => {}
                () = tokio::time::sleep(time) => {}
            }
            Ok(None)
        })
    }
}

fn sleep_time(payload: &Value) -> Result<Duration, Failure> {
    let seconds = |value: &Value| value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = match payload {
        Value::Object(fields) => match (fields.get("ms"), fields.get("seconds"), fields.get("for")) {
            (Some(ms), None, None) => ms.as_u64().map(Duration::from_millis),
            (None, Some(value), None) => seconds(value),
            (None, None, Some(text)) => text.as_str().and_then(parse_duration),
            _ => None,
        },
        _ => None,
    };
    time.ok_or_else(|| bad_payload("sleep", "one of {ms: 250}, {seconds: 1.5} or {for: \"2s\"}"))
}

/// `{message, kind, times, permanent}`: fails always, or for the first `times` attempts.
pub(super) struct Fail;

impl Handler for Fail {
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_> {
        Box::pin(async move { fail(call.payload(), call.attempt) })
    }

    fn immediate(&self, payload: &Value, attempt: i32) -> Option<FunctionResult> {
        Some(fail(payload, attempt))
    }
}

fn fail(payload: &Value, attempt: i32) -> FunctionResult {
    let field = |name: &str| payload.get(name).filter(|value| !value.is_null());
    let text = |name: &str, default: &str| match field(name) {
        None => Some(default.to_owned()),
        Some(value) => value.as_str().map(str::to_owned),
    };
    let times = match field("times") {
        None => Some(i64::MAX),
        Some(value) => value.as_i64(),
    };
    let permanent = match field("permanent") {
        None => Some(false),
        Some(value) => value.as_bool(),
    };
    let (Some(message), Some(kind), Some(times), Some(permanent)) =
        (text("message", "failed on purpose"), text("kind", "handler"), times, permanent)
    else {
        return Err(bad_payload("fail", "{message: text, kind: text, times: number, permanent: boolean}"));
    };
    if i64::from(attempt) > times {
        return Ok(None);
    }
    Err(Failure { kind, message, permanent, ..Failure::default() })
}

fn bad_payload(handler: &str, expected: &str) -> Failure {
    let message = format!("the payload of `{handler}` should be {expected}");
    Failure { kind: "handler".into(), message, permanent: true, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sleep_reads_three_ways_of_saying_how_long() {
        for (payload, milliseconds) in [
            (json!({"ms": 250}), Some(250)),
            (json!({"seconds": 1.5}), Some(1500)),
            (json!({"for": "2s"}), Some(2000)),
            (json!({"ms": -1}), None),
            (json!({"seconds": 1e300}), None),
            (json!({"for": "soon"}), None),
            (json!({"ms": 1, "for": "2s"}), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(sleep_time(&payload).ok(), milliseconds.map(Duration::from_millis), "{payload}");
        }
    }

    #[test]
    fn fail_counts_attempts() {
        assert!(fail(&json!(null), 1_000).is_err());
        assert!(fail(&json!({"times": 2}), 2).is_err());
        assert_eq!(fail(&json!({"times": 2}), 3), Ok(None));
        let failure = fail(&json!({"message": "no", "kind": "http", "permanent": true}), 1).unwrap_err();
        assert_eq!((failure.kind.as_str(), failure.message.as_str(), failure.permanent), ("http", "no", true));
        assert!(fail(&json!({"times": "two"}), 1).unwrap_err().message.contains("payload"));
    }
}
