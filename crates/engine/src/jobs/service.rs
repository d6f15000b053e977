//! Operations on jobs and their executions: make, change, pause, resume, trigger, cancel.

use mainspring_boxed::boxed;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, RunId};
use mainspring_store::{
    Created, Error, EventRow, ExecutionFilter, ExecutionRow, ExecutionStatus, IfNamed, JobKind, JobRow, JobStatus,
    NewJob, Operator, Reopen, Reopened,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::request::{Checked, JobRequest, compile};
use super::spec::JobSpec;
use crate::bus::BusMessage;
use crate::client::{Client, Submission, SubmitError};
use crate::request_fault::RequestFault;
use crate::spans::current_trace;

#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("the job cannot be made: {}", first(.0))]
    Invalid(Vec<RequestFault>),
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Submit(SubmitError),
    #[error(transparent)]
    Store(#[from] Error),
}

fn first(faults: &[RequestFault]) -> String {
    faults.first().map(|fault| format!("{}: {}", fault.pointer, fault.message)).unwrap_or_default()
}

/// One execution, as people see it.
#[derive(Debug, Clone)]
pub struct Execution {
    pub id: RunId,
    pub job_id: Uuid,
    pub namespace: String,
    pub status: ExecutionStatus,
    pub scheduled_at: String,
    pub started_at: Option<Micros>,
    pub completed_at: Option<Micros>,
    pub duration_ms: Option<i64>,
    pub result: Option<Value>,
    pub error: Option<String>,
    pub error_stack: Option<String>,
    pub retry_count: i32,
    pub next_retry_at: Option<Micros>,
    pub worker: Option<String>,
    /// What started it.
    pub started_by: Option<Value>,
}

#[boxed]
impl Client {
    /// Makes jobs, all of them or none. A fault's pointer begins with the number of its request if there are several.
    pub async fn create_jobs(&self, requests: &[JobRequest]) -> Result<Vec<JobRow>, JobError> {
        let mut jobs: Vec<NewJob> = Vec::with_capacity(requests.len());
        let mut replaced = Vec::new();
        let mut faults = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            let place = |fault: RequestFault| match requests.len() {
                1 => fault,
                _ => RequestFault::new(format!("/{number}{}", fault.pointer), fault.message),
            };
            match self.new_job(request, None, IfNamed::Refuse) {
                Ok(job) if is_named_twice(&jobs, &job) => {
                    let message = "two jobs of this request have the same name: choose another for one of them";
                    faults.push(place(RequestFault::new("/name", message)));
                }
                Ok(job) => {
                    faults.extend(self.check_handler(request).await?.into_iter().map(place));
                    jobs.push(job);
                }
                Err(wrong) => faults.extend(wrong.into_iter().map(place)),
            }
        }
        if !faults.is_empty() {
            return Err(JobError::Invalid(faults));
        }
        for (request, job) in requests.iter().zip(&jobs) {
            if let Some(old) = self.job_to_replace(request).await? {
                replaced.push((old.id, job.id));
            }
        }
        let (new, changed): (Vec<NewJob>, Vec<NewJob>) =
            jobs.iter().cloned().partition(|job| replaced.iter().all(|(_, id)| *id != job.id));
        let now = self.clock.wall();
        if !new.is_empty() {
            self.repeat(|| self.store.create_jobs(now, &new)).await?;
        }
        for job in &changed {
            let Some((old, _)) = replaced.iter().find(|(_, id)| *id == job.id) else { continue };
            self.repeat(|| self.store.change_job(now, *old, &job.workflow, &job.document, &job.spec)).await?;
        }
        self.bus.publish(BusMessage::RoutesChanged);
        self.schedules_changed().await;
        self.bus.publish(BusMessage::EventsPending);
        let mut made = Vec::with_capacity(jobs.len());
        for job in &jobs {
            let id = replaced.iter().find(|(_, id)| *id == job.id).map_or(job.id, |(old, _)| *old);
            made.push(self.store.job(id).await?);
        }
        Ok(made)
    }

    /// A job ready to be made, of an event or because it was asked for.
    pub(crate) fn new_job(
        &self,
        request: &JobRequest,
        event: Option<&EventRow>,
        if_named: IfNamed,
    ) -> Result<NewJob, Vec<RequestFault>> {
        let Checked { spec, document, mut workflow } = request.check(self.now())?;
        let kind = request.timing.kind();
        let trace = current_trace();
        if kind == JobKind::OneTime {
            workflow.triggers.iter_mut().for_each(|trigger| trigger.trace = trace);
        }
        let max_executions = spec.max_executions.filter(|_| kind == JobKind::Dependent);
        Ok(NewJob {
            id: self.clock.new_id(),
            workflow_id: self.clock.new_id(),
            event_id: self.clock.new_id(),
            kind,
            workflow,
            document,
            tags: spec.tags.clone(),
            max_executions: max_executions.and_then(|max| i64::try_from(max).ok()),
            spec: serde_json::to_value(&spec).unwrap_or(Value::Null),
            depth: event.map_or(0, |event| event.depth),
            cause: event.map(EventRow::root),
            trace,
            created_by: request.created_by.clone(),
            if_named,
        })
    }

    /// Gives a job another schedule of its kind; the clock goes by it from now on.
    pub async fn reschedule_job(
        &self,
        job: &JobRow,
        schedule: &str,
        timezone: Option<&str>,
    ) -> Result<JobRow, JobError> {
        let mut spec = spec_of(job)?;
        let mut faults = Vec::new();
        let zone = timezone.unwrap_or(&spec.timezone).to_owned();
        match job.kind {
            JobKind::Cron => match mainspring_core::schedule::timezone(&zone) {
                Err(error) => faults.push(RequestFault::new("/timezone", error.to_string())),
                Ok(_) => {
                    if let Err(error) = mainspring_core::schedule::Cron::parse(schedule, &zone) {
                        faults.push(RequestFault::new("/schedule", error.to_string()));
                    }
                }
            },
            JobKind::OneTime
                if mainspring_core::time::parse(schedule).is_none_or(|at| at < self.now() - 60_000_000) =>
            {
                let message = "a one-time job wants an instant to come, like 2026-12-01T10:00:00Z";
                faults.push(RequestFault::new("/schedule", message));
            }
            JobKind::Dependent => {
                faults.push(RequestFault::new(
                    "/schedule",
                    "a dependent job follows another and has no schedule: make a new one",
                ));
            }
            JobKind::OneTime | JobKind::Recurring => {}
        }
        if !faults.is_empty() {
            return Err(JobError::Invalid(faults));
        }
        (spec.schedule, spec.timezone) = (schedule.to_owned(), zone);
        let checked = compile(spec, job.kind, &job.namespace, &job.name).map_err(|faults| {
            JobError::Invalid(faults.into_iter().map(|fault| RequestFault::new("/schedule", fault.message)).collect())
        })?;
        let kept = serde_json::to_value(&checked.spec).unwrap_or(Value::Null);
        let now = self.clock.wall();
        self.repeat(|| self.store.change_job(now, job.id, &checked.workflow, &checked.document, &kept)).await?;
        self.schedules_changed().await;
        Ok(self.store.job(job.id).await?)
    }

    pub async fn pause_job(&self, job: &JobRow) -> Result<JobRow, JobError> {
        match job.status {
            JobStatus::Active | JobStatus::Paused => {}
            other => return Err(not_in(job, other, "paused")),
        }
        self.pause_trigger(job.trigger_id).await?;
        Ok(self.store.job(job.id).await?)
    }

    pub async fn resume_job(&self, job: &JobRow) -> Result<JobRow, JobError> {
        match job.status {
            JobStatus::Active | JobStatus::Paused => {}
            other => return Err(not_in(job, other, "resumed")),
        }
        self.resume_trigger(job.trigger_id).await?;
        Ok(self.store.job(job.id).await?)
    }

    /// Executes a job now, besides its schedule.
    pub async fn trigger_job(&self, job: &JobRow, by: &str) -> Result<Execution, JobError> {
        if job.status == JobStatus::Cancelled {
            return Err(not_in(job, job.status, "triggered"));
        }
        let spec = self.latest(&job.namespace, &job.name).await?;
        let trigger = Some(json!({"kind": "manual", "by": by}));
        let submission = Submission { trigger, ..Submission::default() };
        let run = match self.submit(&spec, submission).await.map_err(JobError::Submit)? {
            Created::New(run) | Created::Queued(run) | Created::Repeated(run) => run,
            Created::Refused => {
                return Err(JobError::Conflict(format!(
                    "job `{}` is being executed as often at once as its concurrency allows: wait for its end, or allow overlap",
                    job.name
                )));
            }
        };
        Ok(execution(self.store.execution(run).await?))
    }

    /// Ends a job for good; its history stays.
    pub async fn cancel_job(&self, id: Uuid) -> Result<(), JobError> {
        self.repeat(|| self.store.cancel_job(self.clock.wall(), id)).await?;
        self.schedules_changed().await;
        Ok(())
    }

    pub async fn executions(&self, job: &JobRow, filter: ExecutionFilter) -> Result<Vec<Execution>, JobError> {
        Ok(self.store.executions(job, filter).await?.into_iter().map(execution).collect())
    }

    pub async fn execution(&self, id: RunId) -> Result<Execution, JobError> {
        Ok(execution(self.store.execution(id).await?))
    }

    /// Executes a failed or cancelled execution again, with fresh attempts.
    pub async fn retry_execution(&self, id: RunId, operator: &Operator) -> Result<Reopened, JobError> {
        Ok(self.reopen(id, &Reopen::Failed, operator).await?)
    }
}

fn is_named_twice(jobs: &[NewJob], job: &NewJob) -> bool {
    let same =
        |other: &NewJob| other.workflow.name == job.workflow.name && other.workflow.namespace == job.workflow.namespace;
    jobs.iter().any(same)
}

/// What was asked of a job.
pub(crate) fn spec_of(job: &JobRow) -> Result<JobSpec, JobError> {
    serde_json::from_value(job.spec.clone())
        .map_err(|error| JobError::Conflict(format!("what was asked of job `{}` is not readable: {error}", job.name)))
}

fn not_in(job: &JobRow, status: JobStatus, what: &str) -> JobError {
    JobError::Conflict(format!("job `{}` is {}: it cannot be {what}", job.name, status.word()))
}

fn execution(row: ExecutionRow) -> Execution {
    let started_by: Option<Value> = row.started_by.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let nominal = started_by.as_ref().and_then(|trigger| trigger.get("scheduled_for")).and_then(Value::as_str);
    let scheduled_at = nominal.map_or_else(|| mainspring_core::time::rfc3339(row.created_at), str::to_owned);
    let run = RunState::try_from(row.run_state).ok();
    let task = row.task_state.and_then(|code| TaskState::try_from(code).ok());
    let retrying = task == Some(TaskState::Retrying);
    let over = run.is_some_and(RunState::is_terminal);
    let status = match (run, task) {
        (Some(RunState::Success), _) => ExecutionStatus::Success,
        (Some(RunState::Failed), _) => ExecutionStatus::Failed,
        (Some(RunState::Cancelled), _) => ExecutionStatus::Cancelled,
        (_, Some(TaskState::Running)) => ExecutionStatus::Running,
        (_, Some(TaskState::Retrying)) => ExecutionStatus::Retrying,
        (_, Some(TaskState::Waiting)) => ExecutionStatus::Waiting,
        _ => ExecutionStatus::Pending,
    };
    let completed_at = row.finished_at.or(row.run_finished_at).filter(|_| over);
    Execution {
        id: row.run,
        job_id: row.job_id,
        namespace: row.namespace,
        status,
        scheduled_at,
        started_at: row.started_at,
        completed_at,
        duration_ms: row.started_at.zip(completed_at).map(|(from, to)| (to - from).max(0) / 1_000),
        result: row.output.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        error: row.error.or(row.error_kind),
        error_stack: row.detail,
        retry_count: (row.attempt - 1).max(0),
        next_retry_at: row.due_at.filter(|_| retrying),
        worker: row.worker,
        started_by,
    }
}
