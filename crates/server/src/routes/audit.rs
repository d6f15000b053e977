//! `/audit`: who did what, and who was refused.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use mainspring_api::audit::AuditEntry;
use mainspring_core::Micros;
use mainspring_core::time::{parse, rfc3339};
use mainspring_store::{AuditFilter, AuditRow};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Admin), routes!(list));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    /// Only of this namespace
    namespace: Option<Name>,
    /// Only by this actor, as `/auth/me` shows it
    actor: Option<String>,
    /// From this time on (RFC 3339)
    #[param(format = "date-time")]
    since: Option<String>,
    /// Before this time (RFC 3339)
    #[param(format = "date-time")]
    until: Option<String>,
}

/// List writes and refusals, newest first
#[utoipa::path(get, path = "/audit", tag = "auth", params(PageParams, AuditParams),
    responses((status = 200, body = List<AuditEntry>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(params): Query<AuditParams>,
) -> Result<Json<List<AuditEntry>>, Problem> {
    let filter = AuditFilter {
        namespaces: caller.sees_of(params.namespace.as_ref().map(Name::as_str))?,
        actor: params.actor,
        since: instant("since", params.since.as_deref())?,
        until: instant("until", params.until.as_deref())?,
        before: page.after("audit")?,
        limit: page.fetch(),
        offset: page.offset,
    };
    let store = state.client().store();
    let rows = store.audit(&filter).await?;
    let mut names: HashMap<String, Option<String>> = HashMap::new();
    for row in &rows {
        if !names.contains_key(&row.actor) {
            let token = row.actor.strip_prefix("token:").and_then(|id| id.parse().ok());
            let name = match token {
                Some(id) => store.token(id).await?.map(|token| token.name),
                None => None,
            };
            names.insert(row.actor.clone(), name);
        }
    }
    let named = |row: AuditRow| AuditEntry { actor_name: names.get(&row.actor).cloned().flatten(), ..shown(row) };
    Ok(Json(page.list("audit", rows, |row| row.id, named)))
}

fn instant(name: &str, text: Option<&str>) -> Result<Option<Micros>, Problem> {
    text.map(|text| {
        parse(text)
            .ok_or_else(|| Problem::malformed(format!("{name} must be a time of RFC 3339 like 2030-01-31T12:00:00Z")))
    })
    .transpose()
}

fn shown(row: AuditRow) -> AuditEntry {
    AuditEntry {
        id: row.id,
        at: rfc3339(row.at),
        actor: row.actor,
        actor_name: None,
        address: row.address,
        method: row.method,
        path: row.path,
        namespace: row.namespace,
        status: row.status,
        request_id: row.request_id,
    }
}
