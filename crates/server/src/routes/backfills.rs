//! Backfills: the runs of a range of a schedule's past, some at a time.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mainspring_api::backfills::{Backfill, BackfillPlan, StartBackfill};
use mainspring_core::Micros;
use mainspring_core::time::{self, rfc3339};
use mainspring_core::workflow::MAX_PRIORITY;
use mainspring_engine::BackfillRequest;
use mainspring_store::{BackfillRow, TriggerRow};
use utoipa_axum::routes;
use uuid::Uuid;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, InNamespace, Name, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{all_of, known};

/// Fires that a plan shows.
const MOST_PLANNED: usize = 100;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(start));
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    routes.at(Access::InNamespace(Role::Operator), routes!(cancel));
}

fn shown(row: BackfillRow) -> Result<Backfill, Problem> {
    Ok(Backfill {
        id: row.id,
        schedule_id: row.trigger_id,
        workflow: row.workflow,
        namespace: row.namespace,
        trigger: row.trigger,
        from: rfc3339(row.from_at),
        to: rfc3339(row.to_at),
        position: rfc3339(row.position_at),
        max_parallel: row.max_parallel,
        priority: row.priority,
        status: known(row.status)?,
        runs: row.runs,
        created_by: row.created_by,
        created_at: rfc3339(row.created_at),
        finished_at: row.finished_at.map(rfc3339),
    })
}

/// Make up for a range of a schedule's past
#[utoipa::path(post, path = "/workflows/{workflow}/backfill", tag = "schedules",
    params(("workflow" = Name, Path, description = "id or name"), InNamespace), request_body = StartBackfill,
    responses((status = 201, body = Backfill, description = "It is begun"), (status = 200, body = BackfillPlan, description = "With `dry_run`")))]
pub(crate) async fn start(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(within): Query<InNamespace>,
    body::Json(wanted): body::Json<StartBackfill>,
) -> Result<Response, Problem> {
    let workflow_id = find(&state, &caller, &workflow, &within).await?;
    let from = instant(&wanted.from, "/from")?;
    let to = instant(&wanted.to, "/to")?;
    if wanted.priority.is_some_and(|priority| !(0..=MAX_PRIORITY).contains(&priority)) {
        return Err(Problem::invalid("/priority", format!("must be from 0 to {MAX_PRIORITY}")));
    }
    let request = BackfillRequest {
        trigger: chosen(&state, workflow_id, wanted.trigger.as_deref()).await?,
        from,
        to,
        max_parallel: wanted.max_parallel,
        priority: wanted.priority,
        created_by: caller.operator(None, None).by,
        allow_future: wanted.allow_future,
    };
    if wanted.dry_run {
        let fires = state.client().backfill_fires(&request).await?;
        let plan = BackfillPlan {
            dry_run: true,
            workflow: request.trigger.workflow,
            trigger: request.trigger.trigger.id,
            runs: i64::try_from(fires.len()).unwrap_or(i64::MAX),
            fires: fires.into_iter().take(MOST_PLANNED).map(rfc3339).collect(),
        };
        return Ok(Json(plan).into_response());
    }
    let begun = shown(state.client().start_backfill(&request).await?)?;
    Ok((StatusCode::CREATED, Json(begun)).into_response())
}

/// List the backfills of a workflow, the newest first
#[utoipa::path(get, path = "/workflows/{workflow}/backfills", tag = "schedules",
    params(("workflow" = Name, Path, description = "id or name"), InNamespace, PageParams),
    responses((status = 200, body = List<Backfill>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(within): Query<InNamespace>,
    page: Page,
) -> Result<Json<List<Backfill>>, Problem> {
    let workflow_id = find(&state, &caller, &workflow, &within).await?;
    let before: Micros = page.after("backfills")?.unwrap_or(Micros::MAX);
    let mut rows = state.client().store().backfills(workflow_id, before, page.offset + page.fetch()).await?;
    page.skip(&mut rows);
    let listed = page.list("backfills", rows, |row| row.created_at, shown);
    Ok(Json(all_of(listed)?))
}

/// Show a backfill
#[utoipa::path(get, path = "/backfills/{id}", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = 200, body = Backfill)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Backfill>, Problem> {
    let row = state.client().store().backfill(id).await?;
    caller.enter(&row.namespace)?;
    Ok(Json(shown(row)?))
}

/// Make no more runs of a backfill; those that were made go on
#[utoipa::path(post, path = "/backfills/{id}/cancel", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = 200, body = Backfill), (status = 409, description = "It has ended already")))]
pub(crate) async fn cancel(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Backfill>, Problem> {
    let store = state.client().store();
    caller.enter(&store.backfill(id).await?.namespace)?;
    let cancelled = store.cancel_backfill(state.client().clock().wall(), id).await?;
    let row = store.backfill(id).await?;
    if !cancelled {
        return Err(Problem::conflict(format!("the backfill is {} already", row.status)));
    }
    Ok(Json(shown(row)?))
}

/// The workflow by its id or name, for a caller who may see it.
async fn find(state: &ApiState, caller: &Caller, workflow: &str, within: &InNamespace) -> Result<Uuid, Problem> {
    let store = state.client().store();
    if let Ok(id) = workflow.parse::<Uuid>() {
        caller.enter(&store.workflow_key(id).await?.0)?;
        return Ok(id);
    }
    let namespace = within.or_default();
    caller.enter(namespace)?;
    let name = Name::try_from(workflow.to_owned()).map_err(Problem::malformed)?;
    Ok(state.client().latest(namespace, name.as_str()).await?.version.workflow_id)
}

/// The trigger that is meant.
async fn chosen(state: &ApiState, workflow_id: Uuid, name: Option<&str>) -> Result<TriggerRow, Problem> {
    let store = state.client().store();
    if let Some(name) = name {
        return Ok(store.trigger_of(workflow_id, name).await?);
    }
    let mut timed: Vec<TriggerRow> =
        store.triggers_of(workflow_id).await?.into_iter().filter(|row| row.trigger.source.has_past()).collect();
    match timed.len() {
        1 => Ok(timed.remove(0)),
        0 => Err(Problem::invalid("/trigger", "the clock fires no trigger of this workflow")),
        _ => {
            let names: Vec<&str> = timed.iter().map(|row| row.trigger.id.as_str()).collect();
            Err(Problem::invalid("/trigger", format!("name one of {}", names.join(", "))))
        }
    }
}

fn instant(text: &str, pointer: &str) -> Result<Micros, Problem> {
    time::parse(text).ok_or_else(|| Problem::invalid(pointer, "must be a time such as 2026-12-24T12:00:00Z"))
}
