//! `/namespaces`: tenants and their quotas.

use axum::Json;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use mainspring_api::namespaces::{ChangeNamespace, CreateNamespace, Namespace};
use mainspring_core::time::rfc3339;
use mainspring_engine::DeleteNamespaceError;
use mainspring_store::{NamespaceRow, Quotas};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, Name, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const LONGEST_DESCRIPTION: usize = 2_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    // Quotas bind the members of a namespace, so they are set by administrators of all namespaces.
    routes.at(Access::Everywhere(Role::Admin), routes!(create));
    routes.at(Access::Everywhere(Role::Admin), routes!(change));
    routes.at(Access::Everywhere(Role::Admin), routes!(delete)).in_pieces();
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteParams {
    /// With everything in it: open runs are cancelled, then workflows, runs, secrets and pools go
    #[serde(default)]
    cascade: bool,
}

fn shown(row: NamespaceRow) -> Namespace {
    Namespace {
        name: row.name,
        description: row.description,
        max_open_runs: row.max_open_runs,
        max_workflows: row.max_workflows,
        created_at: row.created_at.map(rfc3339),
        updated_at: row.updated_at.map(rfc3339),
    }
}

/// List namespaces
#[utoipa::path(get, path = "/namespaces", tag = "namespaces", params(PageParams),
    responses((status = 200, body = List<Namespace>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Json<List<Namespace>>, Problem> {
    let mut rows = state.client().store().namespaces().await?;
    if let Some(seen) = caller.sees() {
        rows.retain(|row| seen.contains(&row.name));
    }
    Ok(Json(page.slice("namespaces", rows, shown)?))
}

/// Show a namespace
#[utoipa::path(get, path = "/namespaces/{name}", tag = "namespaces", params(("name" = Name, Path)),
    responses((status = 200, body = Namespace)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
) -> Result<Json<Namespace>, Problem> {
    caller.enter(name.as_str())?;
    Ok(Json(shown(state.client().store().namespace(name.as_str()).await?)))
}

/// Make a namespace
#[utoipa::path(post, path = "/namespaces", tag = "namespaces", request_body = CreateNamespace,
    responses((status = 201, body = Namespace), (status = 409, description = "It exists")))]
pub(crate) async fn create(
    State(state): State<ApiState>,
    body::Json(wanted): body::Json<CreateNamespace>,
) -> Result<(StatusCode, Json<Namespace>), Problem> {
    let quotas = Quotas { max_open_runs: wanted.max_open_runs, max_workflows: wanted.max_workflows };
    check(wanted.description.as_deref(), quotas)?;
    let (client, name) = (state.client(), wanted.name.as_str());
    client.create_namespace(name, wanted.description.as_deref(), quotas).await?;
    Ok((StatusCode::CREATED, Json(shown(client.store().namespace(name).await?))))
}

/// Change the description or the quotas
#[utoipa::path(patch, path = "/namespaces/{name}", tag = "namespaces", params(("name" = Name, Path)),
    request_body = ChangeNamespace, responses((status = 200, body = Namespace)))]
pub(crate) async fn change(
    State(state): State<ApiState>,
    Path(name): Path<Name>,
    body::Json(wanted): body::Json<ChangeNamespace>,
) -> Result<Json<Namespace>, Problem> {
    let (client, name) = (state.client(), name.as_str());
    let row = client.store().namespace(name).await?;
    let quotas = Quotas {
        max_open_runs: wanted.max_open_runs.unwrap_or(row.max_open_runs),
        max_workflows: wanted.max_workflows.unwrap_or(row.max_workflows),
    };
    let description = wanted.description.unwrap_or(row.description);
    check(description.as_deref(), quotas)?;
    client.change_namespace(name, description.as_deref(), quotas).await?;
    Ok(Json(shown(client.store().namespace(name).await?)))
}

/// Remove a namespace; with `cascade` everything in it goes too
#[utoipa::path(delete, path = "/namespaces/{name}", tag = "namespaces", params(("name" = Name, Path), DeleteParams),
    responses((status = 204, description = "It is gone"), (status = 409, description = "Something is in it")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Query(params): Query<DeleteParams>,
) -> Result<StatusCode, Problem> {
    let (client, name) = (state.client(), name.as_str());
    match client.delete_namespace(name, params.cascade, &caller.identity().name).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(DeleteNamespaceError::InUse) => Err(Problem::conflict(format!(
            "namespace `{name}` has workflows or secrets: delete them first, or send ?cascade=true (`--cascade`)"
        ))),
        Err(DeleteNamespaceError::RunsEnding(left)) => Err(still_open(name, left)),
        Err(DeleteNamespaceError::Store(error)) => Err(error.into()),
    }
}

/// Running tasks take a moment to end.
fn still_open(name: &str, open: i64) -> Problem {
    Problem::conflict(format!("the runs of namespace `{name}` are being cancelled ({open} left): repeat in a moment"))
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

fn check(description: Option<&str>, quotas: Quotas) -> Result<(), Problem> {
    if description.is_some_and(|text| text.len() > LONGEST_DESCRIPTION) {
        return Err(Problem::invalid("/description", format!("has at most {LONGEST_DESCRIPTION} bytes")));
    }
    for (pointer, quota) in [("/max_open_runs", quotas.max_open_runs), ("/max_workflows", quotas.max_workflows)] {
        if quota.is_some_and(|quota| quota < 0) {
            return Err(Problem::invalid(pointer, "must be a number from 0, or null for unlimited"));
        }
    }
    Ok(())
}
