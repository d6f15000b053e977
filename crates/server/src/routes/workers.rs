//! `/workers`: which processes execute tasks.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use mainspring_api::workers::{Worker, WorkerStatus};
use mainspring_core::diagnostic::quoted;
use mainspring_core::time::rfc3339;
use mainspring_store::SessionRow;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::identity::Role;
use crate::body::{Path, Query};
use crate::openapi::words::WorkerWord;
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

/// How many ended sessions are looked through.
const MOST_ENDED: i64 = 1_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::Anywhere(Role::Viewer), routes!(list));
    routes.at(Access::Anywhere(Role::Viewer), routes!(show));
    routes.at(Access::Everywhere(Role::Operator), routes!(drain));
}

fn status(row: &SessionRow) -> WorkerStatus {
    match (row.dead, row.draining) {
        (true, _) => WorkerStatus::Inactive,
        (false, true) => WorkerStatus::Draining,
        (false, false) => WorkerStatus::Active,
    }
}

fn shown(row: SessionRow, running: &HashMap<i64, i64>, names: &HashMap<String, usize>) -> Worker {
    let words = |text: &str| text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    Worker {
        duplicate_id: !row.dead && names.get(&row.worker).is_some_and(|count| *count > 1),
        status: status(&row),
        id: row.worker,
        session_id: row.id,
        hostname: row.hostname,
        last_heartbeat: rfc3339(row.beat_at),
        queues: words(&row.queues),
        labels: words(&row.labels),
        slots: row.slots,
        function_slots: row.function_slots,
        remote_slots: row.remote_slots,
        running: running.get(&row.id).copied().unwrap_or(0),
        remote: row.remote,
        node: row.node.to_string(),
        version: row.version,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// `active`, `draining` or `inactive`; those that live unless given
    #[param(inline, value_type = Option<WorkerWord>)]
    status: Option<String>,
}

/// List workers
#[utoipa::path(get, path = "/workers", tag = "cluster", params(PageParams, ListParams), responses((status = 200, body = List<Worker>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    page: Page,
    Query(params): Query<ListParams>,
) -> Result<Json<List<Worker>>, Problem> {
    let wanted = params.status.as_deref();
    if wanted.is_some_and(|word| !["active", "draining", "inactive"].contains(&word)) {
        return Err(Problem::malformed("the query does not fit: status is one of active, draining, inactive"));
    }
    let store = state.client().store();
    let mut rows = store.sessions(wanted == Some("inactive"), MOST_ENDED).await?;
    // A node without the worker role is no worker, although it has a session.
    rows.retain(|row| row.executes() && wanted.is_none_or(|word| status(row).word() == word));
    let names = names(&state).await?;
    let running: HashMap<i64, i64> = store.running_by_session().await?.into_iter().collect();
    Ok(Json(page.slice("workers", rows, |row| shown(row, &running, &names))?))
}

/// How many live workers have each id.
async fn names(state: &ApiState) -> Result<HashMap<String, usize>, Problem> {
    let mut names = HashMap::new();
    for row in state.client().store().live_sessions().await?.into_iter().filter(SessionRow::executes) {
        *names.entry(row.worker).or_default() += 1;
    }
    Ok(names)
}

/// The newest session of a worker, by its name or the number of the session.
async fn find(state: &ApiState, id: &str) -> Result<SessionRow, Problem> {
    let rows = state.client().store().sessions(true, MOST_ENDED).await?;
    let number = id.parse::<i64>().ok();
    rows.into_iter()
        .find(|row| row.worker == id || number == Some(row.id))
        .ok_or_else(|| Problem::not_found(format!("worker {} was not found", quoted(id))))
}

/// Show a worker, by its name or the number of its session
#[utoipa::path(get, path = "/workers/{id}", tag = "cluster", params(("id" = String, Path)), responses((status = 200, body = Worker)))]
pub(crate) async fn show(State(state): State<ApiState>, Path(id): Path<String>) -> Result<Json<Worker>, Problem> {
    let row = find(&state, &id).await?;
    let running = state.client().store().running_by_session().await?.into_iter().collect();
    Ok(Json(shown(row, &running, &names(&state).await?)))
}

/// Let a worker finish what it has and take no more
#[utoipa::path(post, path = "/workers/{id}/drain", tag = "cluster", params(("id" = String, Path)),
    responses((status = 200, body = Worker), (status = 409, description = "It is gone")))]
pub(crate) async fn drain(State(state): State<ApiState>, Path(id): Path<String>) -> Result<Json<Worker>, Problem> {
    let row = find(&state, &id).await?;
    if row.dead {
        return Err(Problem::conflict("this worker is gone"));
    }
    let client = state.client();
    client.drain_session(row.id).await?;
    let running = client.store().running_by_session().await?.into_iter().collect();
    Ok(Json(shown(SessionRow { draining: true, ..row }, &running, &names(&state).await?)))
}
