//! `/task-runs`: task runs across runs.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use mainspring_api::runs::TaskRun;
use mainspring_core::state::TaskState;
use mainspring_core::{Micros, TaskKey};
use mainspring_engine::Spec;
use mainspring_store::{TaskRunFilter, TaskRunRow};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::runs::shapes::{CacheUses, Surroundings, find, task_run};
use super::runs::{instant, tasks};
use super::workflows::shapes::find as find_workflow;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{InNamespace, Name, Path, Query};
use crate::openapi::words::{TaskRunId, TaskWord};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const LIST: &str = "task-runs";
/// Of runs made within this time, unless the request says which.
const USUAL_WINDOW: Micros = 24 * 3_600 * 1_000_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// `pending`, `ready`, `running`, `retrying`, `waiting`, `success`, `failed`, `skipped`, `upstream_failed`, `cancelled` or `resolved_manually`
    #[param(inline, value_type = Option<TaskWord>)]
    status: Option<String>,
    /// Of this run
    #[param(value_type = Option<String>, format = "uuid")]
    run: Option<Uuid>,
    /// Of runs of this workflow, by id or name
    #[param(value_type = Option<Name>)]
    workflow: Option<String>,
    /// Only of this namespace
    namespace: Option<Name>,
    /// The worker that executes or executed them
    worker: Option<String>,
    /// Of this queue
    queue: Option<String>,
    /// Of runs made at this time or later
    #[param(format = "date-time")]
    since: Option<String>,
    /// Of runs made before this time
    #[param(format = "date-time")]
    until: Option<String>,
}

fn task_state(text: &str) -> Result<TaskState, Problem> {
    let known: Vec<&str> =
        TaskState::ALL.iter().filter(|state| state.shown() == **state).map(|state| state.word()).collect();
    match text.parse::<TaskState>() {
        Ok(state) if state.shown() == state => Ok(state),
        _ => Err(Problem::malformed(format!("the query does not fit: status is one of {}", known.join(", ")))),
    }
}

/// List task runs, those of the newest runs first; without a run, a workflow or `since` those of runs of the last 24 hours
#[utoipa::path(get, path = "/task-runs", tag = "runs", params(PageParams, ListParams),
    responses((status = 200, body = List<TaskRun>), (status = 404, description = "There is no such workflow"),
        (status = 422, description = "An offset was given")))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(params): Query<ListParams>,
) -> Result<Json<List<TaskRun>>, Problem> {
    let wanted = params.status.as_deref().map(task_state).transpose()?;
    let namespaces = caller.sees_of(params.namespace.as_ref().map(Name::as_str))?;
    if page.offset > 0 {
        return Err(Problem::invalid("offset", "this list is paged by `cursor`: pass on `next` of the page before"));
    }
    let now = state.client().now();
    let is_bounded = params.run.is_some() || params.workflow.is_some() || params.since.is_some();
    let usual = (!is_bounded).then_some(now - USUAL_WINDOW);
    let workflow = match &params.workflow {
        None => None,
        Some(text) => {
            Some(find_workflow(&state, &caller, text, &InNamespace { namespace: params.namespace }).await?.id)
        }
    };
    let filter = TaskRunFilter {
        state: wanted,
        run: params.run,
        workflow,
        namespaces,
        worker: params.worker,
        queue: params.queue,
        since: instant("since", params.since.as_deref())?.or(usual),
        until: instant("until", params.until.as_deref())?,
        after: page.after(LIST)?,
        limit: page.fetch(),
    };
    let client = state.client();
    let rows = client.store().list_task_runs(&filter).await?;
    let workers = tasks::workers(&state, &rows.iter().map(|row| &row.0).collect::<Vec<_>>()).await?;
    let mut specs: HashMap<i64, Arc<Spec>> = HashMap::new();
    for (_, version) in &rows {
        if !specs.contains_key(version) {
            specs.insert(*version, client.spec(*version).await?);
        }
    }
    let mut runs: Vec<_> = rows.iter().map(|row| row.0.key.run).collect();
    runs.dedup();
    let mut of_runs: Vec<_> = rows.iter().map(|(row, version)| (row.key.run, &specs[version].workflow)).collect();
    of_runs.dedup_by_key(|(run, _)| *run);
    let caches = CacheUses::of(&state, of_runs).await?;
    let triggers = client.store().expression_data(&runs, &[], &[]).await?.triggers;
    Ok(Json(page.list(
        LIST,
        rows,
        |row: &(TaskRunRow, i64)| row.0.key,
        |(row, version)| {
            let workflow = &specs[&version].workflow;
            let (workers, triggers, caches) = (&workers, &triggers, &caches);
            let around = Surroundings { workflow, workers, obstacles: None, triggers, caches, now };
            task_run(&row, &[], &around)
        },
    )))
}

/// Show a task run by its id
#[utoipa::path(get, path = "/task-runs/{id}", tag = "runs", params(("id" = inline(TaskRunId), Path), tasks::ShowParams),
    responses((status = 200, body = TaskRun)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(params): Query<tasks::ShowParams>,
) -> Result<Json<TaskRun>, Problem> {
    let wanted = tasks::Includes::read(params.include.as_deref())?;
    let key: TaskKey = id.parse().map_err(|error| Problem::malformed(format!("the path does not fit: {error}")))?;
    let run = find(&state, &caller, key.run).await?;
    let spec = state.client().spec(run.version).await?;
    Ok(Json(tasks::shown(&state, run, &spec, key.run, &id, wanted).await?))
}
