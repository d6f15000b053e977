//! The staleness of open runs, and a search for stale ones on request.

use axum::extract::State;
use axum::response::Response;
use mainspring_api::dlq::{DetectRequest, Detected, StaleRun};
use mainspring_core::staleness::{Health, WARNING_PERCENT};
use mainspring_engine::Detection;
use mainspring_store::{WatchFilter, WatchedRun};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::shapes::{Form, minutes};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{MaybeJson, Name, Query};
use crate::openapi::words::HealthWord;
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const USUAL: i64 = 100;
const USUAL_BATCH: i64 = 100;
const MOST_AT_ONCE: i64 = 1_000;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(monitor)).also_takes(&["health_status"]);
    routes.at(Access::InNamespace(Role::Operator), routes!(detect));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct MonitorParams {
    /// Only of this namespace
    namespace: Option<Name>,
    /// `healthy`, `warning` or `stale`; also as `health_status`
    #[serde(alias = "health_status")]
    #[param(inline, value_type = Option<HealthWord>)]
    health: Option<String>,
}

/// List open runs by how long they have gone without progress, stale ones first
#[utoipa::path(get, path = "/dlq/staleness", tag = "dead letters", params(PageParams, MonitorParams),
    responses((status = 200, body = List<StaleRun>)))]
pub(super) async fn monitor(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    page: Page,
    Query(params): Query<MonitorParams>,
) -> Result<Response, Problem> {
    let page = form.page(page, USUAL);
    let namespaces = caller.sees_of(params.namespace.as_ref().map(Name::as_str))?;
    let (from_percent, below_percent) = match params.health.as_deref() {
        None => (0.0, 0.0),
        Some("stale") => (100.0, 0.0),
        Some("warning") => (WARNING_PERCENT, 100.0),
        Some("healthy") => (0.0, WARNING_PERCENT),
        Some(_) => return Err(Problem::malformed("the query does not fit: health is healthy, warning or stale")),
    };
    let client = state.client();
    let begin = page.after::<i64>("staleness")?.unwrap_or(page.offset);
    let filter =
        WatchFilter { namespaces, from_percent, below_percent, without_entry: false, limit: begin + page.fetch() };
    let found = client.store().watched_runs(client.now(), &filter).await?;
    let rows: Vec<(i64, WatchedRun)> = (1..).zip(found).skip(usize::try_from(begin).unwrap_or(usize::MAX)).collect();
    Ok(form.list(page.list("staleness", rows, |row| row.0, |(_, run)| watched(form, &run))))
}

fn watched(form: Form, run: &WatchedRun) -> StaleRun {
    StaleRun {
        run_id: run.run,
        namespace: run.namespace.clone(),
        workflow: run.workflow.clone(),
        current_state: run.phase.word().to_owned(),
        time_in_state_minutes: minutes(run.judgement.time_in_state),
        staleness_threshold_minutes: minutes(run.judgement.threshold),
        threshold_percentage: (run.judgement.percent * 100.0).round() / 100.0,
        health_status: Health::word(run.judgement.health).to_owned(),
        priority: run.priority,
        task_uuid: (form == Form::V1).then_some(run.run),
    }
}

/// Look for stale runs now, and give them up unless it is a dry run
#[utoipa::path(post, path = "/dlq/detect", tag = "dead letters", request_body(content = Option<DetectRequest>),
    responses((status = 200, body = List<Detected>)))]
pub(super) async fn detect(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    MaybeJson(body): MaybeJson<DetectRequest>,
) -> Result<Response, Problem> {
    let body = body.unwrap_or_default();
    let namespace =
        body.namespace.map(Name::try_from).transpose().map_err(|said| Problem::invalid("/namespace", said))?;
    let namespaces = caller.sees_of(namespace.as_ref().map(Name::as_str))?;
    let batch = body.batch_size.unwrap_or(USUAL_BATCH);
    if !(1..=MOST_AT_ONCE).contains(&batch) {
        return Err(Problem::invalid("/batch_size", format!("must be from 1 to {MOST_AT_ONCE}")));
    }
    let batch = usize::try_from(batch).unwrap_or(1);
    let found = state.client().detect_stale(None, namespaces, batch, body.dry_run).await?;
    Ok(form.list(List { items: found.into_iter().map(detected).collect(), next: None, total: None }))
}

fn detected(one: Detection) -> Detected {
    Detected {
        run_id: one.run,
        task_uuid: one.run,
        namespace: one.namespace,
        workflow: one.workflow,
        current_state: one.phase.word().to_owned(),
        time_in_state_minutes: one.time_in_state_minutes,
        staleness_threshold_minutes: one.threshold_minutes,
        action_taken: one.action.word().to_owned(),
        moved_to_dlq: one.moved_to_dlq,
        transition_success: one.transition_success,
    }
}
