//! `/pools`: named limits on task runs, across the workflows of a namespace. The model for other resources.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::pools::{Pool, PutPool};
use mainspring_store::PoolRow;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, InNamespace, Name, OfNamespace, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    routes.at(Access::InNamespace(Role::Operator), routes!(put));
    routes.at(Access::InNamespace(Role::Author), routes!(delete));
}

fn shown(row: PoolRow) -> Pool {
    Pool { name: row.name, namespace: row.namespace, slots: row.slots, held: row.held }
}

/// List pools
#[utoipa::path(get, path = "/pools", tag = "pools", params(PageParams, OfNamespace),
    responses((status = 200, body = List<Pool>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(within): Query<OfNamespace>,
) -> Result<Json<List<Pool>>, Problem> {
    let seen = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let mut pools = state.client().store().pools().await?;
    if let Some(seen) = seen {
        pools.retain(|pool| seen.contains(&pool.namespace));
    }
    Ok(Json(page.slice("pools", pools, shown)?))
}

/// Show a pool
#[utoipa::path(get, path = "/pools/{name}", tag = "pools", params(("name" = Name, Path), InNamespace),
    responses((status = 200, body = Pool)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Query(within): Query<InNamespace>,
) -> Result<Json<Pool>, Problem> {
    caller.enter(within.or_default())?;
    Ok(Json(shown(state.client().store().pool(within.or_default(), name.as_str()).await?)))
}

/// Set how many task runs of a pool may go on at once
#[utoipa::path(put, path = "/pools/{name}", tag = "pools", params(("name" = Name, Path), InNamespace),
    request_body = PutPool, responses((status = 200, body = Pool)))]
pub(crate) async fn put(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Query(within): Query<InNamespace>,
    body::Json(pool): body::Json<PutPool>,
) -> Result<Json<Pool>, Problem> {
    let namespace = within.or_default();
    caller.enter(namespace)?;
    if pool.slots.is_some_and(|slots| slots < 0) {
        return Err(Problem::invalid("/slots", "must be a number from 0, or null for unlimited"));
    }
    let client = state.client();
    client.set_pool(namespace, name.as_str(), pool.slots).await?;
    Ok(Json(shown(client.store().pool(namespace, name.as_str()).await?)))
}

/// Remove a pool that no workflow names
#[utoipa::path(delete, path = "/pools/{name}", tag = "pools", params(("name" = Name, Path), InNamespace),
    responses((status = 204, description = "It is gone"), (status = 409, description = "A workflow names it")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Query(within): Query<InNamespace>,
) -> Result<StatusCode, Problem> {
    caller.enter(within.or_default())?;
    state.client().delete_pool(within.or_default(), name.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}
