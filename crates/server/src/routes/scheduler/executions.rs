//! `/scheduler/executions`: executions of jobs.

use axum::Json;
use axum::extract::State;
use mainspring_api::jobs::{Execution, ExecutionLog};
use mainspring_api::runs::Why;
use mainspring_core::time::rfc3339;
use mainspring_core::trace::{RunTrace, SpanOf, hex};
use mainspring_core::{RunId, TaskKey};
use mainspring_engine::JobSpec;
use mainspring_store::{JobRow, LogCursor};
use serde_json::json;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{MaybeJson, Path};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{known, log_level, log_stream};

/// How many chunks of a log are looked at.
const MOST_CHUNKS: i64 = 10_000;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    routes.at(Access::InNamespace(Role::Viewer), routes!(logs));
    routes.at(Access::InNamespace(Role::Operator), routes!(retry));
}

pub(super) fn shown(row: mainspring_engine::Execution, job: &JobRow) -> Result<Execution, Problem> {
    let spec: JobSpec = serde_json::from_value(job.spec.clone()).map_err(|error| {
        tracing::error!(%error, job = %job.id, "what was asked of a job is not readable");
        Problem::internal()
    })?;
    let trace = RunTrace::new(row.id, row.started_by.as_ref());
    // A job is one task.
    let (task, attempt) = (TaskKey::new(row.id, 0), row.retry_count + 1);
    Ok(Execution {
        id: row.id,
        job_id: row.job_id,
        status: known(row.status.word())?,
        scheduled_at: row.scheduled_at,
        started_at: row.started_at.map(rfc3339),
        completed_at: row.completed_at.map(rfc3339),
        duration_ms: row.duration_ms,
        result: row.result,
        error: row.error,
        error_stack: row.error_stack,
        retry_count: row.retry_count,
        max_retries: spec.max_retries,
        next_retry_at: row.next_retry_at.map(rfc3339),
        worker_id: row.worker,
        metadata: json!({"trigger": row.started_by}),
        trace_id: Some(hex(&trace.trace_id())),
        span_id: row.started_at.map(|_| trace.span(SpanOf::Execution(task, attempt)).span_id_hex()),
        parent_span_id: row.started_at.map(|_| trace.span(SpanOf::Claim(task, attempt)).span_id_hex()),
    })
}

async fn find(state: &ApiState, caller: &Caller, id: RunId) -> Result<(mainspring_engine::Execution, JobRow), Problem> {
    let execution = state.client().execution(id).await?;
    caller.enter(&execution.namespace)?;
    let job = state.client().store().job(execution.job_id).await?;
    Ok((execution, job))
}

/// Show an execution
#[utoipa::path(get, path = "/scheduler/executions/{id}", tag = "jobs", params(("id" = Uuid, Path)),
    responses((status = 200, body = Execution)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Execution>, Problem> {
    let (execution, job) = find(&state, &caller, id).await?;
    Ok(Json(shown(execution, &job)?))
}

/// List what an execution printed, oldest first
#[utoipa::path(get, path = "/scheduler/executions/{id}/logs", tag = "jobs", params(("id" = Uuid, Path), PageParams),
    responses((status = 200, body = List<ExecutionLog>)))]
pub(crate) async fn logs(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Path(id): Path<Uuid>,
) -> Result<Json<List<ExecutionLog>>, Problem> {
    find(&state, &caller, id).await?;
    let key = TaskKey { run: id, index: 0, item: -1 };
    let chunks = state.client().store().read_logs(key, None, LogCursor::default(), MOST_CHUNKS).await?;
    let mut lines = Vec::new();
    for (cursor, chunk) in chunks {
        for (number, line) in chunk.into_iter().enumerate() {
            lines.push(ExecutionLog {
                id: format!("{}.{}.{number}", cursor.attempt, cursor.chunk),
                execution_id: id,
                timestamp: rfc3339(line.at),
                level: log_level(line.stream),
                message: line.text,
                context: json!({"attempt": cursor.attempt}),
                stream: log_stream(line.stream),
            });
        }
    }
    Ok(Json(page.slice("execution-logs", lines, |line| line)?))
}

/// Execute a failed or cancelled execution again, with fresh attempts
#[utoipa::path(post, path = "/scheduler/executions/{id}/retry", tag = "jobs", params(("id" = Uuid, Path)),
    request_body = Why, responses((status = 200, body = Execution), (status = 409, description = "It did not fail")))]
pub(crate) async fn retry(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(again): MaybeJson<Why>,
) -> Result<Json<Execution>, Problem> {
    let (_, job) = find(&state, &caller, id).await?;
    let again = again.unwrap_or_default();
    state.client().retry_execution(id, &caller.operator(again.by, again.reason)).await?;
    Ok(Json(shown(state.client().execution(id).await?, &job)?))
}
