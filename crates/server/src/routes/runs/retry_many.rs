//! Retrying whatever a filter finds.

use axum::Json;
use axum::extract::State;
use mainspring_core::RunId;
use mainspring_core::state::RunState;
use mainspring_store::{Reopen, RunFilter};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::instant;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Json as Body, Name};
use crate::openapi::words::RetriedWord;
use crate::problem::Problem;
use crate::state::ApiState;

/// How many runs one call retries.
const MOST: i64 = 1_000;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(retry_many));
}

/// Which ended runs to retry. At least one of the filters must be given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryMany {
    /// The name of their workflow.
    workflow: Option<String>,
    namespace: Option<Name>,
    /// `failed` unless given, or `cancelled`.
    #[schema(inline, value_type = Option<RetriedWord>)]
    status: Option<String>,
    trigger: Option<String>,
    correlation_id: Option<String>,
    tag: Option<String>,
    /// Made at this time or later.
    #[schema(format = "date-time")]
    since: Option<String>,
    /// Made before this time.
    #[schema(format = "date-time")]
    until: Option<String>,
    /// Only tell what would be retried.
    #[serde(default)]
    dry_run: bool,
    by: Option<String>,
    reason: Option<String>,
}

/// What was retried, or would be.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetriedMany {
    dry_run: bool,
    /// How many runs were found, at most 1000.
    matched: usize,
    /// How many of them are done again.
    retried: usize,
    /// Whether there are more: repeat the call.
    more: bool,
    #[schema(value_type = Vec<String>)]
    runs: Vec<RunId>,
    /// Runs that could not be retried, and why.
    failures: Vec<RetryFailure>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetryFailure {
    #[schema(value_type = String, format = "uuid")]
    run: RunId,
    error: String,
}

impl RetryMany {
    fn filter(&self, caller: &Caller) -> Result<RunFilter, Problem> {
        let namespaces = caller.sees_of(self.namespace.as_ref().map(Name::as_str))?;
        let given = [&self.workflow, &self.correlation_id, &self.tag, &self.since, &self.until];
        if given.iter().all(|filter| filter.is_none()) && self.namespace.is_none() {
            let said = "say which runs: one of workflow, namespace, correlation_id, tag, since, until";
            return Err(Problem::invalid("", said));
        }
        let state = match self.status.as_deref() {
            None | Some("failed") => RunState::Failed,
            Some("cancelled") => RunState::Cancelled,
            Some(_) => return Err(Problem::invalid("/status", "must be failed or cancelled")),
        };
        let time = |field: &str, text: Option<&str>| {
            instant(field, text)
                .map_err(|_| Problem::invalid(&format!("/{field}"), "must be a time like 2026-01-31T08:00:00Z"))
        };
        Ok(RunFilter {
            state: Some(state),
            workflow: self.workflow.clone(),
            namespaces,
            trigger: self.trigger.clone(),
            correlation_id: self.correlation_id.clone(),
            tag: self.tag.clone(),
            since: time("since", self.since.as_deref())?,
            until: time("until", self.until.as_deref())?,
            limit: MOST + 1,
            ..RunFilter::default()
        })
    }
}

/// Retry the failed runs that a filter finds; each succeeds or fails by itself
#[utoipa::path(post, path = "/workflow-runs/retry", tag = "runs", request_body = RetryMany,
    responses((status = 200, body = RetriedMany)))]
pub(crate) async fn retry_many(
    State(state): State<ApiState>,
    caller: Caller,
    Body(wanted): Body<RetryMany>,
) -> Result<Json<RetriedMany>, Problem> {
    let filter = wanted.filter(&caller)?;
    let client = state.client();
    let mut runs: Vec<RunId> = client.store().list_runs(&filter).await?.into_iter().map(|run| run.id).collect();
    let more = runs.len() as i64 > MOST;
    runs.truncate(usize::try_from(MOST).unwrap_or(0));
    let operator = caller.operator(wanted.by, wanted.reason);
    let (mut retried, mut failures) = (0, Vec::new());
    if !wanted.dry_run {
        for run in &runs {
            match client.reopen(*run, &Reopen::Failed, &operator).await.map_err(Problem::from) {
                Ok(_) => retried += 1,
                Err(problem) if problem.status().is_server_error() => return Err(problem),
                Err(problem) => failures.push(RetryFailure { run: *run, error: problem.detail().to_owned() }),
            }
        }
    }
    Ok(Json(RetriedMany { dry_run: wanted.dry_run, matched: runs.len(), retried, more, runs, failures }))
}
