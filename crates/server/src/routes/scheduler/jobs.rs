//! `/scheduler/jobs`: one handler, one schedule, made in one call.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::jobs::{
    EmptyBody, Execution, ExecutionStatus, Job, JobStats, MadeJobs, NewJob, NewJobs, NewSchedule,
};
use mainspring_engine::{JobRequest, RequestFault};
use mainspring_store::{ExecutionFilter, JobFilter, JobKind, JobRow, JobStatus};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::executions;
use super::invalid;
use super::shapes::{kind, request as job_request, shown};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, InNamespace, MaybeJson, Name, Path, Query, or_default};
use crate::openapi::words::{ExecutionWord, JobType, JobWord};
use crate::page::{List, MOST_COUNTED, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{all_of, job_status, one_of};

const MOST_AT_ONCE: usize = 1_000;
/// Where jobs are made. A job may have such a name.
const KINDS: &[&str] = &["cron", "once", "interval", "after", "bulk"];

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Author), routes!(create_cron));
    routes.at(Access::InNamespace(Role::Author), routes!(create_once));
    routes.at(Access::InNamespace(Role::Author), routes!(create_interval));
    routes.at(Access::InNamespace(Role::Author), routes!(create_after));
    routes.at(Access::InNamespace(Role::Author), routes!(create_bulk));
    routes.at(Access::InNamespace(Role::Viewer), routes!(list)).also_takes(&["platform_id"]);
    routes.at(Access::InNamespace(Role::Viewer), routes!(show)).also_named(KINDS);
    routes.at(Access::InNamespace(Role::Author), routes!(delete)).also_named(KINDS);
    routes.at(Access::InNamespace(Role::Author), routes!(reschedule));
    routes.at(Access::InNamespace(Role::Operator), routes!(pause));
    routes.at(Access::InNamespace(Role::Operator), routes!(resume));
    routes.at(Access::InNamespace(Role::Operator), routes!(trigger));
    routes.at(Access::InNamespace(Role::Viewer), routes!(list_executions));
    routes.at(Access::InNamespace(Role::Viewer), routes!(stats));
}

/// Finds a job by its id or its name and enters its namespace.
async fn find(state: &ApiState, caller: &Caller, id: &str, within: &InNamespace) -> Result<JobRow, Problem> {
    let namespace = within.or_default();
    let store = state.client().store();
    let job = match Uuid::try_parse(id) {
        Ok(id) => store.job(id).await,
        Err(_) => {
            caller.enter(namespace)?;
            store.job_named(namespace, id).await
        }
    }?;
    caller.enter(&job.namespace)?;
    Ok(job)
}

/// What a dependent job follows, as `namespace/name`.
async fn followed(state: &ApiState, caller: &Caller, job: &NewJob) -> Result<Option<String>, Problem> {
    let own = or_default(job.namespace.as_ref());
    match (&job.job, job.workflow.as_deref()) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Problem::invalid("/workflow", "a job follows a job or a workflow: leave one out")),
        (None, Some(workflow)) => {
            let name = workflow.rsplit_once('/').map_or((own, workflow), |(namespace, name)| (namespace, name));
            caller.enter_as(Role::Viewer, name.0)?;
            state.client().latest(name.0, name.1).await.map_err(|error| match error {
                mainspring_store::Error::NotFound { what } => {
                    Problem::invalid("/workflow", format!("{what} was not found: apply it first"))
                }
                other => other.into(),
            })?;
            Ok(Some(format!("{}/{}", name.0, name.1)))
        }
        (Some(id), None) => {
            let store = state.client().store();
            let found = match Uuid::try_parse(id) {
                Ok(id) => store.job(id).await,
                Err(_) => store.job_named(own, id).await,
            };
            let job = found.map_err(|error| match error {
                mainspring_store::Error::NotFound { what } => Problem::invalid("/job", format!("{what} was not found")),
                other => other.into(),
            })?;
            caller.enter_as(Role::Viewer, &job.namespace)?;
            Ok(Some(format!("{}/{}", job.namespace, job.name)))
        }
    }
}

async fn request(state: &ApiState, caller: &Caller, kind: JobKind, job: &NewJob) -> Result<JobRequest, Problem> {
    let follows = if kind == JobKind::Dependent { followed(state, caller, job).await? } else { None };
    caller.enter(or_default(job.namespace.as_ref()))?;
    job_request(job, kind, follows, caller).map_err(invalid)
}

async fn create(
    state: &ApiState,
    caller: &Caller,
    kind: JobKind,
    job: &NewJob,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let request = request(state, caller, kind, job).await?;
    let mut made = state.client().create_jobs(&[request]).await?;
    let row = made.pop().ok_or_else(Problem::internal)?;
    Ok((StatusCode::CREATED, Json(shown(row)?)))
}

/// Make a job that a cron expression fires
#[utoipa::path(post, path = "/scheduler/jobs/cron", tag = "jobs", request_body = NewJob,
    responses((status = 201, body = Job)))]
pub(crate) async fn create_cron(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(job): body::Json<NewJob>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    create(&state, &caller, JobKind::Cron, &job).await
}

/// Make a job that fires once
#[utoipa::path(post, path = "/scheduler/jobs/once", tag = "jobs", request_body = NewJob,
    responses((status = 201, body = Job)))]
pub(crate) async fn create_once(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(job): body::Json<NewJob>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    create(&state, &caller, JobKind::OneTime, &job).await
}

/// Make a job that fires again and again
#[utoipa::path(post, path = "/scheduler/jobs/interval", tag = "jobs", request_body = NewJob,
    responses((status = 201, body = Job)))]
pub(crate) async fn create_interval(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(job): body::Json<NewJob>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    create(&state, &caller, JobKind::Recurring, &job).await
}

/// Make a job that follows another job or a workflow
#[utoipa::path(post, path = "/scheduler/jobs/after", tag = "jobs", request_body = NewJob,
    responses((status = 201, body = Job)))]
pub(crate) async fn create_after(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(job): body::Json<NewJob>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    create(&state, &caller, JobKind::Dependent, &job).await
}

/// Make several jobs, all of them or none
#[utoipa::path(post, path = "/scheduler/jobs/bulk", tag = "jobs", request_body = NewJobs,
    responses((status = 201, body = MadeJobs)))]
pub(crate) async fn create_bulk(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(NewJobs { jobs }): body::Json<NewJobs>,
) -> Result<(StatusCode, Json<MadeJobs>), Problem> {
    if !(1..=MOST_AT_ONCE).contains(&jobs.len()) {
        let detail = format!("give 1 to {MOST_AT_ONCE} jobs, these are {}", jobs.len());
        return Err(Problem::invalid("/jobs", detail));
    }
    let (mut requests, mut faults) = (Vec::with_capacity(jobs.len()), Vec::new());
    for (number, job) in jobs.iter().enumerate() {
        caller.enter(or_default(job.namespace.as_ref()))?;
        let place = |fault: RequestFault| RequestFault::new(format!("/jobs/{number}{}", fault.pointer), fault.message);
        let kind = match kind(job) {
            Ok(kind) => kind,
            Err(fault) => {
                faults.push(place(fault));
                continue;
            }
        };
        let follows = if kind == JobKind::Dependent { followed(&state, &caller, job).await? } else { None };
        match job_request(job, kind, follows, &caller) {
            Ok(request) => requests.push(request),
            Err(wrong) => faults.extend(wrong.into_iter().map(place)),
        }
    }
    if !faults.is_empty() {
        return Err(invalid(faults));
    }
    let made = state.client().create_jobs(&requests).await.map_err(|error| match error {
        mainspring_engine::JobError::Invalid(faults) => invalid(
            faults
                .into_iter()
                .map(|fault| match requests.len() {
                    1 => RequestFault::new(format!("/jobs/0{}", fault.pointer), fault.message),
                    _ => RequestFault::new(format!("/jobs{}", fault.pointer), fault.message),
                })
                .collect(),
        ),
        other => other.into(),
    })?;
    let items = made.into_iter().map(shown).collect::<Result<_, _>>()?;
    Ok((StatusCode::CREATED, Json(MadeJobs { items })))
}

/// JobQuery jobs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct JobQuery {
    /// The namespace
    #[serde(alias = "platform_id")]
    namespace: Option<Name>,
    /// cron, one_time, recurring or dependent
    #[param(inline, value_type = Option<JobType>)]
    r#type: Option<String>,
    /// active, paused, completed or cancelled
    #[param(inline, value_type = Option<JobWord>)]
    status: Option<String>,
    /// A tag
    tag: Option<String>,
}

/// List jobs, newest first
#[utoipa::path(get, path = "/scheduler/jobs", tag = "jobs", params(PageParams, JobQuery),
    responses((status = 200, body = List<Job>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(query): Query<JobQuery>,
) -> Result<Json<List<Job>>, Problem> {
    let namespaces = caller.sees_of(query.namespace.as_ref().map(Name::as_str))?;
    let kind = query.r#type.as_deref().map(|word| {
        JobKind::from_word(word).ok_or_else(|| {
            Problem::malformed(format!("`{word}` is no type of job: write cron, one_time, recurring or dependent"))
        })
    });
    let status = query.status.as_deref().map(|word| {
        JobStatus::from_word(word).ok_or_else(|| {
            Problem::malformed(format!("`{word}` is no status of a job: write active, paused, completed or cancelled"))
        })
    });
    let filter = JobFilter {
        namespaces,
        kind: kind.transpose()?,
        status: status.transpose()?,
        tag: query.tag,
        before: page.after::<Uuid>("jobs")?,
        limit: page.fetch(),
        offset: page.offset,
    };
    let rows = state.client().store().jobs(&filter).await?;
    let listed = all_of(page.list("jobs", rows, |row| row.id, shown))?;
    let total = page.total(state.client().store().count_jobs(&filter, MOST_COUNTED)).await?;
    Ok(Json(listed.with_total(total)))
}

/// Show a job with its statistics
#[utoipa::path(get, path = "/scheduler/jobs/{id}", tag = "jobs", params(("id" = String, Path), InNamespace),
    responses((status = 200, body = Job)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<Json<Job>, Problem> {
    Ok(Json(shown(find(&state, &caller, &id, &within).await?)?))
}

/// Cancel a job for good; its history stays
#[utoipa::path(delete, path = "/scheduler/jobs/{id}", tag = "jobs", params(("id" = String, Path), InNamespace),
    responses((status = 204, description = "It is cancelled")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<StatusCode, Problem> {
    let job = find(&state, &caller, &id, &within).await?;
    // Cancelling a cancelled job succeeds.
    if job.status != JobStatus::Cancelled {
        state.client().cancel_job(job.id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Give a job another schedule
#[utoipa::path(put, path = "/scheduler/jobs/{id}/schedule", tag = "jobs", params(("id" = String, Path), InNamespace),
    request_body = NewSchedule, responses((status = 200, body = Job)))]
pub(crate) async fn reschedule(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(within): Query<InNamespace>,
    body::Json(new): body::Json<NewSchedule>,
) -> Result<Json<Job>, Problem> {
    let job = find(&state, &caller, &id, &within).await?;
    let changed = state.client().reschedule_job(&job, &new.schedule, new.timezone.as_deref()).await?;
    Ok(Json(shown(changed)?))
}

/// Pause a job: it does not fire until it is resumed
#[utoipa::path(post, path = "/scheduler/jobs/{id}/pause", tag = "jobs", params(("id" = String, Path), InNamespace),
    responses((status = 200, body = Job)))]
pub(crate) async fn pause(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<Json<Job>, Problem> {
    let job = find(&state, &caller, &id, &within).await?;
    Ok(Json(shown(state.client().pause_job(&job).await?)?))
}

/// Resume a paused job
#[utoipa::path(post, path = "/scheduler/jobs/{id}/resume", tag = "jobs", params(("id" = String, Path), InNamespace),
    responses((status = 200, body = Job)))]
pub(crate) async fn resume(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<Json<Job>, Problem> {
    let job = find(&state, &caller, &id, &within).await?;
    Ok(Json(shown(state.client().resume_job(&job).await?)?))
}

/// Execute a job now, besides its schedule
#[utoipa::path(post, path = "/scheduler/jobs/{id}/trigger", tag = "jobs", params(("id" = String, Path), InNamespace),
    responses((status = 201, body = Execution), (status = 409, description = "It is being executed already")))]
pub(crate) async fn trigger(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(within): Query<InNamespace>,
    MaybeJson(_): MaybeJson<EmptyBody>,
) -> Result<(StatusCode, Json<Execution>), Problem> {
    let job = find(&state, &caller, &id, &within).await?;
    let execution = state.client().trigger_job(&job, &caller.identity().name).await?;
    Ok((StatusCode::CREATED, Json(executions::shown(execution, &job)?)))
}

/// List the executions of a job, newest first
#[utoipa::path(get, path = "/scheduler/jobs/{id}/executions", tag = "jobs", params(("id" = String, Path), PageParams, OfStatus, InNamespace),
    responses((status = 200, body = List<Execution>)))]
pub(crate) async fn list_executions(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Path(id): Path<String>,
    Query(of): Query<OfStatus>,
    Query(within): Query<InNamespace>,
) -> Result<Json<List<Execution>>, Problem> {
    let job = find(&state, &caller, &id, &within).await?;
    let wanted = of.status.as_deref().map(one_of::<ExecutionStatus>).transpose()?;
    let status = wanted
        .and_then(|word| mainspring_store::ExecutionStatus::ALL.into_iter().find(|one| one.word() == word.word()));
    let before = page.after::<Uuid>("executions")?;
    let filter = ExecutionFilter { status, before, limit: page.fetch(), offset: page.offset };
    let rows = state.client().executions(&job, filter).await?;
    let listed = all_of(page.list("executions", rows, |row| row.id, |row| executions::shown(row, &job)))?;
    let total = page.total(state.client().store().count_executions(&job, status, MOST_COUNTED)).await?;
    Ok(Json(listed.with_total(total)))
}

/// JobQuery executions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfStatus {
    /// `pending`, `running`, `retrying`, `waiting`, `success`, `failed` or `cancelled`
    #[param(inline, value_type = Option<ExecutionWord>)]
    status: Option<String>,
}

/// Show what was counted of a job
#[utoipa::path(get, path = "/scheduler/jobs/{id}/stats", tag = "jobs", params(("id" = String, Path), InNamespace),
    responses((status = 200, body = JobStats)))]
pub(crate) async fn stats(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<Json<JobStats>, Problem> {
    let job = find(&state, &caller, &id, &within).await?;
    Ok(Json(JobStats {
        job_id: job.id,
        status: job_status(job.status),
        executions_count: job.statistics.executions,
        success_count: job.statistics.successes,
        failure_count: job.statistics.failures,
        avg_duration_ms: job.statistics.average_ms(),
        last_run: job.last_run.map(mainspring_core::time::rfc3339),
        next_run: job.next_run.map(mainspring_core::time::rfc3339),
    }))
}
