//! `/search`: workflows, runs and errors by words.

use axum::Json;
use axum::extract::State;
use mainspring_api::search::{Found, FoundKind};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, Query, or_default};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

/// The number of best results that are returned.
const MOST: i64 = 500;
const UUID_LENGTH: usize = 36;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(search));
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
    let namespace = or_default(params.namespace.as_ref());
    caller.enter(namespace)?;
    let found = state.client().store().search(namespace, &params.q, MOST).await?;
    let list = page.slice("search", found, |one| Found {
        kind: kind(one.kind_word()),
        run_id: one.id.get(..UUID_LENGTH).filter(|_| one.kind_word() != "workflow").and_then(|id| id.parse().ok()),
        id: one.id,
        title: one.title,
        body: one.body,
    })?;
    Ok(Json(list))
}

fn kind(word: &str) -> FoundKind {
    match word {
        "workflow" => FoundKind::Workflow,
        "run" => FoundKind::Run,
        _ => FoundKind::Error,
    }
}
