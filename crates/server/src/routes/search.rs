//! `/search`: workflows, runs and errors by words.

use axum::Json;
use axum::extract::State;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

/// The best so many are found.
const MOST: i64 = 500;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(search));
}

/// Something that was found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Found {
    /// `workflow`, `run` or `error`.
    kind: String,
    /// A workflow's name, a run's id, or a task run's id.
    id: String,
    title: String,
    /// The beginning of what was found.
    body: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// Words that must all occur
    q: String,
    /// Where to search
    #[param(default = "default")]
    namespace: Option<Name>,
}

/// Find workflows, runs and errors by words, best first
#[utoipa::path(get, path = "/search", tag = "search", params(PageParams, SearchParams),
    responses((status = 200, body = List<Found>)))]
pub(crate) async fn search(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(params): Query<SearchParams>,
) -> Result<Json<List<Found>>, Problem> {
    let namespace = params.namespace.as_ref().map_or(DEFAULT_NAMESPACE, Name::as_str);
    caller.enter(namespace)?;
    let found = state.client().store().search(namespace, &params.q, MOST).await?;
    let list = page.slice("search", found, |one| Found {
        kind: one.kind_word().to_owned(),
        id: one.id,
        title: one.title,
        body: one.body,
    })?;
    Ok(Json(list))
}
