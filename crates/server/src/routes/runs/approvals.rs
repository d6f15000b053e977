//! `/approvals`: tasks that wait for a person.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use mainspring_api::runs::{Approval, AskedApproval};
use mainspring_core::RunId;
use mainspring_core::time::rfc3339;
use mainspring_store::{RunSummary, WaitRow};
use serde_json::Value;
use utoipa_axum::routes;

use super::shapes::task_name;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, OfNamespace, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

/// Open approvals are few: people have to answer them.
const MOST: i64 = 1_000;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
}

/// List the approvals that wait for an answer, the oldest first
#[utoipa::path(get, path = "/approvals", tag = "runs", params(PageParams, OfNamespace),
    responses((status = 200, body = List<Approval>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(within): Query<OfNamespace>,
) -> Result<Json<List<Approval>>, Problem> {
    let seen = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let client = state.client();
    let mut runs: HashMap<RunId, RunSummary> = HashMap::new();
    let mut open = Vec::new();
    for wait in client.store().open_approvals(MOST).await? {
        let run = match runs.get(&wait.key.run) {
            Some(run) => run.clone(),
            None => {
                let run = client.store().run_summary(wait.key.run).await?;
                runs.insert(wait.key.run, run.clone());
                run
            }
        };
        if seen.as_ref().is_some_and(|seen| !seen.contains(&run.namespace)) || run.state.is_terminal() {
            continue;
        }
        let spec = client.spec(run.version).await?;
        let AskedApproval { message, roles } = asked(&wait);
        open.push(Approval {
            id: wait.key.to_string(),
            workflow_run_id: wait.key.run,
            task_id: task_name(&spec.workflow, wait.key),
            workflow: run.workflow,
            namespace: run.namespace,
            message,
            roles,
            requested_at: rfc3339(wait.created_at),
            expires_at: wait.due_at.map(rfc3339),
        });
    }
    Ok(Json(page.slice("approvals", open, |approval| approval)?))
}

/// What an approval asks, as it was when the task began to wait.
pub(super) fn asked(wait: &WaitRow) -> AskedApproval {
    let body = wait.body.clone().unwrap_or_default();
    let roles = body["roles"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    AskedApproval { message: body["message"].as_str().map(str::to_owned), roles }
}
