//! The handle through which a process works with the store. Every write of a use case goes through it.

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
    /// The status of the clock loop, if it runs in this process.
    pub(crate) timekeeping: Arc<Timekeeping>,
    /// Functions that this process can execute.
    pub(crate) handlers: Arc<[String]>,
    /// The shortest allowed interval between two fires of a trigger.
    pub(crate) minimum_interval: Option<Duration>,
    /// How many runs and jobs events may start for one cause.
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

/// Published where the caller does not know which routes became claimable.
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

    /// The health of Redis; `None` without Redis.
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

    /// Members with a live lease in etcd; `None` without etcd, or when it cannot tell.
    pub fn members_present(&self) -> Option<Vec<uuid::Uuid>> {
        self.coordinator.present()
    }

    /// Waits for a named lock. `ttl` is how long the lock outlives a silent holder.
    pub async fn lock(&self, name: &str, ttl: Duration) -> Result<LockGuard, CoordinationError> {
        self.coordinator.lock(name, ttl).await
    }

    /// Waits for a lock in the database, whichever coordinator is configured, for work that precedes the common
    /// configuration of all nodes.
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

    /// The registration of remote workers, if a node runs in this process.
    pub fn workers(&self) -> Option<WorkerGate> {
        self.local_node().map(|shared| WorkerGate { shared })
    }

    /// Publishes that any route may have become claimable.
    pub(crate) fn something_claimable(&self) {
        self.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
    }

    /// Live updates.
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

    /// The status of the clock loop in this process.
    pub fn timekeeping(&self) -> TimekeepingStatus {
        self.timekeeping.status()
    }

    /// A secret, for checks that this process makes itself.
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

    /// Sends messages to other processes from a background loop from now on, so that callers do not wait. For
    /// long-lived processes; a process that ends right after its call sends within the call.
    pub fn announce_in_background(&self) {
        self.bus.send_in_background();
    }

    /// Publishes messages to this process and to others, and waits until they are sent.
    pub(crate) async fn announce<const N: usize>(&self, messages: [BusMessage; N]) {
        for message in messages {
            self.bus.publish(message);
        }
        self.bus.flush().await;
    }

    /// Sends the messages that a request published within its unit, after the commit.
    pub async fn committed(&self) {
        self.bus.flush().await;
    }

    /// Task runs may have become claimable somewhere.
    pub(crate) async fn announce_work(&self) {
        self.announce([ANY_WORK]).await;
    }

    /// Publishes that tokens, roles, workflows, quotas or secrets were changed. Every process drops its caches of them.
    pub async fn access_changed(&self, change: AccessChange) {
        self.announce([BusMessage::AccessChanged(change)]).await;
    }

    /// Changes of access data, of this process and of others, for caches. A receiver that lagged must drop its whole
    /// cache; messages may be lost, so caches also expire.
    pub fn access_changes(&self) -> AccessChanges {
        self.bus.access_changes()
    }

    /// Repeats a unit when the database asks for it; nothing of the failed try was applied.
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
