//! What can be asked of the store from anywhere: submit, cancel, pause, resume, do again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::time::rfc3339;
use mainspring_core::work::{BundleFile, Clock, Failure};
use mainspring_core::workflow::Overlap;
use mainspring_core::{Diagnostics, Micros, RunId, Scope, TaskError, TaskView, Workflow};
use mainspring_store::{
    CancelOutcome, CauseBudget, Created, Edition, Lineage, NewRun, Operator, Reopen, ReopenRequest, Reopened, Store,
    after_commit, is_within_unit,
};
use mainspring_telemetry::{Metrics, Tracer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::access::quotas::KnownQuotas;
use crate::access::secrets::Secrets;
use crate::bus::{AccessChange, AccessChanges, Bus, BusMessage, ClaimableRoutes};
use crate::clock::SystemClock;
use crate::coordination::database::DatabaseCoordinator;
use crate::coordination::etcd::EtcdCoordinator;
use crate::coordination::{CoordinationError, CoordinationHealth, Coordinator, EtcdSettings, LockGuard};
use crate::exchange::parked::chain_of;
use crate::health::HealthCache;
use crate::limits::{LimitName, Limits};
use crate::live::{Hints, Live};
use crate::metering;
use crate::node::Shared;
use crate::redis::wake::RedisWake;
use crate::redis::{Redis, RedisSettings};
use crate::remote::WorkerGate;
use crate::schedule::status::{Timekeeping, TimekeepingStatus};
use crate::spans::{self, RunTraces};
use crate::specs::{Spec, Specs};
use crate::submitter::{Leaves, Newness, Submitter};

/// The request for a run.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    pub inputs: Map<String, Value>,
    pub priority: Option<i16>,
    pub correlation_id: Option<String>,
    pub idempotency_key: Option<String>,
    /// What started it, as JSON.
    pub trigger: Option<Value>,
    /// What happens when its concurrency limit is used up; that of the workflow unless given.
    pub overlap: Option<Overlap>,
    /// The time of day at which it begins, if that is to come.
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
    /// Later there may be room.
    #[error("{0}")]
    Quota(String),
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
}

/// A handle on the store with a clock, a cache of versions, and the bus to the node in the same process and to others.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) store: Store,
    pub(crate) clock: Arc<SystemClock>,
    pub(crate) specs: Arc<Specs>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) bus: Bus,
    pub(crate) submitter: Arc<Submitter>,
    pub(crate) secrets: Secrets,
    /// What is known of the loop that fires triggers, if it runs in this process.
    pub(crate) timekeeping: Arc<Timekeeping>,
    /// Functions that this process can execute.
    pub(crate) handlers: Arc<[String]>,
    /// No trigger may fire more often.
    pub(crate) minimum_interval: Option<Duration>,
    /// What events may start for one cause.
    pub(crate) budget: CauseBudget,
    pub(crate) live: Live,
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) redis: Option<Redis>,
    pub(crate) quotas: Arc<KnownQuotas>,
    pub(crate) metrics: Metrics,
    pub(crate) tracer: Tracer,
    pub(crate) traces: Arc<RunTraces>,
    pub(crate) health: Arc<HealthCache>,
    /// The node in the same process, for workers that register with it.
    node: Arc<Mutex<Weak<Shared>>>,
}

/// Where something is claimable is seldom known where it happens.
pub(crate) const ANY_WORK: BusMessage = BusMessage::Claimable(ClaimableRoutes::Any);

/// Which workflows a run was started by, the first first.
#[derive(Debug, Clone)]
pub(crate) struct Ancestry {
    pub(crate) chain: Vec<String>,
    /// How many runs led to it, each started by an event or by the end of another.
    pub(crate) depth: i32,
    /// What is at the beginning of them.
    pub(crate) cause: Uuid,
}

impl Client {
    pub fn new(store: Store, clock: Arc<SystemClock>) -> Self {
        let specs = Arc::new(Specs::new(store.clone()));
        let limits = Arc::new(Limits::new(store.clone()));
        let hints: Arc<Hints> = Arc::default();
        let bus = Bus::new(&store, Arc::clone(&hints));
        let coordinator = Arc::new(DatabaseCoordinator::new(store.clone(), Arc::clone(&clock)));
        let live = Live::new(store.clone(), Arc::clone(&specs), Arc::clone(&clock), hints, bus.clone());
        Self {
            store,
            clock,
            specs,
            limits,
            bus,
            submitter: Arc::default(),
            secrets: Secrets::default(),
            timekeeping: Arc::default(),
            minimum_interval: None,
            budget: CauseBudget::default(),
            handlers: Arc::default(),
            live,
            coordinator,
            redis: None,
            quotas: Arc::default(),
            metrics: Metrics::default(),
            tracer: Tracer::default(),
            traces: Arc::default(),
            health: Arc::default(),
            node: Arc::default(),
        }
    }

    /// The same with the secrets that tasks of this process may see.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// The same, letting events start so many runs and jobs for one cause.
    #[must_use]
    pub fn with_event_budget(mut self, most: i64) -> Self {
        self.budget.most = most;
        self
    }

    /// The same, refusing workflows with a trigger that fires more often.
    #[must_use]
    pub fn with_minimum_interval(mut self, interval: Option<Duration>) -> Self {
        self.minimum_interval = interval;
        self
    }

    /// The same, coordinated by etcd beside the database. Settings that cannot work are refused; an etcd that is away is not.
    pub async fn with_etcd(mut self, settings: &EtcdSettings) -> Result<Self, CoordinationError> {
        let database = Arc::new(DatabaseCoordinator::new(self.store.clone(), Arc::clone(&self.clock)));
        let etcd = Arc::new(EtcdCoordinator::new(settings, database)?);
        match etcd.check().await {
            Ok(()) | Err(CoordinationError::Unreachable(_)) => {}
            Err(error) => return Err(error),
        }
        self.coordinator = etcd;
        Ok(self)
    }

    /// The same with Redis beside the database. It is not asked anything yet: one that is away may come.
    #[must_use]
    pub fn with_redis(mut self, settings: &RedisSettings) -> Self {
        let redis = Redis { settings: settings.clone(), status: Arc::default() };
        self.bus.prefer(Arc::new(RedisWake::new(redis.settings.clone(), Arc::clone(&redis.status))));
        self.redis = Some(redis);
        self
    }

    /// How Redis is doing; `None` if there is none.
    pub fn redis_health(&self) -> Option<CoordinationHealth> {
        let cause = self.redis.as_ref()?.status.cause();
        Some(cause.map_or(CoordinationHealth::Healthy, CoordinationHealth::Degraded))
    }

    /// What coordinates the nodes: `database` or `etcd`.
    pub fn coordination(&self) -> &'static str {
        self.coordinator.kind()
    }

    pub fn coordination_health(&self) -> CoordinationHealth {
        self.coordinator.health()
    }

    /// The members that etcd has a live lease of; `None` without etcd, or when it cannot say.
    pub fn members_present(&self) -> Option<Vec<uuid::Uuid>> {
        self.coordinator.present()
    }

    /// Waits for a named lock. `ttl` is how long it outlives a holder that fell silent.
    pub async fn lock(&self, name: &str, ttl: Duration) -> Result<LockGuard, CoordinationError> {
        self.coordinator.lock(name, ttl).await
    }

    /// The same in the database, whatever coordinates: for what happens before all nodes are configured alike.
    pub async fn lock_in_database(&self, name: &str, ttl: Duration) -> Result<LockGuard, CoordinationError> {
        DatabaseCoordinator::new(self.store.clone(), Arc::clone(&self.clock)).lock(name, ttl).await
    }

    pub(crate) fn set_node(&self, node: &Arc<Shared>) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(node);
    }

    /// The node in the same process, if there is one.
    pub(crate) fn local_node(&self) -> Option<Arc<Shared>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// Where remote workers enter, if a node runs in this process.
    pub fn workers(&self) -> Option<WorkerGate> {
        self.local_node().map(|shared| WorkerGate { shared })
    }

    /// Something may be claimable, here and for others.
    pub(crate) fn something_claimable(&self) {
        self.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
    }

    /// What can be followed while it happens.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The same, knowing the names of the functions that this process can execute.
    #[must_use]
    pub fn with_handlers(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.handlers = names.into_iter().collect();
        self
    }

    pub fn handler_names(&self) -> &[String] {
        &self.handlers
    }

    /// The same, reporting to these metrics.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// The same, sending spans.
    #[must_use]
    pub fn with_tracer(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }

    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// What operators watch of this process.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// How the loop that fires triggers is doing in this process.
    pub fn timekeeping(&self) -> TimekeepingStatus {
        self.timekeeping.status()
    }

    /// The value of a secret, for what this process itself checks by it.
    pub async fn secret(&self, namespace: &str, name: &str) -> mainspring_store::Result<Option<String>> {
        self.secrets.prepare(&self.store, namespace, &[name]).await?;
        Ok(self.secrets.reveal(namespace, name))
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Arc<SystemClock> {
        &self.clock
    }

    pub fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Stores a workflow; the same content again is the same version.
    pub async fn put_workflow(&self, workflow: Workflow, source: &str) -> mainspring_store::Result<Arc<Spec>> {
        self.put_workflow_with_files(workflow, source, &[]).await
    }

    /// The same with the files that its tasks find beside them.
    pub async fn put_workflow_with_files(
        &self,
        workflow: Workflow,
        source: &str,
        files: &[BundleFile],
    ) -> mainspring_store::Result<Arc<Spec>> {
        self.put_workflow_over(workflow, source, files, None).await
    }

    /// The same, but only over this edition of the workflow; `Some(None)` if there must be none yet.
    pub async fn put_workflow_over(
        &self,
        workflow: Workflow,
        source: &str,
        files: &[BundleFile],
        expected: Option<Option<Edition>>,
    ) -> mainspring_store::Result<Arc<Spec>> {
        self.check_workflow_quota(&workflow).await?;
        self.check_intervals(&workflow)?;
        let has_triggers = !workflow.triggers.is_empty();
        // Schedules go by the time of day.
        let (now, id) = (self.clock.wall(), self.clock.new_id());
        let version = self.store.put_version_over(now, id, &workflow, source, files, expected).await?;
        self.bus.publish(BusMessage::RoutesChanged);
        if has_triggers {
            self.schedules_changed().await;
        }
        Ok(match self.specs.cached(version.id) {
            Some(spec) => spec,
            None => self.specs.keep(Spec::new(version, workflow)),
        })
    }

    /// The newest version of a workflow.
    pub async fn latest(&self, namespace: &str, name: &str) -> mainspring_store::Result<Arc<Spec>> {
        let (version, workflow) = self.store.latest_version(namespace, name).await?;
        Ok(match self.specs.cached(version.id) {
            Some(spec) => spec,
            None => self.specs.keep(Spec::new(version, workflow)),
        })
    }

    pub async fn spec(&self, version: i64) -> mainspring_store::Result<Arc<Spec>> {
        self.specs.get(version).await
    }

    pub async fn submit(&self, spec: &Spec, submission: Submission) -> Result<Created, SubmitError> {
        let created = self.submit_many(spec, vec![submission]).await?;
        Ok(created[0])
    }

    /// Makes runs of one version, all of them or none.
    pub async fn submit_many(&self, spec: &Spec, submissions: Vec<Submission>) -> Result<Vec<Created>, SubmitError> {
        self.check_run_quota(&spec.workflow.namespace, submissions.len()).await?;
        let mut runs = Vec::with_capacity(submissions.len());
        for submission in submissions {
            runs.push(self.prepare(spec, submission).await?);
        }
        self.create(&runs).await
    }

    /// A run as it would be made, with its inputs checked, within the quota of its namespace.
    pub async fn prepare_run(&self, spec: &Spec, submission: Submission) -> Result<NewRun, SubmitError> {
        self.prepare(spec, submission).await
    }

    async fn check_run_quota(&self, namespace: &str, more: usize) -> Result<(), SubmitError> {
        match self.over_quota(namespace, more).await? {
            Some(cause) => Err(SubmitError::Quota(cause)),
            None => Ok(()),
        }
    }

    /// Whether a run may be made together with those of others: nothing about it is decided by the database, and its
    /// namespace has no quota to be counted against.
    pub async fn gathers(&self, run: &NewRun) -> mainspring_store::Result<bool> {
        Ok(run.is_plain() && self.quotas_of(&run.version.namespace).await?.max_open_runs.is_none())
    }

    /// Makes runs, those of each namespace counted against its quota; what became of them, in order.
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

    /// Makes prepared runs, all of them or none. A single plain one gathers with those of others.
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

    /// Counts runs that were made, once they are.
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

    /// The same for a run whose id is settled.
    pub(crate) async fn prepare_as(
        &self,
        id: RunId,
        spec: &Spec,
        submission: Submission,
    ) -> Result<NewRun, SubmitError> {
        // Whatever starts a run: a request, an event, a schedule, a job or another run.
        self.check_run_quota(&spec.workflow.namespace, 1).await?;
        for (what, text) in
            [("correlation id", &submission.correlation_id), ("idempotency key", &submission.idempotency_key)]
        {
            if text.as_ref().is_some_and(|text| text.contains('\0')) {
                return Err(SubmitError::Nul(what));
            }
        }
        let workflow = &spec.workflow;
        let plain = workflow.inputs.is_empty() && submission.inputs.is_empty() && workflow.concurrency.is_none();
        let (inputs, limit) = if plain {
            (None, None)
        } else {
            let run = run_scope(id, submission.trigger.as_ref());
            let mut scope = Scope { run, workflow: spec.workflow_scope(), ..Scope::default() };
            scope.inputs = workflow.resolve_inputs(submission.inputs, &scope).map_err(SubmitError::Inputs)?;
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
            let inputs = (!scope.inputs.is_empty()).then(|| Value::Object(scope.inputs).to_string());
            (inputs, limit)
        };
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

    /// `overlap: cancel_running`: those that hold the limit make room for a newcomer that waits for it.
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

    pub async fn cancel(&self, run: RunId, operator: &Operator) -> mainspring_store::Result<CancelOutcome> {
        let outcome = self.repeat(|| self.store.cancel_run(self.now(), self.clock.new_id(), run, operator)).await?;
        let sessions = Vec::new();
        self.announce([BusMessage::RunsChanged(vec![run]), BusMessage::CancelRequested(sessions), ANY_WORK]).await;
        Ok(outcome)
    }

    pub async fn pause(&self, run: RunId, operator: &Operator) -> mainspring_store::Result<()> {
        self.repeat(|| self.store.pause_run(self.now(), self.clock.new_id(), run, operator)).await?;
        self.announce([BusMessage::RunsChanged(vec![run])]).await;
        Ok(())
    }

    pub async fn resume(&self, run: RunId, operator: &Operator) -> mainspring_store::Result<()> {
        self.repeat(|| self.store.resume_run(self.now(), self.clock.new_id(), run, operator)).await?;
        self.announce([BusMessage::RunsChanged(vec![run]), ANY_WORK]).await;
        Ok(())
    }

    /// The same with some inputs changed, for everything that is done from now on. What they were, and became, is kept with
    /// the action.
    pub async fn reopen_with(
        &self,
        run: RunId,
        what: &Reopen,
        changed: Map<String, Value>,
        operator: &Operator,
    ) -> Result<Reopened, SubmitError> {
        let row = self.store.run(run).await?;
        let spec = self.specs.get(row.summary.version).await?;
        let before = match row.inputs {
            Some(Value::Object(inputs)) => inputs,
            _ => Map::new(),
        };
        let mut given = before.clone();
        given.extend(changed.clone());
        let scope =
            Scope { run: run_scope(run, row.trigger.as_ref()), workflow: spec.workflow_scope(), ..Scope::default() };
        let inputs = spec.workflow.resolve_inputs(given, &scope).map_err(SubmitError::Inputs)?;
        let noted = operator.metadata.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let was: Map<String, Value> =
            changed.keys().filter_map(|key| Some((key.clone(), before.get(key)?.clone()))).collect();
        let metadata = serde_json::json!({"metadata": noted, "inputs_before": was, "inputs_changed": changed});
        let operator = Operator { metadata: Some(metadata.to_string()), ..operator.clone() };
        let inputs = Value::Object(inputs).to_string();
        let unit = || {
            let (action, workflow, what) = (self.clock.new_id(), &spec.workflow, what.clone());
            let request =
                ReopenRequest { action, run, workflow, what, inputs: Some(inputs.clone()), letters: Vec::new() };
            self.store.reopen_one(self.now(), request, &operator)
        };
        let reopened = self.repeat(unit).await?;
        self.announce([BusMessage::RunsChanged(vec![run]), ANY_WORK]).await;
        Ok(reopened)
    }

    /// Does failed work, or the work from given tasks on, again in the same run.
    pub async fn reopen(&self, run: RunId, what: &Reopen, operator: &Operator) -> mainspring_store::Result<Reopened> {
        let version = self.store.run_summary(run).await?.version;
        let spec = self.specs.get(version).await?;
        let reopened = self
            .repeat(|| self.store.reopen_run(self.now(), self.clock.new_id(), run, &spec.workflow, what, operator))
            .await?;
        self.announce([BusMessage::RunsChanged(vec![run]), ANY_WORK]).await;
        Ok(reopened)
    }

    /// Which workflows led to this run.
    pub(crate) async fn ancestry(&self, run: RunId) -> mainspring_store::Result<Ancestry> {
        let Lineage { depth, cause } = self.store.lineage(run).await?;
        let chain = chain_of(self.store.run(run).await?.trigger.as_ref());
        Ok(Ancestry { chain, depth, cause })
    }

    /// The outputs of an ended run, as its workflow declares them.
    pub async fn outputs(&self, run: RunId) -> mainspring_store::Result<Result<Map<String, Value>, Failure>> {
        let row = self.store.run(run).await?;
        let spec = self.specs.get(row.summary.version).await?;
        let workflow = &spec.workflow;
        if workflow.outputs.is_empty() {
            return Ok(Ok(Map::new()));
        }
        let mut scope =
            Scope { run: run_scope(run, row.trigger.as_ref()), workflow: spec.workflow_scope(), ..Scope::default() };
        if let Some(Value::Object(inputs)) = row.inputs {
            scope.inputs = inputs;
        }
        for task in self.store.ended_tasks(run, &workflow.output_reads.tasks).await? {
            if task.key.item < 0 {
                let name = workflow.tasks[task.key.index as usize].name.clone();
                let error = (task.state == TaskState::Failed).then(|| TaskError {
                    kind: task.error_kind.clone().unwrap_or_default(),
                    message: task.error.clone().unwrap_or_default(),
                    attempt: task.attempt,
                });
                let view = TaskView { status: task.state, attempts: task.attempt, output: task.output, error };
                scope.tasks.insert(name, view);
            }
        }
        Ok(workflow.workflow_outputs(&scope))
    }

    /// Changes how many task runs of a pool may go on at once. Those that a larger pool lets in are claimed at once.
    pub async fn set_pool(&self, namespace: &str, name: &str, slots: Option<i32>) -> mainspring_store::Result<()> {
        self.store.set_pool(self.now(), namespace, name, slots).await?;
        self.announce([BusMessage::Claimable(ClaimableRoutes::Any)]).await;
        Ok(())
    }

    /// Sends what happens to other processes from a loop of its own from now on, so that callers do not wait for it. For
    /// processes that go on; one that ends right after its call sends within the call.
    pub fn announce_in_background(&self) {
        self.bus.send_in_background();
    }

    /// Says what happened, to this process and to others.
    pub(crate) async fn announce<const N: usize>(&self, messages: [BusMessage; N]) {
        for message in messages {
            self.bus.publish(message);
        }
        self.bus.flush().await;
    }

    /// Sends what was said within the unit of a request, after its commit.
    pub async fn committed(&self) {
        self.bus.flush().await;
    }

    /// Makes the rest of a big run, after the commit of the request that wanted it.
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

    /// Task runs may have become claimable somewhere.
    pub(crate) async fn announce_work(&self) {
        self.announce([ANY_WORK]).await;
    }

    /// Tokens, roles, workflows, quotas or secrets were changed: every process drops what it keeps of them.
    pub async fn access_changed(&self, change: AccessChange) {
        self.announce([BusMessage::AccessChanged(change)]).await;
    }

    /// Changes of access data, of this process and of others, for caches. A receiver that lagged drops its whole cache; so
    /// does one now and then anyway, for messages may be lost.
    pub fn access_changes(&self) -> AccessChanges {
        self.bus.access_changes()
    }

    /// Repeats a unit that the database asked to repeat; nothing of it was applied.
    pub(crate) async fn repeat<T, F>(&self, mut unit: impl FnMut() -> F) -> mainspring_store::Result<T>
    where
        F: Future<Output = mainspring_store::Result<T>>,
    {
        for _ in 0..20 {
            match unit().await {
                Err(mainspring_store::Error::Repeat(error)) => tracing::debug!(%error, "repeating a unit"),
                other => return other,
            }
        }
        unit().await
    }
}

/// What expressions see of a run before anything of it is stored. Its id carries its time; what started it says for when
/// it was meant, if it was not a person.
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
