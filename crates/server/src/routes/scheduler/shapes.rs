//! Jobs as they are sent and shown.

use mainspring_api::jobs::{Every, Job, NewJob};
use mainspring_core::time::rfc3339;
use mainspring_engine::{JobRequest, JobSpec, JobTiming, RequestFault};
use mainspring_store::{JobKind, JobRow};

use crate::auth::caller::Caller;
use crate::problem::Problem;
use crate::words::{job_status, job_type};

pub(super) fn shown(row: JobRow) -> Result<Job, Problem> {
    let spec: JobSpec = serde_json::from_value(row.spec).map_err(|error| {
        tracing::error!(%error, job = %row.id, "what was asked of a job is not readable");
        Problem::internal()
    })?;
    Ok(Job {
        id: row.id,
        name: row.name,
        title: spec.title,
        description: spec.description,
        r#type: job_type(row.kind),
        status: job_status(row.status),
        schedule: spec.schedule,
        timezone: spec.timezone,
        next_run: row.next_run.map(rfc3339),
        last_run: row.last_run.map(rfc3339),
        start_date: spec.start_date.map(rfc3339),
        end_date: spec.end_date.map(rfc3339),
        max_executions: spec.max_executions,
        handler_name: spec.handler_name,
        handler_type: spec.handler_type,
        payload: spec.payload,
        max_retries: spec.max_retries,
        retry_delay_ms: spec.retry_delay_ms,
        max_retry_delay_ms: spec.max_retry_delay_ms,
        timeout_ms: spec.timeout_ms,
        priority: spec.priority,
        concurrency: spec.concurrency,
        allow_overlap: spec.allow_overlap,
        executions_count: row.statistics.executions,
        success_count: row.statistics.successes,
        failure_count: row.statistics.failures,
        avg_duration_ms: row.statistics.average_ms(),
        tags: spec.tags,
        metadata: spec.metadata,
        namespace: row.namespace,
        created_by: row.created_by,
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
        completed_at: row.completed_at.map(rfc3339),
        cancelled_at: row.cancelled_at.map(rfc3339),
        problem: row.problem,
    })
}

fn interval(every: &Every) -> String {
    match every {
        Every::Text(text) => text.clone(),
        Every::Milliseconds(number) => format!("{number}ms"),
    }
}

/// The kind that the fields, or `type`, ask for.
pub(super) fn kind(job: &NewJob) -> Result<JobKind, RequestFault> {
    if let Some(word) = &job.r#type {
        return JobKind::from_word(word).ok_or_else(|| {
            RequestFault::new(
                "/type",
                format!("`{word}` is no type of job: write cron, one_time, recurring or dependent"),
            )
        });
    }
    match (&job.schedule, &job.execute_at, &job.every) {
        (Some(_), None, None) => Ok(JobKind::Cron),
        (None, Some(_), None) => Ok(JobKind::OneTime),
        (None, None, Some(_)) => Ok(JobKind::Recurring),
        (None, None, None) if job.job.is_some() || job.workflow.is_some() => Ok(JobKind::Dependent),
        _ => Err(RequestFault::new(
            "/type",
            "say when it fires: one of `schedule`, `execute_at`, `every`, `job` or `workflow`",
        )),
    }
}

/// The request for the engine. `follows` is the `namespace/name` that a dependent job follows.
pub(super) fn request(
    job: &NewJob,
    kind: JobKind,
    follows: Option<String>,
    caller: &Caller,
) -> Result<JobRequest, Vec<RequestFault>> {
    belongs(job, kind)?;
    let lacks = |field: &str| vec![RequestFault::new(format!("/{field}"), format!("`{field}` is missing"))];
    let timing = match kind {
        JobKind::Cron => JobTiming::Cron(job.schedule.clone().ok_or_else(|| lacks("schedule"))?),
        JobKind::OneTime => JobTiming::Once(job.execute_at.clone().ok_or_else(|| lacks("execute_at"))?),
        JobKind::Recurring => JobTiming::Interval(interval(job.every.as_ref().ok_or_else(|| lacks("every"))?)),
        JobKind::Dependent => {
            let workflow = follows.ok_or_else(|| lacks("job"))?;
            let on = job.on.clone().unwrap_or_else(|| vec!["success".into()]);
            JobTiming::After { workflow, on }
        }
    };
    Ok(JobRequest {
        namespace: job.namespace.as_ref().map(|name| name.as_str().to_owned()),
        description: job.description.clone(),
        timezone: job.timezone.clone(),
        start_date: job.start_date.clone(),
        end_date: job.end_date.clone(),
        max_executions: job.max_executions,
        handler_type: job.handler_type.clone(),
        payload: job.payload.clone(),
        replace: job.replace,
        max_retries: job.max_retries,
        retry_delay_ms: job.retry_delay_ms,
        max_retry_delay_ms: job.max_retry_delay_ms,
        timeout_ms: job.timeout_ms,
        priority: job.priority.clone(),
        concurrency: job.concurrency,
        allow_overlap: job.allow_overlap,
        tags: job.tags.clone().unwrap_or_default(),
        metadata: job.metadata.clone(),
        created_by: caller.signed(job.created_by.clone()),
        ..JobRequest::new(job.name.clone(), job.handler_name.clone(), timing)
    })
}

/// Refuses fields of another kind of job.
fn belongs(job: &NewJob, kind: JobKind) -> Result<(), Vec<RequestFault>> {
    let given = [
        ("schedule", job.schedule.is_some(), JobKind::Cron),
        ("execute_at", job.execute_at.is_some(), JobKind::OneTime),
        ("every", job.every.is_some(), JobKind::Recurring),
        ("job", job.job.is_some(), JobKind::Dependent),
        ("workflow", job.workflow.is_some(), JobKind::Dependent),
        ("on", job.on.is_some(), JobKind::Dependent),
    ];
    let faults: Vec<RequestFault> = given
        .into_iter()
        .filter(|(_, given, owner)| *given && *owner != kind)
        .map(|(field, ..)| {
            RequestFault::new(format!("/{field}"), format!("a {} job has no `{field}`: leave it out", kind.word()))
        })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
