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

use super::shapes::{find, task_key};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Path, Query};
use crate::live::logs::{cursor, follow};
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{log_level, log_stream};

/// How many chunks one answer holds at most; each holds a few hundred lines.
const CHUNKS: i64 = 50;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(logs)).also_at("/v1/tasks/{id}/workflow_steps/{task}/logs");
}

fn entry(attempt: i32, line: LogLine) -> LogEntry {
    LogEntry {
        attempt,
        timestamp: rfc3339(line.at),
        stream: log_stream(line.stream),
        level: log_level(line.stream),
        message: line.text,
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
}

/// Read the log of a task run
#[utoipa::path(get, path = "/workflow-runs/{id}/tasks/{task}/logs", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path), LogParams), responses((status = 200, body = Logs)))]
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
        return Ok(follow(&state, &caller, key, params.attempt, after)?.into_response());
    }
    Ok(Json(read(client.store(), key, params.attempt, after).await?).into_response())
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
    Ok(Logs { items, next: has_more.then(|| after.clone()), after })
}

/// Everything that a task run printed, as far as one answer holds.
pub(crate) async fn all(store: &Store, key: TaskKey) -> Result<Vec<LogEntry>, Problem> {
    Ok(read(store, key, None, LogCursor::default()).await?.items)
}
