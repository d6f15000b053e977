//! The handle through which a process works with the store: every write of a use case goes through it.

mod operate;
mod options;
mod submission;
mod workflows;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_core::Micros;
use mainspring_core::work::Clock;
use mainspring_store::{CauseBudget, Store};
use mainspring_telemetry::{Metrics, Tracer};

use crate::access::quotas::KnownQuotas;
use crate::access::secrets::Secrets;
use crate::artifacts::Artifacts;
use crate::bus::{AccessChange, AccessChanges, Bus, BusMessage, ClaimableRoutes};
use crate::clock::SystemClock;
use crate::coordination::database::DatabaseCoordinator;
use crate::coordination::{CoordinationError, CoordinationHealth, Coordinator, LockGuard};
use crate::health::HealthCache;
use crate::limits::Limits;
use crate::live::{Hints, Live};
use crate::node::Shared;
use crate::redis::Redis;
use crate::remote::WorkerGate;
use crate::schedule::status::{Timekeeping, TimekeepingStatus};
use crate::spans::RunTraces;
use crate::specs::Specs;
use crate::submitter::Submitter;

pub(crate) use submission::run_scope;
pub use submission::{Submission, SubmitError};
pub use workflows::DeleteWorkflowError;

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
    /// Where files of tasks are kept.
    pub(crate) artifacts: Arc<Artifacts>,
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

#[boxed]
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
            artifacts: Arc::default(),
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

    pub fn handler_names(&self) -> &[String] {
        &self.handlers
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
