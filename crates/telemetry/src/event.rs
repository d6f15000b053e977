//! The closed list of what is counted.

/// Something that happened once. Times are seconds.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A worker ended one attempt.
    AttemptEnded {
        task_type: &'static str,
        status: &'static str,
        seconds: f64,
        error_type: Option<&'a str>,
    },
    /// A task run is over.
    TaskEnded {
        task_type: &'static str,
        status: &'static str,
    },
    /// A failed attempt will be repeated.
    RetryScheduled {
        worker: &'a str,
    },
    /// Task runs became claimable.
    TasksReady {
        queue: &'a str,
        count: u64,
    },
    /// A worker took a task run; `waited` is how long after it became claimable.
    TaskClaimed {
        queue: &'a str,
        waited: f64,
    },
    /// Runs were created.
    RunsTriggered {
        count: u64,
    },
    RunEnded {
        status: &'static str,
        seconds: f64,
    },
    /// A schedule made its run; `lag` is how long after the nominal time.
    ScheduleFired {
        lag: f64,
    },
    /// A write under a stale token or term was refused.
    WriteFenced {
        kind: &'static str,
    },
    TasksStolen {
        count: u64,
    },
    WorkerBeat {
        worker: &'a str,
    },
    LeadershipTaken {
        epoch: i64,
    },
    LeadershipLost,
    /// A loop finished one pass.
    LoopPassed {
        name: &'static str,
    },
    StoreCalled {
        operation: &'static str,
        seconds: f64,
    },
    DeadLettersCreated {
        reason: &'a str,
        original_state: &'a str,
        count: u64,
    },
    /// An entry left `pending` by an action or an update; `seconds` is how long after it was written.
    DeadLetterClosed {
        reason: &'a str,
        resolution: &'a str,
        seconds: f64,
    },
    StalenessDetectionRan {
        dry_run: bool,
        seconds: f64,
    },
    /// The detector found a stale run.
    RunStale {
        phase: &'a str,
        minutes: f64,
    },
    /// The detector failed a run.
    RunFailedByDetector {
        phase: &'a str,
        reason: &'a str,
    },
    RequestAnswered {
        method: &'a str,
        route: &'a str,
        status: u16,
        seconds: f64,
    },
    SubscriberJoined,
    SubscriberLeft,
    /// Live messages handed to subscribers.
    MessagesPublished {
        count: u64,
    },
}

/// What the leader reads from the store now and then.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub queues: Vec<QueueDepth>,
    pub workers: Vec<WorkerSample>,
    pub pending_dead_letters: Vec<(String, u64)>,
    /// Open runs that are healthy, close to stale, and stale.
    pub runs_by_health: (u64, u64, u64),
}

#[derive(Debug, Clone)]
pub struct QueueDepth {
    pub queue: String,
    pub ready: u64,
}

#[derive(Debug, Clone)]
pub struct WorkerSample {
    pub id: String,
    pub active: bool,
    /// Share of the slots in use, 0 to 1.
    pub utilization: f64,
    /// Seconds since 1970.
    pub last_heartbeat: f64,
}
