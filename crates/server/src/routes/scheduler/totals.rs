//! `/scheduler/stats` and `/scheduler/handlers`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use mainspring_api::jobs::{Handler, SchedulerStats};
use mainspring_core::builtin::BUILTIN_FUNCTIONS;
use mainspring_store::{JobKind, JobStatistics, JobStatus};
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

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(stats)).also_takes(&["platform_id"]);
    routes.at(Access::Anywhere(Role::Viewer), routes!(handlers));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfNamespace {
    /// The namespace; all that may be seen unless given
    #[serde(alias = "platform_id")]
    namespace: Option<Name>,
}

/// Show the statistics of all jobs together
#[utoipa::path(get, path = "/scheduler/stats", tag = "jobs", params(OfNamespace),
    responses((status = 200, body = SchedulerStats)))]
pub(crate) async fn stats(
    State(state): State<ApiState>,
    caller: Caller,
    Query(within): Query<OfNamespace>,
) -> Result<Json<SchedulerStats>, Problem> {
    let namespaces = caller.sees_of(within.namespace.as_ref().map(Name::as_str))?;
    let totals = state.client().store().job_totals(namespaces.as_deref()).await?;
    let mut by_status: BTreeMap<String, i64> = JobStatus::ALL.map(|status| (status.word().to_owned(), 0)).into();
    let mut by_type: BTreeMap<String, i64> = JobKind::ALL.map(|kind| (kind.word().to_owned(), 0)).into();
    let mut sum = JobStatistics::default();
    for part in &totals {
        *by_status.entry(part.status.word().to_owned()).or_default() += part.jobs;
        *by_type.entry(part.kind.word().to_owned()).or_default() += part.jobs;
        sum.executions += part.statistics.executions;
        sum.successes += part.statistics.successes;
        sum.failures += part.statistics.failures;
        sum.measured += part.statistics.measured;
        sum.duration += part.statistics.duration;
    }
    Ok(Json(SchedulerStats {
        total_jobs: totals.iter().map(|part| part.jobs).sum(),
        jobs_by_status: by_status,
        jobs_by_type: by_type,
        executions_count: sum.executions,
        success_count: sum.successes,
        failure_count: sum.failures,
        avg_duration_ms: sum.average_ms(),
    }))
}

/// List the functions that jobs can name
#[utoipa::path(get, path = "/scheduler/handlers", tag = "jobs", params(PageParams),
    responses((status = 200, body = List<Handler>)))]
pub(crate) async fn handlers(State(state): State<ApiState>, page: Page) -> Result<Json<List<Handler>>, Problem> {
    let mut handlers: Vec<Handler> = BUILTIN_FUNCTIONS
        .iter()
        .map(|function| Handler {
            name: function.name.into(),
            r#type: "function".to_owned(),
            description: Some(function.description.to_owned()),
            timeout_ms: Some(function.timeout_ms),
            built_in: true,
        })
        .collect();
    for name in state.client().handler_names() {
        if !handlers.iter().any(|known| known.name == *name) {
            let name = name.clone();
            handlers.push(Handler {
                name,
                r#type: "function".to_owned(),
                description: None,
                timeout_ms: None,
                built_in: false,
            });
        }
    }
    handlers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Json(page.slice("handlers", handlers, |handler| handler)?))
}
