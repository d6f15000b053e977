//! Actions of operators on whole runs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::runs::{OneOrMany, Rerun, Run, Why};
use mainspring_engine::Submission;
use mainspring_store::{CancelOutcome, Operator, Reopen};
use serde_json::{Map, Value, json};
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{find, shown, task_key};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{MaybeJson, Path};
use crate::problem::Problem;
use crate::state::ApiState;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(cancel));
    routes.at(Access::InNamespace(Role::Operator), routes!(pause));
    routes.at(Access::InNamespace(Role::Operator), routes!(resume));
    routes.at(Access::InNamespace(Role::Operator), routes!(retry));
    routes.at(Access::InNamespace(Role::Operator), routes!(rerun));
}

fn operator(why: Option<Why>, caller: &Caller) -> Operator {
    let why = why.unwrap_or_default();
    caller.operator(why.by, why.reason)
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
    match state.client().cancel(id, &operator(why, &caller)).await? {
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
    state.client().pause(id, &operator(why, &caller)).await?;
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
    state.client().resume(id, &operator(why, &caller)).await?;
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
    reopened(&state, id, &Reopen::Failed, &operator(why, &caller)).await
}

async fn reopened(state: &ApiState, id: Uuid, what: &Reopen, operator: &Operator) -> Result<Json<Run>, Problem> {
    let reopened = state.client().reopen(id, what, operator).await?;
    let mut run = shown(state, id).await?;
    run.reopened_tasks = Some(reopened.tasks);
    Ok(Json(run))
}

/// Do an ended run again: some of its tasks and everything that depends on them, or the whole as a new run
#[utoipa::path(post, path = "/workflow-runs/{id}/rerun", tag = "runs", params(("id" = Uuid, Path)),
    request_body(content = Option<Rerun>), responses((status = 200, body = Run, description = "Its tasks are done again"),
        (status = 201, body = Run, description = "A new run was started"), (status = 409, description = "The run has not ended")))]
pub(crate) async fn rerun(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(rerun): MaybeJson<Rerun>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let run = find(&state, &caller, id).await?;
    let rerun = rerun.unwrap_or_default();
    let client = state.client();
    let spec = client.spec(run.version).await?;
    let from = match rerun.from {
        None => return repeated(&state, &caller, id, rerun.inputs).await,
        Some(_) if rerun.inputs.is_some() => {
            let said = "other inputs make a new run: leave `from` out to start one, or `inputs` to go on with this run";
            return Err(Problem::invalid("/inputs", said));
        }
        Some(OneOrMany::One(task)) => vec![task],
        Some(OneOrMany::Many(tasks)) => tasks,
    };
    if from.is_empty() {
        return Err(Problem::invalid("/from", "name the task to begin with"));
    }
    let tasks: Result<Vec<usize>, Problem> =
        from.iter().map(|task| Ok(task_key(&spec.workflow, id, task)?.index as usize)).collect();
    let shown = reopened(&state, id, &Reopen::From(tasks?), &caller.operator(rerun.by, rerun.reason)).await?;
    Ok((StatusCode::OK, shown))
}

/// A new run of the same version with the same inputs, except those given.
async fn repeated(
    state: &ApiState,
    caller: &Caller,
    id: Uuid,
    inputs: Option<Map<String, Value>>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let client = state.client();
    let row = client.store().run(id).await?;
    if !row.summary.state.is_terminal() {
        return Err(Problem::conflict(format!("run {id} has not ended: it is {}; cancel it first", row.summary.state)));
    }
    let mut all = match row.inputs {
        Some(Value::Object(inputs)) => inputs,
        _ => Map::new(),
    };
    all.extend(inputs.unwrap_or_default());
    let submission = Submission {
        inputs: all,
        correlation_id: row.correlation_id,
        trigger: Some(json!({"kind": "rerun", "run": id, "by": caller.identity().name})),
        ..Submission::default()
    };
    let spec = client.spec(row.summary.version).await?;
    let created = client.submit(&spec, submission).await?;
    let Some(run) = created.run() else {
        return Err(Problem::conflict("its concurrency limit is used up, and it takes no more runs until one ends"));
    };
    Ok((StatusCode::CREATED, Json(shown(state, run).await?)))
}
