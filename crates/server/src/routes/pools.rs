//! `/pools`: named limits on task runs, across the workflows of a namespace. The model for other resources.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::pools::{Pool, PutPool};
use mainspring_core::Micros;
use mainspring_core::time::{self, rfc3339};
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

/// The longest window of a rate, in milliseconds: a day.
const LONGEST_WINDOW: u64 = 86_400_000;

fn shown(row: PoolRow, now: Micros) -> Pool {
    let rate = row.rate.map(|rate| rate.at(now));
    Pool {
        name: row.name,
        namespace: row.namespace,
        slots: row.slots,
        held: row.held,
        rate: rate.map(|rate| rate.starts),
        per: rate.map(|rate| time::duration(rate.period.unsigned_abs() / 1_000)),
        used: rate.map(|rate| rate.used),
        window_ends_at: rate.and_then(|rate| rate.window_ends()).map(rfc3339),
    }
}

/// The rate that a request asks for, with its period.
fn rate_of(pool: &PutPool) -> Result<Option<(i32, Micros)>, Problem> {
    let (rate, per) = match (pool.rate, &pool.per) {
        (None, None) => return Ok(None),
        (Some(rate), Some(per)) => (rate, per),
        (Some(_), None) => {
            return Err(Problem::invalid("/per", "is missing: a rate needs the duration it is for, such as `1m`"));
        }
        (None, Some(_)) => {
            return Err(Problem::invalid(
                "/rate",
                "is missing: it says how many task runs may start in a window of `per`",
            ));
        }
    };
    let starts = i32::try_from(rate).ok().filter(|rate| (1..=1_000_000).contains(rate));
    let starts = starts.ok_or_else(|| Problem::invalid("/rate", "must be a number from 1 to 1,000,000"))?;
    let window = time::parse_duration(per).ok().filter(|ms| (1_000..=LONGEST_WINDOW).contains(ms));
    let window = window.and_then(|ms| Micros::try_from(ms).ok());
    let window =
        window.ok_or_else(|| Problem::invalid("/per", "must be a duration from `1s` to `1d`, such as `1m`"))?;
    Ok(Some((starts, window * 1_000)))
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
    let namespaces = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    Ok(Json(page.slice("pools", seen(&state, namespaces.as_deref()).await?, |pool| pool)?))
}

/// The pools of these namespaces, or of all if `None`.
pub(super) async fn seen(state: &ApiState, namespaces: Option<&[String]>) -> Result<Vec<Pool>, Problem> {
    let mut pools = state.client().store().pools().await?;
    if let Some(namespaces) = namespaces {
        pools.retain(|pool| namespaces.contains(&pool.namespace));
    }
    let now = state.client().now();
    Ok(pools.into_iter().map(|pool| shown(pool, now)).collect())
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
    let client = state.client();
    Ok(Json(shown(client.store().pool(within.or_default(), name.as_str()).await?, client.now())))
}

/// Set how many task runs of a pool may go on at once, and start per period
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
    let rate = rate_of(&pool)?;
    let client = state.client();
    client.set_pool(namespace, name.as_str(), pool.slots, rate).await?;
    Ok(Json(shown(client.store().pool(namespace, name.as_str()).await?, client.now())))
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
