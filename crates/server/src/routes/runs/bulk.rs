//! `POST /workflow-runs/bulk`: many runs with one request and one commit, each with a result of its own.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use mainspring_api::bulk::{BulkResult, BulkResults, BulkRun, BulkRuns};
use mainspring_api::workflows::TriggerBody;
use mainspring_engine::{Spec, SubmitError};
use mainspring_store::{Created, NewRun};
use serde_json::json;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, LARGE_LIMIT, or_default};
use crate::problem::Problem;
use crate::routes::workflows::trigger::submission;
use crate::state::ApiState;

const MOST: usize = 1_000;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(bulk)).body_limit(LARGE_LIMIT);
}

fn refused(problem: &Problem) -> BulkResult {
    BulkResult { status: problem.status().as_u16(), id: None, error: Some(json!(problem.body())) }
}

fn result(created: Created) -> BulkResult {
    match created {
        Created::New(id) | Created::Queued(id) => BulkResult { status: 201, id: Some(id), error: None },
        Created::Repeated(id) => BulkResult { status: 200, id: Some(id), error: None },
        Created::Refused => {
            refused(&Problem::conflict("its concurrency limit is used up, and it takes no more runs until one ends"))
        }
    }
}

/// Start many runs at once
#[utoipa::path(post, path = "/workflow-runs/bulk", tag = "runs", request_body = BulkRuns,
    responses((status = 200, body = BulkResults, description = "What became of each")))]
pub(crate) async fn bulk(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(BulkRuns { runs }): body::Json<BulkRuns>,
) -> Result<Json<BulkResults>, Problem> {
    if runs.is_empty() || runs.len() > MOST {
        return Err(Problem::invalid("/runs", format!("has {} entries, but must have 1 to {MOST}", runs.len())));
    }
    let mut specs = HashMap::new();
    let mut results: Vec<Option<BulkResult>> = Vec::with_capacity(runs.len());
    let mut prepared: Vec<NewRun> = Vec::with_capacity(runs.len());
    for wanted in runs {
        match prepare(&state, &caller, &mut specs, wanted).await {
            Ok(run) => {
                prepared.push(run);
                results.push(None);
            }
            Err(problem) if problem.status().is_server_error() => return Err(problem),
            Err(problem) => results.push(Some(refused(&problem))),
        }
    }
    let mut made = create(&state, &prepared).await?.into_iter();
    let results: Vec<BulkResult> = results.into_iter().filter_map(|settled| settled.or_else(|| made.next())).collect();
    let count = |status: u16| results.iter().filter(|one| one.status == status).count();
    let (created, repeated) = (count(201), count(200));
    Ok(Json(BulkResults { created, repeated, refused: results.len() - created - repeated, results }))
}

async fn prepare(
    state: &ApiState,
    caller: &Caller,
    specs: &mut HashMap<(String, String), Arc<Spec>>,
    wanted: BulkRun,
) -> Result<NewRun, Problem> {
    let BulkRun { workflow, namespace, inputs, priority, at, idempotency_key, correlation_id } = wanted;
    let namespace = or_default(namespace.as_ref());
    caller.enter(namespace)?;
    let client = state.client();
    let key = (namespace.to_owned(), workflow.as_str().to_owned());
    let spec = match specs.get(&key) {
        Some(spec) => Arc::clone(spec),
        None => {
            let spec = client.latest(namespace, workflow.as_str()).await?;
            specs.insert(key, Arc::clone(&spec));
            spec
        }
    };
    let body = TriggerBody { inputs, priority, at, idempotency_key, correlation_id };
    Ok(client.prepare_run(&spec, submission(client, caller, body)?).await?)
}

/// Creates all runs at once. If the database refuses one, each is tried alone.
async fn create(state: &ApiState, runs: &[NewRun]) -> Result<Vec<BulkResult>, Problem> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    match state.client().create(runs).await {
        Ok(created) => return Ok(created.into_iter().map(result).collect()),
        Err(SubmitError::Store(mainspring_store::Error::Rejected(error))) => {
            tracing::debug!(%error, "a bulk of runs was refused; each is tried alone");
        }
        Err(error) => return Err(error.into()),
    }
    let mut results = Vec::with_capacity(runs.len());
    for run in runs {
        results.push(match state.client().create(std::slice::from_ref(run)).await {
            Ok(created) => result(created.first().copied().unwrap_or(Created::Refused)),
            Err(error) => refused(&error.into()),
        });
    }
    Ok(results)
}
