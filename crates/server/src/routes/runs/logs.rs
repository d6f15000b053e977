//! What task runs printed.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use mainspring_api::runs::{LogEntry, Logs};
use mainspring_core::TaskKey;
use mainspring_core::time::rfc3339;
use mainspring_core::work::LogLine;
use mainspring_store::{LogCursor, Store};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::log_search as search;
use super::shapes::{find, task_key};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Path, Query};
use crate::live::logs::{cursor, follow};
use crate::openapi::words::LogFormat;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{log_level, log_stream};

/// How many chunks one answer holds at most; each holds a few hundred lines.
const CHUNKS: i64 = 50;
const MOST_TAIL: usize = 10_000;
const USUAL_TAIL: usize = 200;
/// Behind everything.
const END: LogCursor = LogCursor { attempt: i32::MAX, chunk: i32::MAX };

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(logs)).also_at("/v1/tasks/{id}/workflow_steps/{task}/logs");
}

pub(super) fn entry(attempt: i32, line: LogLine) -> LogEntry {
    LogEntry {
        attempt,
        timestamp: rfc3339(line.at),
        stream: log_stream(line.stream),
        level: log_level(line.stream),
        message: line.text,
        line: None,
        hit: None,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// Only of this attempt
    attempt: Option<i32>,
    /// Only behind this place, as `after` of an answer said
    #[param(pattern = "^[0-9]{1,9}\\.[0-9]{1,9}$")]
    after: Option<String>,
    /// Go on as lines come (server-sent events)
    follow: Option<bool>,
    /// The last lines: at least this number, if there are that many
    #[param(minimum = 1, maximum = 10000)]
    tail: Option<usize>,
    /// Only before this place, as `before` of an answer said
    #[param(pattern = "^[0-9]{1,9}\\.[0-9]{1,9}$")]
    before: Option<String>,
    /// Lines with this text, whatever its case, and 20 lines around each
    #[param(min_length = 1, max_length = 1000)]
    q: Option<String>,
    /// `text` for the whole as a file
    #[param(inline, value_type = Option<LogFormat>)]
    format: Option<String>,
}

/// Read the log of a task run
#[utoipa::path(get, path = "/workflow-runs/{id}/tasks/{task}/logs", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path), LogParams), 
    responses((status = 200, content((Logs = "application/json"), (String = "text/plain")))))]
pub(crate) async fn logs(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, task)): Path<(Uuid, String)>,
    Query(params): Query<LogParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = find(&state, &caller, id).await?;
    let client = state.client();
    let key = task_key(&client.spec(run.version).await?.workflow, id, &task)?;
    let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = resumed.or(params.after.as_deref()).map_or(Ok(LogCursor::default()), cursor)?;
    if params.follow.unwrap_or(false) {
        return Ok(follow(&state, &caller, key, &headers, params.attempt, after)?.into_response());
    }
    let store = client.store();
    match (params.format.as_deref(), params.q.as_deref()) {
        (Some("text"), _) => return Ok(search::file(store.clone(), key, params.attempt)),
        (Some("json") | None, Some(text)) => {
            return Ok(Json(search::find(store, key, params.attempt, after, text).await?).into_response());
        }
        (Some("json") | None, None) => {}
        (Some(_), _) => return Err(Problem::malformed("the query does not fit: format is `json` or `text`")),
    }
    if params.tail.is_some() || params.before.is_some() {
        let before = params.before.as_deref().map_or(Ok(END), cursor)?;
        return Ok(Json(back(store, key, params.attempt, before, params.tail.unwrap_or(1_000)).await?).into_response());
    }
    Ok(Json(read(store, key, params.attempt, after).await?).into_response())
}

/// The lines before a position: whole chunks, until there are enough lines.
pub(crate) async fn back(
    store: &Store,
    key: TaskKey,
    attempt: Option<i32>,
    before: LogCursor,
    lines: usize,
) -> Result<Logs, Problem> {
    if !(1..=MOST_TAIL).contains(&lines) {
        return Err(Problem::malformed(format!("tail is {lines}, but must be from 1 to {MOST_TAIL}")));
    }
    let mut chunks = store.read_logs_back(key, attempt, before, CHUNKS + 1).await?;
    let mut count = 0;
    let enough = chunks.iter().position(|(_, chunk)| {
        count += chunk.len();
        count >= lines
    });
    let kept = enough.map_or(chunks.len(), |last| last + 1).min(usize::try_from(CHUNKS).unwrap_or(0));
    let has_more = chunks.len() > kept;
    chunks.truncate(kept);
    let place = |place: LogCursor| format!("{}.{}", place.attempt, place.chunk);
    let before = chunks.last().filter(|_| has_more).map(|(first, _)| place(*first));
    let after = chunks.first().map_or_else(|| place(LogCursor::default()), |(last, _)| place(*last));
    let items = chunks
        .into_iter()
        .rev()
        .flat_map(|(place, lines)| lines.into_iter().map(move |line| entry(place.attempt, line)));
    Ok(Logs { items: items.collect(), after, next: None, before })
}

async fn read(store: &Store, key: TaskKey, attempt: Option<i32>, after: LogCursor) -> Result<Logs, Problem> {
    let mut chunks = store.read_logs(key, attempt, after, CHUNKS + 1).await?;
    let has_more = chunks.len() as i64 > CHUNKS;
    chunks.truncate(usize::try_from(CHUNKS).unwrap_or(0));
    let last = chunks.last().map_or(after, |(place, _)| *place);
    let items = chunks
        .into_iter()
        .flat_map(|(place, lines)| lines.into_iter().map(move |line| entry(place.attempt, line)))
        .collect();
    let after = format!("{}.{}", last.attempt, last.chunk);
    Ok(Logs { items, next: has_more.then(|| after.clone()), after, before: None })
}

/// The end of the log of a task run.
pub(crate) async fn tail(store: &Store, key: TaskKey) -> Result<Logs, Problem> {
    back(store, key, None, END, USUAL_TAIL).await
}

/// The log of a task run, as far as one answer holds.
pub(crate) async fn all(store: &Store, key: TaskKey) -> Result<Vec<LogEntry>, Problem> {
    Ok(read(store, key, None, LogCursor::default()).await?.items)
}
