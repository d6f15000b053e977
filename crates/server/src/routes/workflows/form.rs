//! `/workflows/{workflow}/form`: what a person is asked before a run is started.

use axum::Json;
use axum::extract::State;
use mainspring_api::form::{FormField, RecentInputs, StartForm};
use mainspring_core::time::rfc3339;
use utoipa_axum::routes;

use super::shapes::find;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{InNamespace, Name, Path, Query};
use crate::problem::Problem;
use crate::state::ApiState;

/// How many earlier inputs are offered.
const RECENT: i64 = 10;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(form));
}

/// Show what inputs a workflow takes, and those of its last runs
#[utoipa::path(get, path = "/workflows/{workflow}/form", tag = "interface", params(("workflow" = Name, Path), InNamespace),
    responses((status = 200, body = StartForm)))]
pub(crate) async fn form(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<Json<StartForm>, Problem> {
    let row = find(&state, &caller, &workflow, &within).await?;
    let client = state.client();
    let spec = client.spec(row.latest).await?;
    let inputs = spec.workflow.inputs.iter().map(|(name, input)| FormField {
        name: name.clone(),
        r#type: input.kind.word().to_owned(),
        description: input.description.clone(),
        required: input.required,
        default: input.default.clone(),
        r#enum: input.choices.clone(),
        pattern: input.pattern.clone(),
    });
    let recent = client.store().recent_inputs(row.id, RECENT).await?;
    let recent = recent.into_iter().map(|one| RecentInputs {
        run_id: one.run_id,
        created_at: rfc3339(one.created_at),
        inputs: one.inputs.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    });
    Ok(Json(StartForm {
        workflow: row.name,
        namespace: row.namespace,
        version: row.number,
        inputs: inputs.collect(),
        recent: recent.collect(),
    }))
}
