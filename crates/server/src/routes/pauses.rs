//! `/pause`, `/resume` and `/pauses`: no task of a paused queue or namespace, or of any, is started for now.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::pauses::{Pause, PauseScope};
use mainspring_core::time::rfc3339;
use mainspring_store::PauseRow;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, Name, OfNamespace, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const LONGEST_REASON: usize = 1_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Operator), routes!(pause));
    routes.at(Access::InNamespace(Role::Operator), routes!(resume));
}

fn shown(row: PauseRow) -> Pause {
    Pause {
        namespace: row.namespace,
        queue: row.queue,
        paused_by: row.paused_by,
        reason: row.reason,
        paused_at: rfc3339(row.paused_at),
    }
}

/// What is paused in namespaces that the caller may see (all if `None`), or in all of them.
pub(super) async fn seen(state: &ApiState, names: Option<&[String]>) -> Result<Vec<Pause>, Problem> {
    Ok(seen_rows(state, names).await?.into_iter().map(shown).collect())
}

async fn seen_rows(state: &ApiState, names: Option<&[String]>) -> Result<Vec<PauseRow>, Problem> {
    let mut pauses = state.client().store().pauses().await?;
    if let Some(names) = names {
        pauses.retain(|pause| pause.namespace.as_ref().is_none_or(|namespace| names.contains(namespace)));
    }
    Ok(pauses)
}

/// Checks what a request names, and that the caller may pause it: what holds in all namespaces needs the role in all.
fn authorised(caller: &Caller, scope: &PauseScope) -> Result<(Option<String>, Option<String>), Problem> {
    let name = |name: &Option<Name>| name.as_ref().map(|name| name.as_str().to_owned());
    let (namespace, queue) = (name(&scope.namespace), name(&scope.queue));
    match &namespace {
        Some(namespace) => caller.enter(namespace)?,
        None => caller.enter_everywhere(Role::Operator)?,
    }
    match (scope.all.unwrap_or(false), namespace.is_some() || queue.is_some()) {
        (true, true) => Err(Problem::invalid("/all", "leave it out where a queue or a namespace is named")),
        (false, false) => Err(Problem::invalid("/queue", "name a queue or a namespace, or say `all`: true")),
        _ => Ok((namespace, queue)),
    }
}

/// List what is paused
#[utoipa::path(get, path = "/pauses", tag = "pauses", params(PageParams, OfNamespace),
    responses((status = 200, body = List<Pause>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(within): Query<OfNamespace>,
) -> Result<Json<List<Pause>>, Problem> {
    let seen = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let pauses = seen_rows(&state, seen.as_deref()).await?;
    Ok(Json(page.slice("pauses", pauses, shown)?))
}

/// Start no more tasks of a queue, of a namespace, or at all
#[utoipa::path(post, path = "/pause", tag = "pauses", request_body = PauseScope,
    responses((status = 200, body = Pause, description = "What runs goes on")))]
pub(crate) async fn pause(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(scope): body::Json<PauseScope>,
) -> Result<Json<Pause>, Problem> {
    let (namespace, queue) = authorised(&caller, &scope)?;
    if scope.reason.as_ref().is_some_and(|reason| reason.chars().count() > LONGEST_REASON) {
        return Err(Problem::invalid("/reason", format!("has at most {LONGEST_REASON} characters")));
    }
    let client = state.client();
    let row = PauseRow {
        namespace,
        queue,
        paused_by: caller.signed(scope.by),
        reason: scope.reason.filter(|reason| !reason.is_empty()),
        paused_at: client.now(),
    };
    client.put_pause(&row).await?;
    Ok(Json(shown(row)))
}

/// Start tasks again: ends the pause of exactly this queue and namespace
#[utoipa::path(post, path = "/resume", tag = "pauses", request_body = PauseScope,
    responses((status = 204, description = "It is resumed"), (status = 404, description = "It is not paused")))]
pub(crate) async fn resume(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(scope): body::Json<PauseScope>,
) -> Result<StatusCode, Problem> {
    let (namespace, queue) = authorised(&caller, &scope)?;
    state.client().end_pause(namespace.as_deref(), queue.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}
