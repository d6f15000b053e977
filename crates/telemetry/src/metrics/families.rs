//! Every family of metrics: its name, help and labels.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// What attempts and runs take: fine below 100 ms, coarse above.
const DURATIONS: [f64; 13] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];
/// What should be over at once: dispatch, fires, requests, statements.
const LATENCIES: [f64; 13] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 60.0];
/// How long people take.
const AGES: [f64; 9] = [60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0];

macro_rules! labels {
    ($($name:ident { $($field:ident),+ })+) => {
        $(
            #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
            pub(super) struct $name { $(pub(super) $field: String),+ }

            impl $name {
                pub(super) fn new($($field: &str),+) -> Self {
                    Self { $($field: $field.to_owned()),+ }
                }
            }
        )+
    };
}

labels! {
    StatusType { status, task_type }
    Status { status }
    TypeError { task_type, error_type }
    Worker { worker_id }
    Queue { queue }
    Health { health_status }
    Loop { r#loop }
    Kind { kind }
    State { state }
    Operation { operation }
    Letter { dlq_reason, original_state }
    Reason { dlq_reason }
    ClosedLetter { resolution_status, dlq_reason }
    DryRun { dry_run }
    Stale { state, time_in_state_minutes }
    Failed { original_state, reason }
    Request { method, route, status }
}

pub(super) type Float = Gauge<f64, AtomicU64>;
pub(super) type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn durations() -> Histogram {
    Histogram::new(DURATIONS)
}

fn latencies() -> Histogram {
    Histogram::new(LATENCIES)
}

fn ages() -> Histogram {
    Histogram::new(AGES)
}

pub(super) struct Families {
    pub(super) tasks_processed: Family<StatusType, Counter>,
    pub(super) tasks: Family<Status, Counter>,
    pub(super) task_duration: Histograms<StatusType>,
    pub(super) task_errors: Family<TypeError, Counter>,
    pub(super) task_retries: Family<Worker, Counter>,
    pub(super) enqueued: Family<Queue, Counter>,
    pub(super) dequeued: Family<Queue, Counter>,
    pub(super) queue_depth: Family<Queue, Gauge>,
    pub(super) dispatch_latency: Histograms<Queue>,
    pub(super) schedule_lag: Histogram,
    pub(super) workflows: Family<Status, Counter>,
    pub(super) workflow_successes: Counter,
    pub(super) workflow_failures: Counter,
    pub(super) workflow_duration: Histograms<Status>,
    pub(super) active_workers: Gauge,
    pub(super) worker_utilization: Family<Worker, Float>,
    pub(super) worker_heartbeats: Family<Worker, Counter>,
    pub(super) worker_last_heartbeat: Family<Worker, Float>,
    pub(super) runs_by_health: Family<Health, Gauge>,
    pub(super) is_leader: Gauge,
    pub(super) leader_elections: Counter,
    pub(super) leader_epoch: Gauge,
    pub(super) iterations: Family<Loop, Counter>,
    pub(super) fenced_writes: Family<Kind, Counter>,
    pub(super) tasks_stolen: Counter,
    pub(super) db_connections: Family<State, Gauge>,
    pub(super) db_query_duration: Histograms<Operation>,
    pub(super) dlq_size: Gauge,
    pub(super) dlq_enqueued: Counter,
    pub(super) dlq_retried: Counter,
    pub(super) dlq_entries_created: Family<Letter, Counter>,
    pub(super) dlq_pending: Family<Reason, Gauge>,
    pub(super) dlq_time_in_queue: Histograms<ClosedLetter>,
    pub(super) staleness_runs: Family<DryRun, Counter>,
    pub(super) staleness_duration: Histograms<DryRun>,
    pub(super) stale_detected: Family<Stale, Counter>,
    pub(super) transitioned_to_error: Family<Failed, Counter>,
    pub(super) http_requests: Family<Request, Counter>,
    pub(super) http_duration: Histograms<Request>,
    pub(super) ws_connections: Gauge,
    pub(super) events_published: Counter,
    /// Workers of the last sample: those that are not in the next one are dropped.
    pub(super) sampled_workers: Mutex<Vec<String>>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self {
            tasks_processed: Family::default(),
            tasks: Family::default(),
            task_duration: Family::new_with_constructor(durations),
            task_errors: Family::default(),
            task_retries: Family::default(),
            enqueued: Family::default(),
            dequeued: Family::default(),
            queue_depth: Family::default(),
            dispatch_latency: Family::new_with_constructor(latencies),
            schedule_lag: latencies(),
            workflows: Family::default(),
            workflow_successes: Counter::default(),
            workflow_failures: Counter::default(),
            workflow_duration: Family::new_with_constructor(durations),
            active_workers: Gauge::default(),
            worker_utilization: Family::default(),
            worker_heartbeats: Family::default(),
            worker_last_heartbeat: Family::default(),
            runs_by_health: Family::default(),
            is_leader: Gauge::default(),
            leader_elections: Counter::default(),
            leader_epoch: Gauge::default(),
            iterations: Family::default(),
            fenced_writes: Family::default(),
            tasks_stolen: Counter::default(),
            db_connections: Family::default(),
            db_query_duration: Family::new_with_constructor(latencies),
            dlq_size: Gauge::default(),
            dlq_enqueued: Counter::default(),
            dlq_retried: Counter::default(),
            dlq_entries_created: Family::default(),
            dlq_pending: Family::default(),
            dlq_time_in_queue: Family::new_with_constructor(ages),
            staleness_runs: Family::default(),
            staleness_duration: Family::new_with_constructor(latencies),
            stale_detected: Family::default(),
            transitioned_to_error: Family::default(),
            http_requests: Family::default(),
            http_duration: Family::new_with_constructor(latencies),
            ws_connections: Gauge::default(),
            events_published: Counter::default(),
            sampled_workers: Mutex::default(),
        };
        families.add_execution(registry);
        families.add_control(registry);
        families.add_desk(registry);
        families.begin_at_zero();
        families
    }

    /// What seldom happens has its series from the start: a rate is seen from the first time on, and a panel that shows nothing
    /// means that nothing is scraped.
    fn begin_at_zero(&self) {
        for kind in ["result", "term"] {
            let _ = self.fenced_writes.get_or_create(&Kind::new(kind));
        }
        for dry_run in ["false", "true"] {
            let _ = self.staleness_runs.get_or_create(&DryRun::new(dry_run));
            let _ = self.staleness_duration.get_or_create(&DryRun::new(dry_run));
        }
    }

    fn add_execution(&self, registry: &mut Registry) {
        registry.register("tasks_processed", "Task runs that ended, by kind of task", self.tasks_processed.clone());
        registry.register("tasks", "Task runs that ended", self.tasks.clone());
        registry.register("task_duration_seconds", "How long attempts took", self.task_duration.clone());
        registry.register("task_errors", "Attempts that failed", self.task_errors.clone());
        registry.register("task_retries", "Failed attempts that will be repeated", self.task_retries.clone());
        registry.register("tasks_enqueued", "Task runs that became ready", self.enqueued.clone());
        registry.register("tasks_dequeued", "Task runs that were claimed", self.dequeued.clone());
        registry.register("queue_depth", "Task runs that are ready", self.queue_depth.clone());
        registry.register("dispatch_latency_seconds", "From ready to claimed", self.dispatch_latency.clone());
        registry.register("workflows", "Runs triggered (pending) and ended", self.workflows.clone());
        registry.register("workflow_successes", "Runs that succeeded", self.workflow_successes.clone());
        registry.register("workflow_failures", "Runs that failed", self.workflow_failures.clone());
        registry.register("workflow_duration_seconds", "How long runs took", self.workflow_duration.clone());
        registry.register("active_workers", "Workers that take tasks", self.active_workers.clone());
        registry.register("worker_utilization", "Share of the slots in use", self.worker_utilization.clone());
        registry.register("worker_heartbeats", "Renewals of the lease of a worker", self.worker_heartbeats.clone());
        let help = "When a worker was last heard from, in seconds since 1970";
        registry.register("worker_last_heartbeat_timestamp_seconds", help, self.worker_last_heartbeat.clone());
        registry.register("tasks_stolen", "Claims that moved to an idle worker", self.tasks_stolen.clone());
    }

    fn add_control(&self, registry: &mut Registry) {
        let help = "From the nominal time of a fire to its run";
        registry.register("schedule_lag_seconds", help, self.schedule_lag.clone());
        registry.register("is_leader", "1 if this node leads", self.is_leader.clone());
        registry.register("leader_elections", "Terms that this node has taken", self.leader_elections.clone());
        registry.register("leader_epoch", "Number of the term of this node", self.leader_epoch.clone());
        registry.register("iterations", "Passes of each loop", self.iterations.clone());
        registry.register("fenced_writes", "Writes under a stale token or term, refused", self.fenced_writes.clone());
        registry.register("db_connections", "Connections to the database", self.db_connections.clone());
        let help = "How long operations of the engine took in the database";
        registry.register("db_query_duration_seconds", help, self.db_query_duration.clone());
        registry.register("http_requests", "Requests that were answered", self.http_requests.clone());
        registry.register("http_request_duration_seconds", "How long answers took", self.http_duration.clone());
        registry.register("ws_connections", "Subscribers of live updates", self.ws_connections.clone());
        registry.register("events_published", "Live messages to subscribers", self.events_published.clone());
    }

    fn add_desk(&self, registry: &mut Registry) {
        registry.register("dlq_size", "Dead letters that are pending", self.dlq_size.clone());
        registry.register("dlq_enqueued", "Dead letters that were written", self.dlq_enqueued.clone());
        registry.register("dlq_retried", "Dead letters that were retried", self.dlq_retried.clone());
        let help = "Dead letters that were written, by reason and state";
        registry.register("dlq_entries_created", help, self.dlq_entries_created.clone());
        registry.register("dlq_pending_investigations", "Dead letters that are pending", self.dlq_pending.clone());
        let help = "From the entry of a dead letter to its resolution";
        registry.register("dlq_time_in_queue_seconds", help, self.dlq_time_in_queue.clone());
        registry.register("staleness_detection_runs", "Passes of the detector", self.staleness_runs.clone());
        let help = "How long a pass of the detector took";
        registry.register("staleness_detection_duration_seconds", help, self.staleness_duration.clone());
        registry.register("stale_tasks_detected", "Stale runs that were found", self.stale_detected.clone());
        let help = "Runs that the detector has failed";
        registry.register("tasks_transitioned_to_error", help, self.transitioned_to_error.clone());
        registry.register("runs_by_health", "Open runs by how close they are to stale", self.runs_by_health.clone());
    }
}
