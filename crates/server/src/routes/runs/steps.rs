//! `/v1/tasks/{id}/workflow_steps`: task runs in a form that other clients know: plain lists, other names of ids, other
//! words for states.

use axum::Json;
use axum::extract::State;
use mainspring_api::runs::{Step, StepState, TaskRun, TaskStatus};
use serde_json::Value;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::find;
use super::tasks::{Includes, ShowParams, listed, shown};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Path, Query};
use crate::page::{Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const USUAL_LIMIT: i64 = 50;

pub(super) fn register(routes: &mut Routes) {
    routes.at_root(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at_root(Access::InNamespace(Role::Viewer), routes!(show));
}

/// List the steps of a task: the task runs of a run as a plain list, 50 unless `limit` says otherwise
#[utoipa::path(get, path = "/v1/tasks/{id}/workflow_steps", tag = "runs", params(("id" = Uuid, Path), PageParams),
    responses((status = 200, body = Vec<Step>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Path(id): Path<Uuid>,
) -> Result<Json<Vec<Step>>, Problem> {
    let tasks = listed(&state, &caller, &page.or_limit(USUAL_LIMIT), id, None).await?;
    Ok(Json(tasks.items.into_iter().map(step).collect()))
}

/// Show a step of a task: another form of a task run
#[utoipa::path(get, path = "/v1/tasks/{id}/workflow_steps/{task}", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path), ShowParams), responses((status = 200, body = Step)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, task)): Path<(Uuid, String)>,
    Query(params): Query<ShowParams>,
) -> Result<Json<Step>, Problem> {
    let wanted = Includes::read(params.include.as_deref())?;
    let run = find(&state, &caller, id).await?;
    let spec = state.client().spec(run.version).await?;
    Ok(Json(step(shown(&state, run, &spec, id, &task, wanted).await?)))
}

fn step(task: TaskRun) -> Step {
    let state = match task.status {
        TaskStatus::Pending => StepState::Pending,
        TaskStatus::Ready => StepState::Enqueued,
        TaskStatus::Running | TaskStatus::Waiting => StepState::InProgress,
        TaskStatus::Retrying => StepState::WaitingForRetry,
        TaskStatus::Success | TaskStatus::Skipped => StepState::Complete,
        TaskStatus::Failed | TaskStatus::UpstreamFailed => StepState::Error,
        TaskStatus::ResolvedManually => StepState::ResolvedManually,
        TaskStatus::Cancelled => StepState::Cancelled,
    };
    let (task_uuid, workflow_step_uuid, name) = (task.workflow_run_id, task.id.clone(), task.task_id.clone());
    let mut rest = match serde_json::to_value(task) {
        Ok(Value::Object(rest)) => rest,
        _ => serde_json::Map::new(),
    };
    rest.shift_remove("current_state");
    Step { task_uuid, workflow_step_uuid, name, current_state: state, rest }
}
