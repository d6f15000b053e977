//! Files that the tasks of a run left to be kept.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use mainspring_api::runs::Artifact;
use mainspring_api::worker::DIGEST_HEADER;
use mainspring_core::TaskKey;
use mainspring_store::ArtifactRow;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{find, task_key, task_name};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Path, Query, sending};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(get));
}

/// List the files that a run left
#[utoipa::path(get, path = "/workflow-runs/{id}/artifacts", tag = "runs", params(("id" = Uuid, Path), PageParams),
    responses((status = 200, body = List<Artifact>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Path(id): Path<Uuid>,
) -> Result<Json<List<Artifact>>, Problem> {
    let run = find(&state, &caller, id).await?;
    let client = state.client();
    let spec = client.spec(run.version).await?;
    let rows = client.store().artifacts(id).await?;
    let list = page.slice("artifacts", rows, |row| Artifact {
        task_id: task_name(&spec.workflow, key(id, &row)),
        name: row.name,
        attempt: row.attempt,
        bytes: row.bytes,
        sha256: row.sha256,
        executable: row.executable,
    })?;
    Ok(Json(list))
}

fn key(run: Uuid, row: &ArtifactRow) -> TaskKey {
    TaskKey { run, index: row.idx, item: row.item }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GetParams {
    /// The task that left it, where several left one of that name
    task: Option<String>,
    /// The attempt; the newest unless given
    attempt: Option<i32>,
}

/// Get a file that a run left
#[utoipa::path(get, path = "/workflow-runs/{id}/artifacts/{name}", tag = "runs",
    params(("id" = Uuid, Path), ("name" = String, Path), GetParams),
    responses((status = 200, description = "Its content", content_type = "application/octet-stream")))]
pub(crate) async fn get(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, name)): Path<(Uuid, String)>,
    Query(params): Query<GetParams>,
) -> Result<Response, Problem> {
    let run = find(&state, &caller, id).await?;
    let client = state.client();
    let spec = client.spec(run.version).await?;
    let task = params.task.as_deref().map(|task| task_key(&spec.workflow, id, task)).transpose()?;
    let mut rows = client.store().artifacts(id).await?;
    rows.retain(|row| {
        row.name == name
            && task.is_none_or(|task| task == key(id, row))
            && params.attempt.is_none_or(|attempt| attempt == row.attempt)
    });
    rows.sort_by_key(|row| std::cmp::Reverse(row.attempt));
    let Some(found) = rows.first() else {
        return Err(Problem::not_found("the run has left no such file"));
    };
    if rows.iter().any(|row| key(id, row) != key(id, found)) {
        return Err(Problem::conflict("several tasks left a file of that name: say which with ?task="));
    }
    let opened = client.open_artifact(key(id, found), found.attempt, &name).await?;
    let opened = opened.ok_or_else(|| Problem::not_found("the run has left no such file"))?;
    // Never shown by a browser as a page of ours.
    let headers = [
        ("content-type", "application/octet-stream".to_owned()),
        ("content-disposition", "attachment".to_owned()),
        ("content-length", opened.bytes.to_string()),
        (DIGEST_HEADER, opened.sha256),
    ];
    Ok((headers, sending(opened.reader)).into_response())
}
