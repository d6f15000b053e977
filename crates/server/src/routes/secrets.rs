//! `/secrets`: values are put and never read back.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mainspring_core::time::rfc3339;
use mainspring_store::SecretRow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, InNamespace, Name, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Author), routes!(list));
    routes.at(Access::InNamespace(Role::Author), routes!(show));
    routes.at(Access::InNamespace(Role::Admin), routes!(put)).keyless();
    routes.at(Access::InNamespace(Role::Admin), routes!(delete));
}

/// A secret, without its value.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Secret {
    name: String,
    namespace: String,
    updated_by: String,
    created_at: String,
    updated_at: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutSecret {
    /// At most 64 KiB.
    value: String,
}

/// As workflows name it: a letter or `_`, then letters, digits and `_`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$", example = "API_KEY")]
pub(crate) struct SecretName(String);

impl TryFrom<String> for SecretName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let fits = text.len() <= 128
            && text.bytes().next().is_some_and(starts)
            && text.bytes().all(|byte| starts(byte) || byte.is_ascii_digit());
        match fits {
            true => Ok(Self(text)),
            false => {
                Err("a secret's name begins with a letter or _, goes on with letters, digits and _, and has at most \
                          128 characters"
                    .into())
            }
        }
    }
}

impl From<SecretRow> for Secret {
    fn from(row: SecretRow) -> Self {
        Self {
            name: row.name,
            namespace: row.namespace,
            updated_by: row.updated_by,
            created_at: rfc3339(row.created_at),
            updated_at: rfc3339(row.updated_at),
        }
    }
}

/// List the names of secrets
#[utoipa::path(get, path = "/secrets", tag = "secrets", params(PageParams, InNamespace),
    responses((status = 200, body = List<Secret>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(within): Query<InNamespace>,
) -> Result<Json<List<Secret>>, Problem> {
    let seen = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let mut rows = state.client().store().secrets().await?;
    if let Some(seen) = seen {
        rows.retain(|row| seen.contains(&row.namespace));
    }
    Ok(Json(page.slice("secrets", rows, Secret::from)?))
}

/// Whether a secret exists
#[utoipa::path(get, path = "/secrets/{name}", tag = "secrets", params(("name" = SecretName, Path), InNamespace),
    responses((status = 200, body = Secret)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(SecretName(name)): Path<SecretName>,
    Query(within): Query<InNamespace>,
) -> Result<Json<Secret>, Problem> {
    caller.enter(within.or_default())?;
    Ok(Json(state.client().store().secret(within.or_default(), &name).await?.into()))
}

/// Keep a secret, sealed; an earlier value is gone
#[utoipa::path(put, path = "/secrets/{name}", tag = "secrets", params(("name" = SecretName, Path), InNamespace),
    request_body = PutSecret,
    responses((status = 200, body = Secret), (status = 201, body = Secret), (status = 409, description = "No key")))]
pub(crate) async fn put(
    State(state): State<ApiState>,
    caller: Caller,
    Path(SecretName(name)): Path<SecretName>,
    Query(within): Query<InNamespace>,
    body::Json(secret): body::Json<PutSecret>,
) -> Result<Response, Problem> {
    let namespace = within.or_default();
    caller.enter(namespace)?;
    if secret.value.is_empty() {
        return Err(Problem::invalid("/value", "must not be empty: delete the secret instead"));
    }
    let client = state.client();
    let sealed = client.secrets().vault().seal(namespace, &name, &secret.value)?;
    let is_new = client.store().put_secret(client.now(), namespace, &sealed, &caller.identity().name).await?;
    client.secrets().forget(namespace);
    let shown = Secret::from(client.store().secret(namespace, &name).await?);
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(shown)).into_response())
}

/// Forget a secret
#[utoipa::path(delete, path = "/secrets/{name}", tag = "secrets", params(("name" = SecretName, Path), InNamespace),
    responses((status = 204, description = "It is gone")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(SecretName(name)): Path<SecretName>,
    Query(within): Query<InNamespace>,
) -> Result<StatusCode, Problem> {
    let namespace = within.or_default();
    caller.enter(namespace)?;
    state.client().store().delete_secret(namespace, &name).await?;
    state.client().secrets().forget(namespace);
    Ok(StatusCode::NO_CONTENT)
}
