//! Creates runs: inputs are validated, limits resolved, quotas enforced.

use std::collections::HashMap;
use std::sync::Arc;

use mainspring_boxed::boxed;
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::work::Failure;
use mainspring_core::workflow::Overlap;
use mainspring_core::{Diagnostics, Micros, RunId, Scope};
use mainspring_store::{Created, NewRun, Operator, after_commit, is_within_unit};
use serde_json::{Map, Value};

use super::{ANY_WORK, Client};
use crate::bus::BusMessage;
use crate::limits::LimitName;
use crate::metering;
use crate::spans;
use crate::specs::Spec;
use crate::submitter::{Leaves, Newness};
/// The request for a run.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    pub inputs: Map<String, Value>,
    pub priority: Option<i16>,
    pub correlation_id: Option<String>,
    pub idempotency_key: Option<String>,
    /// What started it, as JSON.
    pub trigger: Option<Value>,
    /// What happens when the concurrency limit is used up; by default the policy of the workflow.
    pub overlap: Option<Overlap>,
    /// The time of day at which the run begins, if it is in the future.
    pub start_at: Option<Micros>,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("the inputs do not fit the workflow")]
    Inputs(Diagnostics),
    #[error("the concurrency key has no value: {}", .0.message)]
    Key(Failure),
    /// PostgreSQL cannot store a NUL character, and no caller needs one.
    #[error("the {0} holds a NUL character: leave it out")]
    Nul(&'static str),
    /// A later submission may succeed.
    #[error("{0}")]
    Quota(String),
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
}

#[boxed]
impl Client {
    pub async fn submit(&self, spec: &Spec, submission: Submission) -> Result<Created, SubmitError> {
        let created = self.submit_many(spec, vec![submission]).await?;
        Ok(created[0])
    }

    /// Creates runs of one version, all or none.
    pub async fn submit_many(&self, spec: &Spec, submissions: Vec<Submission>) -> Result<Vec<Created>, SubmitError> {
        self.check_run_quota(&spec.workflow.namespace, submissions.len()).await?;
        let mut runs = Vec::with_capacity(submissions.len());
        for submission in submissions {
            runs.push(self.prepare(spec, submission).await?);
        }
        self.create(&runs).await
    }

    /// Prepares a run: checks its inputs and the quota of its namespace.
    pub async fn prepare_run(&self, spec: &Spec, submission: Submission) -> Result<NewRun, SubmitError> {
        self.prepare(spec, submission).await
    }

    async fn check_run_quota(&self, namespace: &str, more: usize) -> Result<(), SubmitError> {
        match self.over_quota(namespace, more).await? {
            Some(cause) => Err(SubmitError::Quota(cause)),
            None => Ok(()),
        }
    }

    /// Whether a run can be batched with other submissions: the database decides nothing about it, and its namespace
    /// has no quota.
    pub async fn gathers(&self, run: &NewRun) -> mainspring_store::Result<bool> {
        Ok(run.is_plain() && self.quotas_of(&run.version.namespace).await?.max_open_runs.is_none())
    }

    /// Creates runs counted against the quotas of their namespaces, and returns the results in order.
    async fn create_counted(&self, runs: &[NewRun]) -> Result<Vec<Created>, SubmitError> {
        let mut namespaces: Vec<&str> = runs.iter().map(|run| run.version.namespace.as_str()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        if let [namespace] = namespaces.as_slice() {
            return self.create_within_quota(namespace, runs).await;
        }
        let mut created = vec![Created::Refused; runs.len()];
        for namespace in namespaces {
            let own = runs.iter().enumerate().filter(|(_, run)| run.version.namespace == namespace);
            let (places, own): (Vec<usize>, Vec<NewRun>) = own.map(|(place, run)| (place, run.clone())).unzip();
            for (place, made) in places.into_iter().zip(self.create_within_quota(namespace, &own).await?) {
                created[place] = made;
            }
        }
        Ok(created)
    }

    /// Creates prepared runs, all or none. A single plain run is batched with other submissions.
    pub async fn create(&self, runs: &[NewRun]) -> Result<Vec<Created>, SubmitError> {
        if let [run] = runs
            && !is_within_unit()
            && self.gathers(run).await?
        {
            self.submit_plain(run.clone(), Newness::Any, Box::new(|_| Leaves::default())).await?;
            return Ok(vec![Created::New(run.id)]);
        }
        let created = self.create_counted(runs).await?;
        for (run, created) in runs.iter().zip(&created) {
            if let Some(id) = created.run().filter(|_| run.version.main_tasks > 5_000) {
                self.proceed(id).await?;
            }
            if matches!(created, Created::Queued(_)) {
                self.make_room_for(run).await?;
            }
        }
        let is_new = |created: &Created| matches!(created, Created::New(_) | Created::Queued(_));
        self.meter(runs.iter().zip(&created).filter(|(_, created)| is_new(created)).map(|(run, _)| run));
        let made: Vec<RunId> = created.iter().filter_map(|created| created.run()).collect();
        self.announce([BusMessage::RunsChanged(made), ANY_WORK]).await;
        Ok(created)
    }

    /// Counts created runs in the metrics.
    pub(crate) fn meter<'r>(&self, runs: impl Iterator<Item = &'r NewRun>) {
        let mut counts: HashMap<i64, usize> = HashMap::new();
        for run in runs {
            self.trace_start(run, self.now());
            *counts.entry(run.version.id).or_default() += 1;
        }
        let (metrics, specs) = (self.metrics.clone(), Arc::clone(&self.specs));
        after_commit(move || {
            for (version, count) in counts {
                if let Some(spec) = specs.cached(version) {
                    metering::runs_created(&metrics, &spec.workflow, count);
                }
            }
        });
    }

    /// Validates inputs and finds the limit that a run counts against.
    pub(crate) async fn prepare(&self, spec: &Spec, submission: Submission) -> Result<NewRun, SubmitError> {
        self.prepare_as(self.clock.new_id(), spec, submission).await
    }

    /// Prepares a run whose id is fixed.
    pub(crate) async fn prepare_as(
        &self,
        id: RunId,
        spec: &Spec,
        submission: Submission,
    ) -> Result<NewRun, SubmitError> {
        // Checked whatever starts the run: a request, an event, a schedule, a job or another run.
        self.check_run_quota(&spec.workflow.namespace, 1).await?;
        for (what, text) in
            [("correlation id", &submission.correlation_id), ("idempotency key", &submission.idempotency_key)]
        {
            if text.as_ref().is_some_and(|text| text.contains('\0')) {
                return Err(SubmitError::Nul(what));
            }
        }
        let (inputs, limit) = self.inputs_and_limit(id, spec, submission.inputs, submission.trigger.as_ref()).await?;
        Ok(NewRun {
            id,
            version: spec.version.clone(),
            priority: submission.priority,
            inputs,
            correlation_id: submission.correlation_id,
            trigger: spans::traced(submission.trigger).map(|trigger| trigger.to_string()),
            idempotency_key: submission.idempotency_key,
            limit,
            overlap: submission.overlap,
            start_at: submission.start_at,
            audit: None,
        })
    }

    /// The inputs of a run in their stored form, and its concurrency limit.
    async fn inputs_and_limit(
        &self,
        id: RunId,
        spec: &Spec,
        given: Map<String, Value>,
        trigger: Option<&Value>,
    ) -> Result<(Option<String>, Option<i32>), SubmitError> {
        let workflow = &spec.workflow;
        if workflow.inputs.is_empty() && given.is_empty() && workflow.concurrency.is_none() {
            return Ok((None, None));
        }
        let mut scope = Scope { run: run_scope(id, trigger), workflow: spec.workflow_scope(), ..Scope::default() };
        scope.inputs = workflow.resolve_inputs(given, &scope).map_err(SubmitError::Inputs)?;
        let limit = match &workflow.concurrency {
            None => None,
            Some(_) => {
                let key = workflow.concurrency_key(&scope).map_err(SubmitError::Key)?.unwrap_or_default();
                if key.contains('\0') {
                    return Err(SubmitError::Nul("concurrency key"));
                }
                match LimitName::of_workflow(workflow, &key) {
                    None => None,
                    Some(name) => Some(self.limits.get(&name).await?),
                }
            }
        };
        Ok(((!scope.inputs.is_empty()).then(|| Value::Object(scope.inputs).to_string()), limit))
    }

    /// For `overlap: cancel_running`: cancels the runs that hold the limit which a new run waits for.
    pub(crate) async fn make_room_for(&self, newcomer: &NewRun) -> mainspring_store::Result<()> {
        let cancels = newcomer.overlap() == Some(Overlap::CancelRunning);
        let Some(limit) = newcomer.limit.filter(|_| cancels) else {
            return Ok(());
        };
        if self.store.run_summary(newcomer.id).await?.state != RunState::Pending {
            return Ok(());
        }
        let operator = Operator::new("system", Some("a newer run takes its place".into()));
        for older in self.store.runs_on_limit(limit, newcomer.id).await? {
            self.repeat(|| self.store.cancel_run(self.now(), self.clock.new_id(), older, &operator)).await?;
        }
        Ok(())
    }

    /// Creates the rest of a big run, after the commit of the request.
    async fn proceed(&self, run: RunId) -> mainspring_store::Result<()> {
        if !is_within_unit() {
            return self.store.proceed_run(self.now(), run).await;
        }
        let client = self.clone();
        after_commit(move || {
            tokio::spawn(async move {
                if let Err(error) = client.store.proceed_run(client.now(), run).await {
                    tracing::debug!(%error, %run, "making a big run; the leader goes on with it");
                }
                client.announce_work().await;
            });
        });
        Ok(())
    }
}

/// The scope of expressions before a run is stored. The id carries the time of the run; the trigger carries its nominal
/// time, if a schedule started it.
pub(crate) fn run_scope(id: RunId, trigger: Option<&Value>) -> Map<String, Value> {
    let mut scope = Map::new();
    scope.insert("id".into(), id.to_string().into());
    if let Some(timestamp) = id.get_timestamp() {
        let (seconds, nanos) = timestamp.to_unix();
        let created = rfc3339(seconds as i64 * 1_000_000 + i64::from(nanos) / 1_000);
        scope.insert("created_at".into(), created.clone().into());
        scope.insert("scheduled_for".into(), created.into());
    }
    if let Some(nominal) = trigger.and_then(|trigger| trigger.get("scheduled_for")) {
        scope.insert("scheduled_for".into(), nominal.clone());
    }
    scope
}
