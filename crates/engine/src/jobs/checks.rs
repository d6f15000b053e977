//! What is refused when a job is made, because it could only fail later: a name that is taken, a handler or a workflow
//! that does not exist, inputs that do not fit.

use mainspring_core::Scope;
use mainspring_core::diagnostic::did_you_mean;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_store::{Error, JobRow, JobStatus};
use serde_json::{Map, Value};

use super::request::{JobRequest, slug};
use super::service::JobError;
use crate::client::Client;
use crate::request_fault::RequestFault;

impl Client {
    /// The job that has the name of the request and is to be replaced. Refuses a name that is taken otherwise.
    pub(super) async fn job_to_replace(&self, request: &JobRequest) -> Result<Option<JobRow>, JobError> {
        let (namespace, name) = (request.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE), slug(&request.name));
        let job = match self.store.job_named(namespace, &name).await {
            Ok(job) => job,
            Err(Error::NotFound { .. }) => {
                return match self.store.workflow(namespace, &name).await {
                    Ok(_) => Err(JobError::Conflict(format!(
                        "a workflow has the name `{name}` in namespace `{namespace}` already: choose another"
                    ))),
                    Err(Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(error.into()),
                };
            }
            Err(error) => return Err(error.into()),
        };
        match (job.status, request.replace) {
            (JobStatus::Active | JobStatus::Paused, false) => Err(JobError::Conflict(format!(
                "a job has the name `{name}` in namespace `{namespace}` already: choose another, or replace it (`replace`, \
                 `--replace`)"
            ))),
            (JobStatus::Active | JobStatus::Paused, true) if job.kind != request.timing.kind() => {
                Err(JobError::Conflict(format!(
                    "job `{name}` is of the type {} and stays one: delete it first",
                    job.kind.word()
                )))
            }
            (JobStatus::Active | JobStatus::Paused, true) => Ok(Some(job)),
            // It fires no more: the new one gets a number behind its name.
            (JobStatus::Completed | JobStatus::Cancelled, _) => Ok(None),
        }
    }

    /// Refuses a handler that nothing executes.
    pub(super) async fn check_handler(&self, request: &JobRequest) -> Result<Vec<RequestFault>, JobError> {
        match request.handler_type.as_deref().unwrap_or("function") {
            "function" => Ok(self.check_function(&request.handler_name)),
            "workflow" => self.check_workflow(request).await,
            _ => Ok(Vec::new()),
        }
    }

    fn check_function(&self, name: &str) -> Vec<RequestFault> {
        let known = self.handler_names();
        if known.is_empty() || known.iter().any(|one| one == name) {
            return Vec::new();
        }
        let near = did_you_mean(name, known.iter().map(String::as_str));
        let hint = near.unwrap_or_else(|| format!("there are {}", known.join(", ")));
        vec![RequestFault::new("/handler_name", format!("there is no function `{name}`: {hint}"))]
    }

    async fn check_workflow(&self, request: &JobRequest) -> Result<Vec<RequestFault>, JobError> {
        let namespace = request.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let spec = match self.latest(namespace, &request.handler_name).await {
            Ok(spec) => spec,
            Err(Error::NotFound { what }) => {
                return Ok(vec![RequestFault::new("/handler_name", format!("{what} was not found: apply it first"))]);
            }
            Err(error) => return Err(error.into()),
        };
        let inputs = match &request.payload {
            Some(Value::Object(inputs)) => inputs.clone(),
            _ => Map::new(),
        };
        // An expression gets its value when the job fires.
        if request.payload.as_ref().is_some_and(|payload| payload.to_string().contains("${{")) {
            return Ok(Vec::new());
        }
        match spec.workflow.resolve_inputs(inputs, &Scope::default()) {
            Ok(_) => Ok(Vec::new()),
            Err(problems) => Ok(problems
                .iter()
                .map(|problem| {
                    let place = problem.path.strip_prefix("/inputs").unwrap_or(&problem.path);
                    RequestFault::new(format!("/payload{place}"), problem.message.clone())
                })
                .collect()),
        }
    }
}
