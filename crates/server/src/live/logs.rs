//! The log of a task run as it is written, for `GET /workflow-runs/{id}/tasks/{task}/logs?follow=true`.
//!
//! One event per line. The id is `ATTEMPT.CHUNK` and stands on the last line of a chunk: a client that resumes from it misses no
//! line, and may see lines again of a chunk that it had not received to its end. `event: end` says that there will be no more.

use axum::http::HeaderMap;
use axum::response::sse::Event;
use mainspring_core::TaskKey;
use mainspring_core::time::rfc3339;
use mainspring_core::work::LogLine;
use mainspring_engine::LogSubscription;
use mainspring_store::LogCursor;
use serde_json::json;
use tokio::sync::mpsc;

use super::caps::{LiveLimits, Place};
use super::socket::is_still_authorised;
use super::stream::{Events, received, served};
use crate::auth::caller::Caller;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::log_level;

/// Reads `ATTEMPT.CHUNK`, as an id of an event or as `after`.
pub(crate) fn cursor(text: &str) -> Result<LogCursor, Problem> {
    let parsed = text.split_once('.').and_then(|(attempt, chunk)| Some((attempt.parse().ok()?, chunk.parse().ok()?)));
    match parsed {
        Some((attempt, chunk)) if attempt >= 0 && chunk >= 0 => Ok(LogCursor { attempt, chunk }),
        _ => Err(Problem::malformed(format!(
            "`{text}` is no place in a log: write ATTEMPT.CHUNK as it stands in the `id` of an event, like 1.4"
        ))),
    }
}

/// Streams the log of a task run. The caller must be authorised before.
pub(crate) fn follow(
    state: &ApiState,
    caller: &Caller,
    key: TaskKey,
    headers: &HeaderMap,
    attempt: Option<i32>,
    after: LogCursor,
) -> Result<Events, Problem> {
    let place = state.live().enter(&caller.identity().actor)?;
    let subscription = state.client().live().subscribe_to_logs(key, attempt, after);
    let (sender, receiver) = mpsc::channel(16);
    let viewer = Viewer { state: state.clone(), caller: caller.clone(), headers: headers.clone() };
    tokio::spawn(pump(viewer, subscription, sender, place));
    Ok(served(received(receiver)))
}

/// The reader, whose credentials may expire.
struct Viewer {
    state: ApiState,
    caller: Caller,
    headers: HeaderMap,
}

async fn pump(viewer: Viewer, mut subscription: LogSubscription, sender: mpsc::Sender<Event>, place: Place) {
    let _place = place;
    let caps = viewer.state.live().clone();
    let LiveLimits { patience, ping_every, .. } = caps.limits();
    let mut looks = tokio::time::interval_at(tokio::time::Instant::now() + ping_every, ping_every);
    let closing = caps.closed();
    tokio::pin!(closing);
    loop {
        let chunks = tokio::select! {
            () = &mut closing => return,
            () = sender.closed() => return,
            _ = looks.tick() => match is_still_authorised(&viewer.state, &viewer.caller, &viewer.headers).await {
                true => continue,
                false => return,
            },
            chunks = subscription.next() => chunks,
        };
        let chunks = match chunks {
            Ok(Some(chunks)) => chunks,
            Ok(None) => {
                let _ = tokio::time::timeout(patience, sender.send(Event::default().event("end").data("{}"))).await;
                return;
            }
            // Ends without `end`, so that the client resumes from its last id.
            Err(error) => {
                tracing::debug!(%error, "following a log");
                return;
            }
        };
        for (cursor, lines) in &chunks {
            for (nth, line) in lines.iter().enumerate() {
                let event = event(*cursor, line, nth + 1 == lines.len());
                match tokio::time::timeout(patience, sender.send(event)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        }
    }
}

fn event(cursor: LogCursor, line: &LogLine, is_last: bool) -> Event {
    let data = json!({
        "attempt": cursor.attempt,
        "timestamp": rfc3339(line.at),
        "stream": line.stream.word(),
        "level": log_level(line.stream),
        "message": line.text,
    });
    let event = Event::default().event("log").data(data.to_string());
    if is_last { event.id(format!("{}.{}", cursor.attempt, cursor.chunk)) } else { event }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_log_are_read_strictly() {
        assert_eq!(cursor("2.17").unwrap(), LogCursor { attempt: 2, chunk: 17 });
        for wrong in ["", "1", "1.", ".1", "-1.2", "1.-2", "a.b", "1.2.3", "99999999999.1"] {
            assert!(cursor(wrong).is_err(), "{wrong}");
        }
    }
}
