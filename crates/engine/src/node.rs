//! A node: the loops that make one process take part.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::RunId;
use mainspring_core::state::RunState;
use mainspring_core::work::{Assignment, Completion, LogChunk, Workforce};
use mainspring_store::{Flavor, NewSession, RouteRow, TaskToken, Term};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::bus::MAX_LANES;
use crate::client::Client;
use crate::coordination::{Member, election};
use crate::desk::{self, DeskConfig, Messenger};
use crate::duties::claim_sweep::ClaimSweep;
use crate::duties::limit_reconciliation::LimitReconciliation;
use crate::duties::object_removal::ObjectRemoval;
use crate::duties::rate_windows::RateWindows;
use crate::duties::retention::Retention;
use crate::duties::run_expiry::RunExpiry;
use crate::duties::{leader_duty, lease_renewal, promotion, run_end_relay, sampling, session_reaper, unexecuted};
use crate::exchange::gatherer::Gatherer;
use crate::exchange::logs::LogBarrier;
use crate::exchange::session_inbox::{Served, SessionInbox};
use crate::exchange::{completions, lane, logs};
use crate::redis::{DispatchConfig, dispatch_feed, dispatch_reader, events_in, events_out, jobs_out};
use crate::remote::RemoteSessions;
use crate::schedule::staging::Pace;
use crate::schedule::status::TimekeepingStatus;
use crate::schedule::{backfills, clock_loop};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long draining waits until leadership is given up.
const RESIGNING: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct NodeConfig {
    pub name: String,
    pub hostname: String,
    /// Queues to serve; empty means all.
    pub queues: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub process_slots: usize,
    pub function_slots: usize,
    pub lanes: usize,
    pub heartbeat: Duration,
    pub lease_ttl: Duration,
    /// Ended runs are forgotten after this long; `None` keeps them.
    pub retention: Option<Duration>,
    /// The retention of a namespace, or of a workflow as `NAMESPACE/NAME`, instead of the general one.
    pub retention_rules: BTreeMap<String, Duration>,
    /// Whether the pool also executes tasks for remote workers, with functions of the same names.
    pub serves_remote: bool,
    /// Whether this node may lead.
    pub leads: bool,
    /// The roles of this process, shown to operators.
    pub roles: Vec<String>,
    /// The address of its HTTP server, shown to operators.
    pub address: Option<String>,
    /// The longest sleep of the loop that fires triggers.
    pub schedule_interval: Duration,
    /// How many fires one unit has when few are due.
    pub schedule_batch: usize,
    pub desk: DeskConfig,
    /// Sends notifications; without it they wait.
    pub messenger: Option<Arc<dyn Messenger>>,
    /// Shares of the slots when several namespaces have work; 1 unless named.
    pub namespace_weights: BTreeMap<String, u32>,
    /// Queues that streams of Redis dispatch. All nodes should agree; a node that does not claims from the database
    /// alone.
    pub dispatch: DispatchConfig,
}

impl Default for NodeConfig {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            name: "node".into(),
            hostname: String::new(),
            queues: Vec::new(),
            labels: BTreeMap::new(),
            process_slots: cores * 4,
            function_slots: 1_000,
            lanes: 2,
            heartbeat: Duration::from_secs(1),
            lease_ttl: Duration::from_millis(3_500),
            retention: None,
            retention_rules: BTreeMap::new(),
            serves_remote: false,
            leads: true,
            roles: Vec::new(),
            address: None,
            schedule_interval: Duration::from_secs(1),
            schedule_batch: 100,
            desk: DeskConfig::default(),
            messenger: None,
            namespace_weights: BTreeMap::new(),
            dispatch: DispatchConfig::default(),
        }
    }
}

/// State that the loops of a node share.
pub(crate) struct Shared {
    pub(crate) id: Uuid,
    pub(crate) config: NodeConfig,
    pub(crate) client: Client,
    pub(crate) workforce: Arc<dyn Workforce>,
    pub(crate) gatherer: Mutex<Gatherer>,
    /// Workers in other processes that talk to this node.
    pub(crate) remote: RemoteSessions,
    pub(crate) stop: CancellationToken,
    pub(crate) ended_runs: broadcast::Sender<(RunId, RunState)>,
    /// Ended runs with task runs that perhaps were never executed, for metrics.
    pub(crate) unexecuted: mpsc::UnboundedSender<RunId>,
    pub(crate) next_due: Mutex<Option<i64>>,
    pub(crate) barrier: LogBarrier,
    /// The term under which this node leads, for the duties of the leader.
    pub(crate) term: watch::Sender<Option<Term>>,
    pub(crate) pace: Pace,
    /// Names of the queues by route, for metrics.
    pub(crate) queues: Mutex<HashMap<i32, Arc<str>>>,
    /// Cancelled when this node must give up leadership and not stand for election again.
    pub(crate) resign: CancellationToken,
    /// Cancelled when it has given up leadership.
    pub(crate) resigned: CancellationToken,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn gatherer(&self) -> MutexGuard<'_, Gatherer> {
        self.gatherer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads new routes.
    pub(crate) async fn refresh_routes(&self) -> mainspring_store::Result<()> {
        let routes: Vec<RouteRow> = self.client.store.routes().await?;
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for route in routes.iter().filter(|route| !queues.contains_key(&route.id)).collect::<Vec<_>>() {
            queues.insert(route.id, route.queue.as_str().into());
        }
        drop(queues);
        self.gatherer().learn_routes(&routes, Instant::now());
        Ok(())
    }

    /// Gives attempts to the workers whose sessions claimed them.
    pub(crate) fn assign(&self, mut assignments: Vec<Assignment>) {
        let own = self.gatherer().own();
        let mut away: BTreeMap<i64, Vec<Assignment>> = BTreeMap::new();
        for assignment in assignments.extract_if(.., |assignment| assignment.session != own) {
            away.entry(assignment.session).or_default().push(assignment);
        }
        for (session, mut assignments) in away {
            // A session that has left this node finds its claims in the database.
            let Some(session) = self.remote.get(session) else { continue };
            let gatherer = self.gatherer();
            assignments.retain(|assignment| gatherer.get(TaskToken::of(assignment)).is_some());
            session.assign(assignments);
        }
        self.workforce.assign(assignments);
    }

    /// Asks the worker that executes an attempt to stop it.
    pub(crate) fn cancel(&self, token: TaskToken, reason: &str) {
        match self.remote.get(token.session) {
            Some(session) => session.cancel(token.key, token.attempt, reason),
            None => self.workforce.cancel(token.key, token.attempt, reason),
        }
    }

    /// A row becomes due at that time; wakes the promotion loop for it.
    pub(crate) fn due_then(&self, due_at: i64) {
        self.wake_at(due_at);
        self.client.bus.signals().wake_promotion();
    }

    /// Like [`Shared::due_then`], for rows that the promotion loop found itself.
    pub(crate) fn wake_at(&self, due_at: i64) {
        let mut next = self.next_due.lock().unwrap_or_else(PoisonError::into_inner);
        *next = Some(next.map_or(due_at, |known| known.min(due_at)));
    }

    /// This process, as other processes see it.
    fn member(&self) -> Member {
        Member {
            node: self.id,
            name: self.config.name.clone(),
            address: self.config.address.clone(),
            roles: self.config.roles.clone(),
            version: VERSION.to_owned(),
            started_at: self.client.now(),
        }
    }

    pub(crate) fn new_session(&self) -> NewSession {
        new_session(&self.config, self.id)
    }
}

fn new_session(config: &NodeConfig, node: Uuid) -> NewSession {
    NewSession {
        node,
        worker: config.name.clone(),
        hostname: config.hostname.clone(),
        queues: config.queues.join(","),
        labels: config.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
        slots: i32::try_from(config.process_slots).unwrap_or(i32::MAX),
        function_slots: i32::try_from(config.function_slots).unwrap_or(i32::MAX),
        remote: false,
        version: VERSION.to_owned(),
    }
}

/// Starts the duties of the leader and the election.
fn start_leader_duties(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    tasks.spawn(election::run(Arc::clone(shared)));
    tasks.spawn(session_reaper::run(Arc::clone(shared)));
    tasks.spawn(clock_loop::run(Arc::clone(shared)));
    tasks.spawn(backfills::run(Arc::clone(shared)));
    tasks.spawn(run_end_relay::run(Arc::clone(shared)));
    tasks.spawn(leader_duty::run(Arc::clone(shared), RunExpiry));
    tasks.spawn(leader_duty::run(Arc::clone(shared), ClaimSweep));
    tasks.spawn(leader_duty::run(Arc::clone(shared), LimitReconciliation));
    tasks.spawn(leader_duty::run(Arc::clone(shared), RateWindows::default()));
    tasks.spawn(leader_duty::run(Arc::clone(shared), Retention::default()));
    tasks.spawn(leader_duty::run(Arc::clone(shared), ObjectRemoval));
}

/// Dispatch streams on every node that has them; streams of events and jobs where the node may lead.
fn start_redis_loops(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    let Some(redis) = &shared.client.redis else { return };
    let dispatches = !shared.config.dispatch.queues.is_empty();
    if dispatches {
        tasks.spawn(dispatch_reader::run(Arc::clone(shared), redis.clone()));
    }
    if !shared.config.leads {
        return;
    }
    if dispatches {
        tasks.spawn(dispatch_feed::run(Arc::clone(shared), redis.clone()));
    }
    tasks.spawn(events_in::run(Arc::clone(shared), redis.clone()));
    tasks.spawn(events_out::run(Arc::clone(shared), redis.clone()));
    tasks.spawn(jobs_out::run(Arc::clone(shared), redis.clone()));
}

/// The tasks that the node's own pool executes. Tasks for remote workers are included only if it stands in for them.
fn served(config: &NodeConfig) -> Served {
    Served {
        queues: config.queues.clone(),
        labels: config.labels.clone(),
        namespaces: None,
        classes: [true, true, config.serves_remote],
        remote_as_function: true,
    }
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

/// The state of a node for other parts of the process.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    shared: Arc<Shared>,
}

impl NodeHandle {
    pub fn id(&self) -> Uuid {
        self.shared.id
    }

    /// Ends of runs on this node. A slow receiver misses some and must read the store.
    pub fn ended_runs(&self) -> broadcast::Receiver<(RunId, RunState)> {
        self.shared.ended_runs.subscribe()
    }

    /// How the loop that fires triggers is doing.
    pub fn timekeeping(&self) -> TimekeepingStatus {
        self.shared.client.timekeeping()
    }

    /// How many attempts are being executed.
    pub fn held(&self) -> usize {
        self.shared.gatherer().held()
    }
}

#[boxed]
impl Node {
    /// Registers a session and starts the loops. `completions` and `logs` are what the workforce reports to.
    pub async fn start(
        client: Client,
        config: NodeConfig,
        workforce: Arc<dyn Workforce>,
        completions: mpsc::UnboundedReceiver<Completion>,
        logs: mpsc::Receiver<LogChunk>,
    ) -> mainspring_store::Result<Self> {
        let id = client.clock.new_id();
        if client.store.flavor() == Flavor::Sqlite {
            // The lock on the database file proves that sessions of earlier servers are over.
            client.store.bury_local_sessions(client.now(), id).await?;
        }
        let session = client.store.open_session(client.now(), &new_session(&config, id)).await?;
        let lanes = if client.store.flavor() == Flavor::Sqlite { 1 } else { config.lanes.clamp(1, MAX_LANES) };
        let pool = SessionInbox::own(served(&config), [config.process_slots as i32, config.function_slots as i32, 0]);
        let gatherer = Gatherer::new(session, lanes, pool, config.namespace_weights.clone());
        let (barrier, barriers) = LogBarrier::new();
        let (unexecuted, ended) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            id,
            config,
            client,
            workforce,
            gatherer: Mutex::new(gatherer),
            remote: RemoteSessions::default(),
            stop: CancellationToken::new(),
            ended_runs: broadcast::channel(4_096).0,
            unexecuted,
            next_due: Mutex::new(None),
            barrier,
            term: watch::Sender::new(None),
            pace: Pace::default(),
            queues: Mutex::default(),
            resign: CancellationToken::new(),
            resigned: CancellationToken::new(),
        });
        shared.client.set_node(&shared);
        shared.refresh_routes().await?;
        let mut tasks = JoinSet::new();
        for number in 0..lanes {
            tasks.spawn(lane::run(Arc::clone(&shared), number));
        }
        tasks.spawn(completions::run(Arc::clone(&shared), completions));
        tasks.spawn(logs::run(Arc::clone(&shared), logs, barriers));
        tasks.spawn(lease_renewal::run(Arc::clone(&shared)));
        tasks.spawn(promotion::run(Arc::clone(&shared)));
        tasks.spawn(sampling::run(Arc::clone(&shared)));
        tasks.spawn(unexecuted::run(Arc::clone(&shared), ended));
        shared.client.bus.send_in_background();
        shared.client.bus.listen();
        let coordinator = Arc::clone(&shared.client.coordinator);
        tasks.spawn(coordinator.keep_membership(shared.member(), shared.stop.clone()));
        start_redis_loops(&shared, &mut tasks);
        if shared.config.leads {
            start_leader_duties(&shared, &mut tasks);
            tasks.spawn(desk::duty::run(Arc::clone(&shared)));
            tasks.spawn(desk::notifying::run(Arc::clone(&shared)));
        }
        shared.client.bus.look_here();
        Ok(Self { shared, tasks })
    }

    pub fn handle(&self) -> NodeHandle {
        NodeHandle { shared: Arc::clone(&self.shared) }
    }

    /// Stops claiming and gives up leadership. Running attempts go on and are handed in.
    pub async fn drain(&self) {
        self.shared.gatherer().drain();
        if self.shared.config.leads {
            self.shared.resign.cancel();
            let _ = tokio::time::timeout(RESIGNING, self.shared.resigned.cancelled()).await;
        }
        let session = self.shared.gatherer().own();
        if let Err(error) = self.shared.client.store.drain_session(session).await {
            tracing::warn!(%error, "saying that this worker takes no more work");
        }
    }

    /// Ends the node. The workforce must have been shut down before, so that every attempt has reported; what was
    /// reported is handed in within `patience`, leadership and session are given up.
    pub async fn shutdown(mut self, patience: Duration) {
        self.shared.gatherer().drain();
        let deadline = Instant::now() + patience;
        while !self.shared.gatherer().is_idle() && Instant::now() < deadline {
            self.shared.client.bus.signals().wake_lanes();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.shared.stop.cancel();
        self.shared.client.bus.signals().wake_lanes();
        while self.tasks.join_next().await.is_some() {
            self.shared.client.bus.signals().wake_lanes();
        }
        let session = self.shared.gatherer().own();
        match self.shared.client.store.end_session(self.shared.client.now(), session).await {
            Ok(returned) => tracing::debug!(returned, "the session has ended"),
            Err(error) => tracing::warn!(%error, "ending the session; it will be found dead"),
        }
    }
}
