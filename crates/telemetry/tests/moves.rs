//! One test per metric: it moves when it should.

use mainspring_telemetry::{Event, Metrics, QueueDepth, Sample, WorkerSample};

/// The value of a series, `None` if it is not there.
fn value(metrics: &Metrics, series: &str) -> Option<f64> {
    metrics.encode().lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

fn moves(events: &[Event<'_>], series: &str, to: f64) {
    let metrics = Metrics::default();
    let before = value(&metrics, series).unwrap_or(0.0);
    assert!(before != to, "{series} has its value before anything happens");
    events.iter().for_each(|event| metrics.record(*event));
    assert_eq!(value(&metrics, series), Some(to), "{series} in\n{}", metrics.encode());
}

fn sampled(series: &str, to: f64) {
    let metrics = Metrics::default();
    metrics.sampled(&Sample {
        queues: vec![QueueDepth { queue: "gpu".into(), ready: 7 }],
        workers: vec![WorkerSample { id: "w".into(), active: true, utilization: 0.5, last_heartbeat: 12.5 }],
        pending_dead_letters: vec![("manual_dlq".into(), 2), ("poison_pill".into(), 1)],
        runs_by_health: (3, 2, 1),
    });
    assert_eq!(value(&metrics, series), Some(to), "{series} in\n{}", metrics.encode());
}

const ATTEMPT: Event<'_> =
    Event::AttemptEnded { task_type: "run", status: "failed", seconds: 0.2, error_type: Some("exit") };
const TASK: Event<'_> = Event::TaskEnded { task_type: "run", status: "success" };
const CLAIM: Event<'_> = Event::TaskClaimed { queue: "gpu", waited: 0.03 };
const SUCCESS: Event<'_> = Event::RunEnded { status: "success", seconds: 2.0 };
const LETTER: Event<'_> = Event::DeadLettersCreated { reason: "poison_pill", original_state: "running", count: 2 };
const CLOSED: Event<'_> = Event::DeadLetterClosed { reason: "manual_dlq", resolution: "retried", seconds: 100.0 };
const DETECTED: Event<'_> = Event::StalenessDetectionRan { dry_run: false, seconds: 0.5 };
const ANSWERED: Event<'_> = Event::RequestAnswered { method: "GET", route: "/x", status: 200, seconds: 0.02 };

macro_rules! events {
    ($($name:ident: [$($event:expr),+] => $series:literal $to:literal;)+) => {
        $(#[test] fn $name() { moves(&[$($event),+], $series, $to); })+
    };
}

macro_rules! gauges {
    ($($name:ident: $series:literal $to:literal;)+) => {
        $(#[test] fn $name() { sampled($series, $to); })+
    };
}

events! {
    tasks_processed_total: [TASK] => "scheduler_tasks_processed_total{status=\"success\",task_type=\"run\"}" 1.0;
    tasks_total: [TASK, TASK] => "scheduler_tasks_total{status=\"success\"}" 2.0;
    task_duration_seconds: [ATTEMPT] => "scheduler_task_duration_seconds_count{status=\"failed\",task_type=\"run\"}" 1.0;
    task_errors_total: [ATTEMPT] => "scheduler_task_errors_total{task_type=\"run\",error_type=\"exit\"}" 1.0;
    task_retries_total: [Event::RetryScheduled { worker: "w" }] => "scheduler_task_retries_total{worker_id=\"w\"}" 1.0;
    tasks_enqueued_total: [Event::TasksReady { queue: "gpu", count: 3 }] => "scheduler_tasks_enqueued_total{queue=\"gpu\"}" 3.0;
    tasks_dequeued_total: [CLAIM] => "scheduler_tasks_dequeued_total{queue=\"gpu\"}" 1.0;
    dispatch_latency_seconds: [CLAIM] => "scheduler_dispatch_latency_seconds_sum{queue=\"gpu\"}" 0.03;
    schedule_lag_seconds: [Event::ScheduleFired { lag: 0.01 }] => "scheduler_schedule_lag_seconds_count" 1.0;
    workflows_total: [Event::RunsTriggered { count: 4 }] => "scheduler_workflows_total{status=\"pending\"}" 4.0;
    workflow_successes_total: [SUCCESS] => "scheduler_workflow_successes_total" 1.0;
    workflow_failures_total: [Event::RunEnded { status: "failed", seconds: 1.0 }] => "scheduler_workflow_failures_total" 1.0;
    workflow_duration_seconds: [SUCCESS] => "scheduler_workflow_duration_seconds_sum{status=\"success\"}" 2.0;
    worker_heartbeats_total: [Event::WorkerBeat { worker: "w" }] => "scheduler_worker_heartbeats_total{worker_id=\"w\"}" 1.0;
    is_leader: [Event::LeadershipTaken { epoch: 5 }] => "scheduler_is_leader" 1.0;
    leader_elections_total: [Event::LeadershipTaken { epoch: 5 }] => "scheduler_leader_elections_total" 1.0;
    leader_epoch: [Event::LeadershipTaken { epoch: 5 }, Event::LeadershipLost] => "scheduler_leader_epoch" 5.0;
    iterations_total: [Event::LoopPassed { name: "exchange" }] => "scheduler_iterations_total{loop=\"exchange\"}" 1.0;
    fenced_writes_total: [Event::WriteFenced { kind: "result" }] => "scheduler_fenced_writes_total{kind=\"result\"}" 1.0;
    tasks_stolen_total: [Event::TasksStolen { count: 2 }] => "scheduler_tasks_stolen_total" 2.0;
    db_query_duration_seconds: [Event::StoreCalled { operation: "exchange", seconds: 0.5 }] => "scheduler_db_query_duration_seconds_sum{operation=\"exchange\"}" 0.5;
    dlq_enqueued_total: [LETTER] => "scheduler_dlq_enqueued_total" 2.0;
    dlq_retried_total: [CLOSED] => "scheduler_dlq_retried_total" 1.0;
    dlq_entries_created_total: [LETTER] => "scheduler_dlq_entries_created_total{dlq_reason=\"poison_pill\",original_state=\"running\"}" 2.0;
    dlq_time_in_queue_seconds: [CLOSED] => "scheduler_dlq_time_in_queue_seconds_sum{resolution_status=\"retried\",dlq_reason=\"manual_dlq\"}" 100.0;
    staleness_detection_runs_total: [DETECTED] => "scheduler_staleness_detection_runs_total{dry_run=\"false\"}" 1.0;
    staleness_detection_duration_seconds: [DETECTED] => "scheduler_staleness_detection_duration_seconds_sum{dry_run=\"false\"}" 0.5;
    stale_tasks_detected_total: [Event::RunStale { phase: "waiting_for_retry", minutes: 130.0 }] => "scheduler_stale_tasks_detected_total{state=\"waiting_for_retry\",time_in_state_minutes=\"120-360\"}" 1.0;
    tasks_transitioned_to_error_total: [Event::RunFailedByDetector { phase: "steps_in_process", reason: "staleness_timeout" }] => "scheduler_tasks_transitioned_to_error_total{original_state=\"steps_in_process\",reason=\"staleness_timeout\"}" 1.0;
    http_requests_total: [ANSWERED] => "scheduler_http_requests_total{method=\"GET\",route=\"/x\",status=\"200\"}" 1.0;
    http_request_duration_seconds: [ANSWERED] => "scheduler_http_request_duration_seconds_sum{method=\"GET\",route=\"/x\",status=\"200\"}" 0.02;
    ws_connections: [Event::SubscriberJoined, Event::SubscriberJoined, Event::SubscriberLeft] => "scheduler_ws_connections" 1.0;
    events_published_total: [Event::MessagesPublished { count: 6 }] => "scheduler_events_published_total" 6.0;
}

gauges! {
    queue_depth: "scheduler_queue_depth{queue=\"gpu\"}" 7.0;
    active_workers: "scheduler_active_workers" 1.0;
    worker_utilization: "scheduler_worker_utilization{worker_id=\"w\"}" 0.5;
    worker_last_heartbeat_timestamp_seconds: "scheduler_worker_last_heartbeat_timestamp_seconds{worker_id=\"w\"}" 12.5;
    runs_by_health: "scheduler_runs_by_health{health_status=\"warning\"}" 2.0;
    dlq_size: "scheduler_dlq_size" 3.0;
    dlq_pending_investigations: "scheduler_dlq_pending_investigations{dlq_reason=\"manual_dlq\"}" 2.0;
}

#[test]
fn db_connections() {
    let metrics = Metrics::default();
    metrics.connections(3, 2);
    assert_eq!(value(&metrics, "scheduler_db_connections{state=\"in_use\"}"), Some(2.0));
}
