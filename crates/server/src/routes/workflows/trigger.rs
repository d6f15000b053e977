//! Starting a run by hand.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mainspring_api::runs::Run;
use mainspring_api::workflows::{TriggerAnswer, TriggerBody, TriggerPlan};
use mainspring_core::workflow::MAX_PRIORITY;
use mainspring_core::{Micros, time};
use mainspring_engine::{Client, Newness, Submission};
use mainspring_store::{Created, NewRun};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::find;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{InNamespace, MaybeJson, Name, Path, Query};
use crate::idempotency::Gathering;
use crate::problem::Problem;
use crate::routes::runs::shapes::{begun, shown};
use crate::state::ApiState;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(trigger));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TriggerParams {
    /// Only say whether it could start, and with which inputs
    #[serde(default)]
    #[param(default = false)]
    dry_run: bool,
}

/// Start a run of a workflow
#[utoipa::path(post, path = "/workflows/{workflow}/trigger", tag = "workflows", params(("workflow" = Name, Path), InNamespace, TriggerParams),
    request_body(content = Option<TriggerBody>), responses((status = 201, body = Run, description = "It is made"), (status = 200, body = TriggerAnswer, description = "The key made it before, or `dry_run` made nothing"),
        (status = 409, description = "Its concurrency limit refuses another run")))]
pub(crate) async fn trigger(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(within): Query<InNamespace>,
    Query(params): Query<TriggerParams>,
    gathering: Gathering,
    MaybeJson(body): MaybeJson<TriggerBody>,
) -> Result<Response, Problem> {
    let client = state.client();
    let body = body.unwrap_or_default();
    if !params.dry_run
        && let Some(run) = known_run(&state, &caller, (&workflow, &within), body.clone()).await
    {
        let shown = run.clone();
        match gathering.submit(&state, &caller, run, Newness::Newest, move |at| begun(&shown, at)).await {
            // The workflow was deleted or changed meanwhile, so it is read.
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => {}
            outcome => return outcome,
        }
    }
    let row = find(&state, &caller, &workflow, &within).await?;
    let submission = submission(client, &caller, body)?;
    let spec = client.spec(row.latest).await?;
    let run = client.prepare_run(&spec, submission).await?;
    if params.dry_run {
        return Ok(Json(TriggerAnswer::Plan(plan(&run))).into_response());
    }
    if client.gathers(&run).await? {
        state.known_latest().keep(&row.namespace, &row.name, row.latest);
        let shown = run.clone();
        return gathering.submit(&state, &caller, run, Newness::Any, move |at| begun(&shown, at)).await;
    }
    let created = client.create(std::slice::from_ref(&run)).await?.first().copied().unwrap_or(Created::Refused);
    let Some(run) = created.run() else {
        return Err(Problem::conflict("its concurrency limit is used up, and it takes no more runs until one ends"));
    };
    let shown = shown(&state, run).await?;
    if shown.workflow_id != row.id {
        return Err(Problem::invalid(
            "/idempotency_key",
            "a run of another workflow was made under this key: take a new one",
        ));
    }
    let status = if matches!(created, Created::Repeated(_)) { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(shown)).into_response())
}

/// Prepares the run from the cached newest version. `None` in any doubt, so that an error comes from what is stored
/// now.
async fn known_run(
    state: &ApiState,
    caller: &Caller,
    (workflow, within): (&str, &InNamespace),
    body: TriggerBody,
) -> Option<NewRun> {
    if workflow.parse::<Uuid>().is_ok() {
        return None;
    }
    let namespace = within.or_default();
    let version = state.known_latest().get(namespace, workflow)?;
    caller.enter(namespace).ok()?;
    let client = state.client();
    let submission = submission(client, caller, body).ok()?;
    let spec = client.spec(version).await.ok()?;
    let run = client.prepare_run(&spec, submission).await.ok()?;
    client.gathers(&run).await.ok()?.then_some(run)
}

/// What would start; nothing of it is kept.
fn plan(run: &NewRun) -> TriggerPlan {
    TriggerPlan {
        workflow: run.version.name.clone(),
        version: run.version.number,
        inputs: run.inputs.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        starts_at: run.start_at.map(time::rfc3339),
    }
}

/// The request for the engine.
pub(crate) fn submission(client: &Client, caller: &Caller, body: TriggerBody) -> Result<Submission, Problem> {
    let start_at = later(body.at.as_deref(), client.clock().wall())?;
    let mut trigger = json!({"kind": "manual", "by": caller.identity().name});
    if let Some(at) = start_at {
        trigger["scheduled_for"] = time::rfc3339(at).into();
    }
    if body.idempotency_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > 255) {
        return Err(Problem::invalid("/idempotency_key", "has 1 to 255 characters"));
    }
    if body.correlation_id.as_ref().is_some_and(|id| id.len() > 1_000) {
        return Err(Problem::invalid("/correlation_id", "has at most 1000 characters"));
    }
    Ok(Submission {
        inputs: body.inputs.unwrap_or_default(),
        priority: body.priority.as_ref().map(priority).transpose()?,
        correlation_id: body.correlation_id,
        idempotency_key: body.idempotency_key,
        trigger: Some(trigger),
        start_at,
        ..Submission::default()
    })
}

/// The start time, if it is in the future; a past time means at once.
fn later(at: Option<&str>, wall: Micros) -> Result<Option<Micros>, Problem> {
    let Some(text) = at else { return Ok(None) };
    let at = time::parse(text).ok_or_else(|| Problem::invalid("/at", "must be a time like 2026-01-31T08:00:00Z"))?;
    Ok(Some(at).filter(|at| *at > wall))
}

/// A number, or one of four words.
pub(crate) fn priority(value: &Value) -> Result<i16, Problem> {
    let number = match value {
        Value::Number(number) => number.as_i64().filter(|number| (0..=i64::from(MAX_PRIORITY)).contains(number)),
        Value::String(word) => match word.as_str() {
            "low" => Some(250),
            "medium" => Some(500),
            "high" => Some(750),
            "critical" => Some(1000),
            _ => None,
        },
        _ => None,
    };
    let said = format!("must be a number from 0 to {MAX_PRIORITY}, or low, medium, high, critical");
    number.and_then(|number| i16::try_from(number).ok()).ok_or_else(|| Problem::invalid("/priority", said))
}
