//! `/secrets`: values are put and never read back.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
pub(crate) use mainspring_api::SecretName;
use mainspring_api::secrets::{PutSecret, Secret};
use mainspring_core::time::rfc3339;
use mainspring_engine::PutSecretError;
use mainspring_store::SecretRow;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, InNamespace, Name, OfNamespace, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Author), routes!(list));
    routes.at(Access::InNamespace(Role::Author), routes!(show));
    routes.at(Access::InNamespace(Role::Admin), routes!(put)).keyless();
    routes.at(Access::InNamespace(Role::Admin), routes!(delete));
}

fn shown(row: SecretRow) -> Secret {
    Secret {
        name: row.name,
        namespace: row.namespace,
        updated_by: row.updated_by,
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
    }
}

/// List the names of secrets
#[utoipa::path(get, path = "/secrets", tag = "secrets", params(PageParams, OfNamespace),
    responses((status = 200, body = List<Secret>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(within): Query<OfNamespace>,
) -> Result<Json<List<Secret>>, Problem> {
    let seen = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let mut rows = state.client().store().secrets().await?;
    if let Some(seen) = seen {
        rows.retain(|row| seen.contains(&row.namespace));
    }
    Ok(Json(page.slice("secrets", rows, shown)?))
}

/// Whether a secret exists
#[utoipa::path(get, path = "/secrets/{name}", tag = "secrets", params(("name" = SecretName, Path), InNamespace),
    responses((status = 200, body = Secret)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<SecretName>,
    Query(within): Query<InNamespace>,
) -> Result<Json<Secret>, Problem> {
    caller.enter(within.or_default())?;
    let row = state.client().store().secret(within.or_default(), &String::from(name)).await?;
    Ok(Json(shown(row)))
}

/// Keep a secret, sealed; an earlier value is gone
#[utoipa::path(put, path = "/secrets/{name}", tag = "secrets", params(("name" = SecretName, Path), InNamespace),
    request_body = PutSecret,
    responses((status = 200, body = Secret), (status = 201, body = Secret), (status = 409, description = "No key")))]
pub(crate) async fn put(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<SecretName>,
    Query(within): Query<InNamespace>,
    body::Json(secret): body::Json<PutSecret>,
) -> Result<Response, Problem> {
    let (namespace, name) = (within.or_default(), String::from(name));
    caller.enter(namespace)?;
    if secret.value.is_empty() {
        return Err(Problem::invalid("/value", "must not be empty: delete the secret instead"));
    }
    let client = state.client();
    let kept = client.put_secret(namespace, &name, &secret.value, &caller.identity().name).await;
    let is_new = kept.map_err(|error| match error {
        PutSecretError::Vault(error) => Problem::from(error),
        PutSecretError::Store(error) => error.into(),
    })?;
    let kept = shown(client.store().secret(namespace, &name).await?);
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(kept)).into_response())
}

/// Forget a secret
#[utoipa::path(delete, path = "/secrets/{name}", tag = "secrets", params(("name" = SecretName, Path), InNamespace),
    responses((status = 204, description = "It is gone")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<SecretName>,
    Query(within): Query<InNamespace>,
) -> Result<StatusCode, Problem> {
    let (namespace, name) = (within.or_default(), String::from(name));
    caller.enter(namespace)?;
    state.client().delete_secret(namespace, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
