//! The task runs of a run, and why they do not run.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use mainspring_api::runs::TaskRun;
use mainspring_core::{RunId, TaskKey};
use mainspring_engine::Spec;
use mainspring_store::{RunSummary, TaskRunRow, WaitKind};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{CacheUses, Surroundings, Workers, attempt, find, task_key, task_run};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Path, Query};
use crate::openapi::words::Include;
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const LIST: &str = "tasks-of-run";

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
}

/// Names of the workers behind these rows.
pub(crate) async fn workers(state: &ApiState, rows: &[&TaskRunRow]) -> Result<Workers, Problem> {
    let mut sessions: Vec<i64> = rows.iter().filter_map(|row| row.session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    Ok(state.client().store().workers_of(&sessions).await?.into_iter().collect())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only this task, with its items where it is repeated over a list
    task: Option<String>,
}

/// List the task runs of a run, in the order of the workflow
#[utoipa::path(get, path = "/workflow-runs/{id}/tasks", tag = "runs", params(("id" = Uuid, Path), ListParams, PageParams),
    responses((status = 200, body = List<TaskRun>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Path(id): Path<Uuid>,
    Query(params): Query<ListParams>,
) -> Result<Json<List<TaskRun>>, Problem> {
    Ok(Json(listed(&state, &caller, &page, id, params.task.as_deref()).await?))
}

/// The task runs of a run, or of one of its tasks, a page of them.
pub(super) async fn listed(
    state: &ApiState,
    caller: &Caller,
    page: &Page,
    id: RunId,
    task: Option<&str>,
) -> Result<List<TaskRun>, Problem> {
    let run = find(state, caller, id).await?;
    let client = state.client();
    let spec = client.spec(run.version).await?;
    let mut rows = client.store().task_runs(id).await?;
    if let Some(task) = task {
        let index = task_key(&spec.workflow, id, task)?.index;
        rows.retain(|row| row.key.index == index);
    }
    let obstacles = client.obstacles(run, &spec.workflow, &rows).await?;
    let shown = page.slice(LIST, rows, |row| row)?;
    let workers = workers(state, &shown.items.iter().collect::<Vec<_>>()).await?;
    let triggers = client.store().expression_data(&[id], &[], &[]).await?.triggers;
    let around = Surroundings {
        workflow: &spec.workflow,
        workers: &workers,
        obstacles: Some(&obstacles),
        triggers: &triggers,
        caches: &CacheUses::of(state, [(id, &spec.workflow)]).await?,
        now: client.now(),
    };
    let mut retried = shown.items.iter().filter(|row| row.attempt > 1).map(|row| row.key.index);
    let attempts = match retried.next() {
        None => HashMap::new(),
        // They are in the order of their indexes.
        Some(first) => client.store().attempts_between(id, first, retried.next_back().unwrap_or(first)).await?,
    };
    let of = |row: &TaskRunRow| attempts.get(&row.key).map_or(&[][..], Vec::as_slice);
    let keys: Vec<TaskKey> = shown.items.iter().map(|row| row.key).filter(|key| key.item >= 0).collect();
    let values = match keys.is_empty() {
        true => HashMap::new(),
        false => client.store().expression_data(&[], &[], &keys).await?.items,
    };
    let with_item =
        |row: &TaskRunRow| TaskRun { item: values.get(&row.key).cloned(), ..task_run(row, of(row), &around) };
    let items = shown.items.iter().map(with_item).collect();
    Ok(List { items, next: shown.next, total: shown.total })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ShowParams {
    /// `logs` for what it printed, `log_tail` for the end of that, `attempts`, `dead_letter`; several separated by commas
    #[param(inline, value_type = Option<Include>)]
    pub(crate) include: Option<String>,
}

/// Show a task run: `{task}` is a name, `name[index]` for an item, or a task-run id
#[utoipa::path(get, path = "/workflow-runs/{id}/tasks/{task}", tag = "runs",
    params(("id" = Uuid, Path), ("task" = String, Path), ShowParams), responses((status = 200, body = TaskRun)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path((id, task)): Path<(Uuid, String)>,
    Query(params): Query<ShowParams>,
) -> Result<Json<TaskRun>, Problem> {
    let wanted = Includes::read(params.include.as_deref())?;
    let run = find(&state, &caller, id).await?;
    let spec = state.client().spec(run.version).await?;
    Ok(Json(shown(&state, run, &spec, id, &task, wanted).await?))
}

/// What is shown beside a task run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Includes {
    logs: bool,
    log_tail: bool,
    dead_letter: bool,
}

impl Includes {
    pub(crate) fn read(include: Option<&str>) -> Result<Self, Problem> {
        let mut wanted = Self::default();
        for word in include.into_iter().flat_map(|words| words.split(',')) {
            match word.trim() {
                "logs" => wanted.logs = true,
                "log_tail" => wanted.log_tail = true,
                "dead_letter" => wanted.dead_letter = true,
                // They are always shown.
                "attempts" => {}
                _ => {
                    let said = "include may hold `logs`, `log_tail`, `attempts` and `dead_letter`";
                    return Err(Problem::malformed(format!("the query does not fit: {said}")));
                }
            }
        }
        Ok(wanted)
    }
}

/// A task run with everything about it.
pub(crate) async fn shown(
    state: &ApiState,
    run: RunSummary,
    spec: &Spec,
    id: RunId,
    task: &str,
    wanted: Includes,
) -> Result<TaskRun, Problem> {
    let client = state.client();
    let key = task_key(&spec.workflow, id, task)?;
    // The task itself with its items, and its upstream tasks: they show why it does not run.
    let mut indexes = vec![key.index];
    let definition = usize::try_from(key.index).ok().and_then(|index| spec.workflow.tasks.get(index));
    indexes.extend(definition.iter().flat_map(|task| task.needs.iter().copied()));
    let rows = client.store().task_runs_at(id, &indexes).await?;
    let Some(row) = rows.iter().find(|row| row.key == key) else {
        return Err(Problem::not_found(
            "the run has no such task run (yet): its part has not begun, or it has no such item",
        ));
    };
    let obstacles = client.obstacles(run, &spec.workflow, &rows).await?;
    let workers = workers(state, &[row]).await?;
    let attempts = client.store().earlier_attempts(key).await?;
    let triggers = client.store().expression_data(&[id], &[], &[]).await?.triggers;
    let around = Surroundings {
        workflow: &spec.workflow,
        workers: &workers,
        obstacles: Some(&obstacles),
        triggers: &triggers,
        caches: &CacheUses::of(state, [(id, &spec.workflow)]).await?,
        now: client.now(),
    };
    let mut shown = task_run(row, &attempts, &around);
    if row.key.item >= 0 {
        shown.item = client.store().item_value(row.key).await?;
    }
    shown.attempt_history = Some(attempts.iter().map(attempt).collect());
    let task = usize::try_from(key.index).ok().and_then(|index| spec.workflow.tasks.get(index));
    if task.is_some_and(|task| task.action.parks())
        && let Some(wait) = client.store().wait(key).await?
    {
        shown.child_run_id = wait.child;
        let is_open = wait.kind == WaitKind::Approval && wait.outcome.is_none();
        shown.approval = is_open.then(|| super::approvals::asked(&wait));
    }
    if wanted.log_tail {
        shown.log_tail = Some(super::logs::tail(client.store(), key).await?);
    }
    if wanted.dead_letter {
        shown.dead_letter_id = client.store().pending_letter_of(key).await?;
    }
    if wanted.logs {
        shown.logs = Some(super::logs::all(client.store(), key).await?);
    }
    Ok(shown)
}
