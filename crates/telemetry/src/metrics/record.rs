//! Which metrics an event moves.

use std::sync::PoisonError;

use super::Metrics;
use super::families::{
    ClosedLetter, DryRun, Failed, Health, Kind, Letter, Loop, Operation, Queue, Reason, Request, Stale, State, Status,
    StatusType, TypeError, Worker,
};
use crate::event::{Event, Sample};

impl Metrics {
    pub fn record(&self, event: Event<'_>) {
        if self.is_off {
            return;
        }
        let all = &*self.families;
        match event {
            Event::AttemptEnded { task_type, status, seconds, error_type } => {
                all.task_duration.get_or_create(&StatusType::new(status, task_type)).observe(seconds);
                if let Some(error_type) = error_type {
                    all.task_errors.get_or_create(&TypeError::new(task_type, error_type)).inc();
                }
            }
            Event::TaskEnded { task_type, status } => {
                all.tasks_processed.get_or_create(&StatusType::new(status, task_type)).inc();
                all.tasks.get_or_create(&Status::new(status)).inc();
            }
            Event::RetryScheduled { worker } => {
                all.task_retries.get_or_create(&Worker::new(worker)).inc();
            }
            Event::TasksReady { queue, count } => {
                all.enqueued.get_or_create(&Queue::new(queue)).inc_by(count);
            }
            Event::TaskClaimed { queue, waited } => {
                let queue = Queue::new(queue);
                all.dequeued.get_or_create(&queue).inc();
                all.dispatch_latency.get_or_create(&queue).observe(waited);
            }
            Event::RunsTriggered { count } => {
                all.workflows.get_or_create(&Status::new("pending")).inc_by(count);
            }
            Event::RunEnded { status, seconds } => {
                all.workflows.get_or_create(&Status::new(status)).inc();
                all.workflow_duration.get_or_create(&Status::new(status)).observe(seconds);
                match status {
                    "success" => all.workflow_successes.inc(),
                    "failed" => all.workflow_failures.inc(),
                    _ => 0,
                };
            }
            Event::WorkerBeat { worker } => {
                all.worker_heartbeats.get_or_create(&Worker::new(worker)).inc();
            }
            Event::TasksStolen { count } => {
                all.tasks_stolen.inc_by(count);
            }
            event => self.record_control(event),
        }
    }

    fn record_control(&self, event: Event<'_>) {
        let all = &*self.families;
        match event {
            Event::ScheduleFired { lag } => all.schedule_lag.observe(lag),
            Event::WriteFenced { kind } => {
                all.fenced_writes.get_or_create(&Kind::new(kind)).inc();
            }
            Event::LeadershipTaken { epoch } => {
                all.is_leader.set(1);
                all.leader_epoch.set(epoch);
                all.leader_elections.inc();
            }
            Event::LeadershipLost => {
                all.is_leader.set(0);
            }
            Event::LoopPassed { name } => {
                all.iterations.get_or_create(&Loop::new(name)).inc();
            }
            Event::StoreCalled { operation, seconds } => {
                all.db_query_duration.get_or_create(&Operation::new(operation)).observe(seconds);
            }
            Event::RequestAnswered { method, route, status, seconds } => {
                let request = Request::new(method, route, &status.to_string());
                all.http_requests.get_or_create(&request).inc();
                all.http_duration.get_or_create(&request).observe(seconds);
            }
            Event::SubscriberJoined => {
                all.ws_connections.inc();
            }
            Event::SubscriberLeft => {
                all.ws_connections.dec();
            }
            Event::MessagesPublished { count } => {
                all.events_published.inc_by(count);
            }
            event => self.record_desk(event),
        }
    }

    fn record_desk(&self, event: Event<'_>) {
        let all = &*self.families;
        match event {
            Event::DeadLettersCreated { reason, original_state, count } => {
                all.dlq_enqueued.inc_by(count);
                all.dlq_entries_created.get_or_create(&Letter::new(reason, original_state)).inc_by(count);
            }
            Event::DeadLetterClosed { reason, resolution, seconds } => {
                if resolution == "retried" {
                    all.dlq_retried.inc();
                }
                all.dlq_time_in_queue.get_or_create(&ClosedLetter::new(resolution, reason)).observe(seconds);
            }
            Event::StalenessDetectionRan { dry_run, seconds } => {
                let label = DryRun::new(if dry_run { "true" } else { "false" });
                all.staleness_runs.get_or_create(&label).inc();
                all.staleness_duration.get_or_create(&label).observe(seconds);
            }
            Event::RunStale { phase, minutes } => {
                let band = match minutes {
                    minutes if minutes > 360.0 => ">360",
                    minutes if minutes > 120.0 => "120-360",
                    _ => "60-120",
                };
                all.stale_detected.get_or_create(&Stale::new(phase, band)).inc();
            }
            Event::RunFailedByDetector { phase, reason } => {
                all.transitioned_to_error.get_or_create(&Failed::new(phase, reason)).inc();
            }
            _ => {}
        }
    }

    /// Sets the gauges over the store. Queues that emptied go to zero; workers that left disappear.
    pub fn sampled(&self, sample: &Sample) {
        let all = &*self.families;
        all.queue_depth.clear();
        for queue in &sample.queues {
            all.queue_depth.get_or_create(&Queue::new(&queue.queue)).set(count(queue.ready));
        }
        let active = sample.workers.iter().filter(|worker| worker.active).count();
        all.active_workers.set(count(active as u64));
        let mut known = all.sampled_workers.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in known.drain(..).filter(|id| sample.workers.iter().all(|worker| worker.id != *id)) {
            let label = Worker::new(&gone);
            all.worker_utilization.remove(&label);
            all.worker_last_heartbeat.remove(&label);
            all.worker_heartbeats.remove(&label);
            all.task_retries.remove(&label);
        }
        for worker in &sample.workers {
            let label = Worker::new(&worker.id);
            all.worker_utilization.get_or_create(&label).set(worker.utilization);
            all.worker_last_heartbeat.get_or_create(&label).set(worker.last_heartbeat);
            known.push(worker.id.clone());
        }
        drop(known);
        all.dlq_size.set(count(sample.pending_dead_letters.iter().map(|(_, pending)| pending).sum()));
        all.dlq_pending.clear();
        for (reason, pending) in &sample.pending_dead_letters {
            all.dlq_pending.get_or_create(&Reason::new(reason)).set(count(*pending));
        }
        let (healthy, warning, stale) = sample.runs_by_health;
        for (health, runs) in [("healthy", healthy), ("warning", warning), ("stale", stale)] {
            all.runs_by_health.get_or_create(&Health::new(health)).set(count(runs));
        }
    }

    /// Connections to the database that are idle and in use.
    pub fn connections(&self, idle: u32, in_use: u32) {
        for (state, connections) in [("idle", idle), ("in_use", in_use)] {
            self.families.db_connections.get_or_create(&State::new(state)).set(i64::from(connections));
        }
    }
}

fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QueueDepth, WorkerSample};

    #[test]
    fn workers_that_left_disappear_and_queues_that_emptied_too() {
        let metrics = Metrics::default();
        let worker = WorkerSample { id: "w1".into(), active: true, utilization: 0.5, last_heartbeat: 1.5 };
        let queues = vec![QueueDepth { queue: "gpu".into(), ready: 7 }];
        metrics.sampled(&Sample { queues, workers: vec![worker], ..Sample::default() });
        let text = metrics.encode();
        assert!(text.contains("scheduler_queue_depth{queue=\"gpu\"} 7\n"), "{text}");
        assert!(text.contains("scheduler_worker_utilization{worker_id=\"w1\"} 0.5\n"), "{text}");
        assert!(text.contains("scheduler_active_workers 1\n"), "{text}");
        metrics.sampled(&Sample::default());
        let text = metrics.encode();
        assert!(!text.contains("gpu") && !text.contains("w1"), "{text}");
        assert!(text.contains("scheduler_active_workers 0\n"), "{text}");
    }

    #[test]
    fn an_ended_task_moves_both_of_its_counters() {
        let metrics = Metrics::default();
        metrics.record(Event::TaskEnded { task_type: "run", status: "failed" });
        metrics.record(Event::AttemptEnded {
            task_type: "run",
            status: "failed",
            seconds: 0.2,
            error_type: Some("exit_code"),
        });
        let text = metrics.encode();
        for line in [
            "scheduler_tasks_total{status=\"failed\"} 1",
            "scheduler_tasks_processed_total{status=\"failed\",task_type=\"run\"} 1",
            "scheduler_task_errors_total{task_type=\"run\",error_type=\"exit_code\"} 1",
            "scheduler_task_duration_seconds_bucket{le=\"0.5\",status=\"failed\",task_type=\"run\"} 1",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
