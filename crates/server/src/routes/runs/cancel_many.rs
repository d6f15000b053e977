//! Cancelling whatever a filter finds.

use axum::Json;
use axum::extract::State;
use mainspring_api::runs::{CancelMany, CancelledMany, OpenRunStatus};
use mainspring_core::state::RunState;
use mainspring_core::time;
use mainspring_store::{CancelOutcome, RunFilter};
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Json as Body, Name};
use crate::problem::Problem;
use crate::state::ApiState;

/// How many runs one call cancels.
const MOST: i64 = 1_000;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(cancel_many)).in_pieces();
}

/// Cancel the open runs that a filter finds
#[utoipa::path(post, path = "/workflow-runs/cancel", tag = "runs", request_body = CancelMany,
    responses((status = 200, body = CancelledMany)))]
pub(crate) async fn cancel_many(
    State(state): State<ApiState>,
    caller: Caller,
    Body(wanted): Body<CancelMany>,
) -> Result<Json<CancelledMany>, Problem> {
    let namespaces = caller.sees_of(wanted.namespace.as_ref().map(Name::as_str))?;
    let is_narrowed = wanted.workflow.is_some()
        || wanted.namespace.is_some()
        || wanted.correlation_id.is_some()
        || wanted.tag.is_some()
        || wanted.since.is_some()
        || wanted.until.is_some();
    if !is_narrowed {
        let said = "say which runs: one of workflow, namespace, correlation_id, tag, since, until";
        return Err(Problem::invalid("", said));
    }
    let states = match wanted.status {
        None => vec![RunState::Pending, RunState::Running, RunState::Paused],
        Some(OpenRunStatus::Pending) => vec![RunState::Pending],
        Some(OpenRunStatus::Running) => vec![RunState::Running],
        Some(OpenRunStatus::Paused) => vec![RunState::Paused],
    };
    let instant = |pointer: &str, text: Option<&str>| {
        let said = "must be a time like 2026-01-31T08:00:00Z";
        text.map(|text| time::parse(text).ok_or_else(|| Problem::invalid(pointer, said))).transpose()
    };
    let (since, until) = (instant("/since", wanted.since.as_deref())?, instant("/until", wanted.until.as_deref())?);
    let client = state.client();
    let mut runs = Vec::new();
    for state in states {
        let filter = RunFilter {
            state: Some(state),
            workflow: wanted.workflow.clone(),
            namespaces: namespaces.clone(),
            correlation_id: wanted.correlation_id.clone(),
            tag: wanted.tag.clone(),
            since,
            until,
            limit: MOST + 1,
            ..RunFilter::default()
        };
        runs.extend(client.store().list_runs(&filter).await?.into_iter().map(|run| run.id));
    }
    let more = runs.len() as i64 > MOST;
    runs.truncate(usize::try_from(MOST).unwrap_or(0));
    let operator = caller.operator(wanted.by, wanted.reason);
    let mut cancelled = 0;
    if !wanted.dry_run {
        for run in &runs {
            cancelled += usize::from(client.cancel(*run, &operator).await? == CancelOutcome::Cancelling);
        }
    }
    Ok(Json(CancelledMany { dry_run: wanted.dry_run, matched: runs.len(), cancelled, more, runs }))
}
