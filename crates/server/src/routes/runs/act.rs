//! What people do to a whole run.

use axum::Json;
use axum::extract::State;
use mainspring_store::{CancelOutcome, Operator, Reopen};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{Run, find, shown, task_key};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Json as Body, MaybeJson, Path};
use crate::problem::Problem;
use crate::state::ApiState;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(cancel));
    routes.at(Access::InNamespace(Role::Operator), routes!(pause));
    routes.at(Access::InNamespace(Role::Operator), routes!(resume));
    routes.at(Access::InNamespace(Role::Operator), routes!(retry));
    routes.at(Access::InNamespace(Role::Operator), routes!(rerun));
}

/// Who acts, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Why {
    by: Option<String>,
    reason: Option<String>,
}

impl Why {
    fn operator(why: Option<Self>, caller: &Caller) -> Operator {
        let why = why.unwrap_or_default();
        caller.operator(why.by, why.reason)
    }
}

/// Cancel a run: what has not started never will, what runs is stopped
#[utoipa::path(post, path = "/workflow-runs/{id}/cancel", tag = "runs", params(("id" = Uuid, Path)),
    request_body(content = Option<Why>), responses((status = 200, body = Run), (status = 409, description = "It has ended")))]
pub(crate) async fn cancel(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(why): MaybeJson<Why>,
) -> Result<Json<Run>, Problem> {
    find(&state, &caller, id).await?;
    match state.client().cancel(id, &Why::operator(why, &caller)).await? {
        CancelOutcome::Cancelling => Ok(Json(shown(&state, id).await?)),
        CancelOutcome::AlreadyEnded(how) => Err(Problem::conflict(format!("run {id} has ended: it is {how}"))),
    }
}

/// Pause a run: nothing more of it starts, what runs goes on
#[utoipa::path(post, path = "/workflow-runs/{id}/pause", tag = "runs", params(("id" = Uuid, Path)),
    request_body(content = Option<Why>), responses((status = 200, body = Run), (status = 409, description = "It is not running")))]
pub(crate) async fn pause(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(why): MaybeJson<Why>,
) -> Result<Json<Run>, Problem> {
    find(&state, &caller, id).await?;
    state.client().pause(id, &Why::operator(why, &caller)).await?;
    Ok(Json(shown(&state, id).await?))
}

/// Let a paused run go on
#[utoipa::path(post, path = "/workflow-runs/{id}/resume", tag = "runs", params(("id" = Uuid, Path)),
    request_body(content = Option<Why>), responses((status = 200, body = Run), (status = 409, description = "It is not paused")))]
pub(crate) async fn resume(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(why): MaybeJson<Why>,
) -> Result<Json<Run>, Problem> {
    find(&state, &caller, id).await?;
    state.client().resume(id, &Why::operator(why, &caller)).await?;
    Ok(Json(shown(&state, id).await?))
}

/// Do the failed tasks of a run again, and what did not run because of them
#[utoipa::path(post, path = "/workflow-runs/{id}/retry", tag = "runs", params(("id" = Uuid, Path)),
    request_body(content = Option<Why>), responses((status = 200, body = Run), (status = 409, description = "There is nothing to do again")))]
pub(crate) async fn retry(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(why): MaybeJson<Why>,
) -> Result<Json<Run>, Problem> {
    find(&state, &caller, id).await?;
    reopened(&state, id, &Reopen::Failed, &Why::operator(why, &caller)).await
}

async fn reopened(state: &ApiState, id: Uuid, what: &Reopen, operator: &Operator) -> Result<Json<Run>, Problem> {
    let reopened = state.client().reopen(id, what, operator).await?;
    let mut run = shown(state, id).await?;
    run.reopened_tasks = Some(reopened.tasks);
    Ok(Json(run))
}

/// One task, or several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// From where a run is done again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rerun {
    /// The task, or a list of tasks, with everything that depends on them.
    from: OneOrMany,
    by: Option<String>,
    reason: Option<String>,
}

/// Do a task of an ended run again, and everything that depends on it
#[utoipa::path(post, path = "/workflow-runs/{id}/rerun", tag = "runs", params(("id" = Uuid, Path)),
    request_body = Rerun, responses((status = 200, body = Run), (status = 409, description = "The run has not failed")))]
pub(crate) async fn rerun(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Body(rerun): Body<Rerun>,
) -> Result<Json<Run>, Problem> {
    let run = find(&state, &caller, id).await?;
    let client = state.client();
    let spec = client.spec(run.version).await?;
    let from = match rerun.from {
        OneOrMany::One(task) => vec![task],
        OneOrMany::Many(tasks) => tasks,
    };
    if from.is_empty() {
        return Err(Problem::invalid("/from", "name the task to begin with"));
    }
    let tasks: Result<Vec<usize>, Problem> =
        from.iter().map(|task| Ok(task_key(&spec.workflow, id, task)?.index as usize)).collect();
    reopened(&state, id, &Reopen::From(tasks?), &caller.operator(rerun.by, rerun.reason)).await
}
