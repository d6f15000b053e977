//! Jobs as they are sent and shown.

use mainspring_core::time::rfc3339;
use mainspring_engine::{JobFault, JobRequest, JobSpec, JobTiming};
use mainspring_store::{JobKind, JobRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::body::Name;
use crate::problem::Problem;

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Job {
    id: Uuid,
    /// Its name in addresses.
    name: String,
    /// Its name as it was given.
    title: String,
    description: Option<String>,
    /// cron, one_time, recurring or dependent
    r#type: &'static str,
    /// active, paused, completed or cancelled
    status: &'static str,
    /// The cron expression, the instant, the interval, or the workflow it follows
    schedule: String,
    timezone: String,
    next_run: Option<String>,
    last_run: Option<String>,
    start_date: Option<String>,
    end_date: Option<String>,
    max_executions: Option<u64>,
    handler_name: String,
    /// function, agent or workflow
    handler_type: String,
    #[schema(value_type = Object)]
    payload: Value,
    max_retries: u32,
    retry_delay_ms: u64,
    timeout_ms: u64,
    /// low, medium, high, critical, or a number from 0 to 1000
    priority: Value,
    /// How many executions may go on at once; null is unlimited
    concurrency: Option<u32>,
    /// Whether a fire beyond that waits its turn (true) or is left out
    allow_overlap: bool,
    executions_count: i64,
    success_count: i64,
    failure_count: i64,
    avg_duration_ms: Option<i64>,
    tags: Vec<String>,
    #[schema(value_type = Object)]
    metadata: Value,
    namespace: String,
    created_by: String,
    created_at: String,
    updated_at: String,
    completed_at: Option<String>,
    cancelled_at: Option<String>,
    /// Why it cannot fire
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl TryFrom<JobRow> for Job {
    type Error = Problem;

    fn try_from(row: JobRow) -> Result<Self, Problem> {
        let spec: JobSpec = serde_json::from_value(row.spec).map_err(|error| {
            tracing::error!(%error, job = %row.id, "what was asked of a job is not readable");
            Problem::internal()
        })?;
        Ok(Self {
            id: row.id,
            name: row.name,
            title: spec.title,
            description: spec.description,
            r#type: row.kind.word(),
            status: row.status.word(),
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
}

/// A duration as text (`15m`) or in milliseconds.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Every {
    Text(String),
    Milliseconds(u64),
}

impl Every {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Milliseconds(number) => format!("{number}ms"),
        }
    }
}

/// A job to be made. Which of `schedule`, `execute_at`, `every`, `job` and `workflow` belongs to it is said by the path,
/// or by `type` where several are made at once.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJob {
    /// Any printable name
    name: String,
    description: Option<String>,
    #[serde(alias = "platform_id")]
    pub(super) namespace: Option<Name>,
    /// cron, one_time, recurring or dependent
    r#type: Option<String>,
    /// A cron expression
    schedule: Option<String>,
    timezone: Option<String>,
    /// An instant
    execute_at: Option<String>,
    every: Option<Every>,
    /// The id or the name of the job it follows
    pub(super) job: Option<String>,
    /// The name of the workflow it follows
    workflow: Option<String>,
    /// Which ends it follows: success (default), failed, cancelled
    on: Option<Vec<String>>,
    start_date: Option<String>,
    end_date: Option<String>,
    max_executions: Option<u64>,
    handler_name: String,
    /// function (default), agent or workflow
    handler_type: Option<String>,
    #[schema(value_type = Option<Object>)]
    payload: Option<Value>,
    max_retries: Option<u32>,
    retry_delay_ms: Option<u64>,
    timeout_ms: Option<u64>,
    /// low, medium, high, critical, or a number from 0 to 1000
    priority: Option<Value>,
    concurrency: Option<u32>,
    allow_overlap: Option<bool>,
    tags: Option<Vec<String>>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    created_by: Option<String>,
}

impl NewJob {
    /// The kind that the fields, or `type`, ask for.
    pub(super) fn kind(&self) -> Result<JobKind, JobFault> {
        if let Some(word) = &self.r#type {
            return JobKind::from_word(word).ok_or_else(|| {
                JobFault::new(
                    "/type",
                    format!("`{word}` is no type of job: write cron, one_time, recurring or dependent"),
                )
            });
        }
        match (&self.schedule, &self.execute_at, &self.every) {
            (Some(_), None, None) => Ok(JobKind::Cron),
            (None, Some(_), None) => Ok(JobKind::OneTime),
            (None, None, Some(_)) => Ok(JobKind::Recurring),
            (None, None, None) if self.job.is_some() || self.workflow.is_some() => Ok(JobKind::Dependent),
            _ => Err(JobFault::new(
                "/type",
                "say when it fires: one of `schedule`, `execute_at`, `every`, `job` or `workflow`",
            )),
        }
    }

    /// What is asked of the engine. `follows` is `namespace/name` of what a dependent job follows.
    pub(super) fn request(
        &self,
        kind: JobKind,
        follows: Option<String>,
        caller: &str,
    ) -> Result<JobRequest, Vec<JobFault>> {
        self.belongs(kind)?;
        let lacks = |field: &str| vec![JobFault::new(format!("/{field}"), format!("`{field}` is missing"))];
        let timing = match kind {
            JobKind::Cron => JobTiming::Cron(self.schedule.clone().ok_or_else(|| lacks("schedule"))?),
            JobKind::OneTime => JobTiming::Once(self.execute_at.clone().ok_or_else(|| lacks("execute_at"))?),
            JobKind::Recurring => JobTiming::Interval(self.every.as_ref().ok_or_else(|| lacks("every"))?.text()),
            JobKind::Dependent => {
                let workflow = follows.ok_or_else(|| lacks("job"))?;
                let on = self.on.clone().unwrap_or_else(|| vec!["success".into()]);
                JobTiming::After { workflow, on }
            }
        };
        Ok(JobRequest {
            namespace: self.namespace.as_ref().map(|name| name.as_str().to_owned()),
            description: self.description.clone(),
            timezone: self.timezone.clone(),
            start_date: self.start_date.clone(),
            end_date: self.end_date.clone(),
            max_executions: self.max_executions,
            handler_type: self.handler_type.clone(),
            payload: self.payload.clone(),
            max_retries: self.max_retries,
            retry_delay_ms: self.retry_delay_ms,
            timeout_ms: self.timeout_ms,
            priority: self.priority.clone(),
            concurrency: self.concurrency,
            allow_overlap: self.allow_overlap,
            tags: self.tags.clone().unwrap_or_default(),
            metadata: self.metadata.clone(),
            created_by: self.created_by.clone().filter(|by| !by.is_empty()).unwrap_or_else(|| caller.to_owned()),
            ..JobRequest::new(self.name.clone(), self.handler_name.clone(), timing)
        })
    }

    pub(super) fn workflow(&self) -> Option<&str> {
        self.workflow.as_deref()
    }

    /// Refuses what another kind of job would take.
    fn belongs(&self, kind: JobKind) -> Result<(), Vec<JobFault>> {
        let given = [
            ("schedule", self.schedule.is_some(), JobKind::Cron),
            ("execute_at", self.execute_at.is_some(), JobKind::OneTime),
            ("every", self.every.is_some(), JobKind::Recurring),
            ("job", self.job.is_some(), JobKind::Dependent),
            ("workflow", self.workflow.is_some(), JobKind::Dependent),
            ("on", self.on.is_some(), JobKind::Dependent),
        ];
        let faults: Vec<JobFault> = given
            .into_iter()
            .filter(|(_, given, owner)| *given && *owner != kind)
            .map(|(field, ..)| {
                JobFault::new(format!("/{field}"), format!("a {} job has no `{field}`: leave it out", kind.word()))
            })
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}
