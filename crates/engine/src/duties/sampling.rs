//! Reads the values of gauges over the store, on the leader and every 15 s (less often when that takes long). A node
//! that does not lead shows none of them, so that two nodes never report different values.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_store::{Result, SessionRow};
use mainspring_telemetry::{Event, QueueDepth, Sample, WorkerSample};

use crate::duties::periodic_scan::PeriodicScan;
use crate::metering::seconds;
use crate::node::Shared;

const EVERY: Duration = Duration::from_secs(15);
/// A new leader has more urgent work.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// How long a silent worker stays visible, so that an alert can fire.
const SILENT_FOR: Micros = 15 * 60 * 1_000_000;
const MOST_WORKERS: i64 = 10_000;

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut terms = shared.term.subscribe();
    let metrics = &shared.client.metrics;
    loop {
        let leads = terms.borrow_and_update().as_ref().map(|term| term.epoch);
        match leads {
            Some(epoch) => metrics.record(Event::LeadershipTaken { epoch }),
            None => {
                metrics.record(Event::LeadershipLost);
                metrics.sampled(&Sample::default());
            }
        }
        let mut scan = PeriodicScan::new(EVERY, FIRST_AFTER, Instant::now());
        loop {
            let began = Instant::now();
            if leads.is_some() && scan.is_due(began) {
                match sample(&shared).await {
                    Ok(sample) => metrics.sampled(&sample),
                    Err(error) => tracing::debug!(%error, "sampling the gauges"),
                }
                scan.scanned(began, Instant::now());
                metrics.record(Event::LoopPassed { name: "sampling" });
            }
            let (idle, in_use) = shared.client.store.connections();
            metrics.connections(idle, in_use);
            let pause = if leads.is_some() { scan.wait(Instant::now()).min(EVERY) } else { EVERY };
            tokio::select! {
                () = shared.stop.cancelled() => return,
                changed = terms.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

async fn sample(shared: &Shared) -> Result<Sample> {
    let store = &shared.client.store;
    let mut queues = known_queues(shared);
    for (_, queue, ready) in store.ready_by_queue().await? {
        let ready = u64::try_from(ready).unwrap_or(0);
        match queues.iter_mut().find(|known| known.queue == queue) {
            Some(known) => known.ready += ready,
            None => queues.push(QueueDepth { queue, ready }),
        }
    }
    let running = store.running_by_session().await?;
    let now = shared.client.now();
    let sessions = store.sessions(true, MOST_WORKERS).await?;
    let workers = sessions
        .iter()
        .filter(|row| row.slots > 0 && (!row.dead || (!row.draining && now - row.beat_at < SILENT_FOR)))
        .map(|row| worker(row, running.iter().find(|(id, _)| *id == row.id).map_or(0, |(_, count)| *count)))
        .collect();
    let pending_dead_letters = store.dead_letters_by_reason().await?;
    let runs_by_health = store.runs_by_health(now).await?;
    Ok(Sample { queues, workers, pending_dead_letters, runs_by_health })
}

/// An empty queue has a depth of zero.
fn known_queues(shared: &Shared) -> Vec<QueueDepth> {
    let routes = shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
    let mut names: Vec<&str> = routes.values().map(|queue| &**queue).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|queue| QueueDepth { queue: queue.to_owned(), ready: 0 }).collect()
}

fn worker(row: &SessionRow, running: i64) -> WorkerSample {
    WorkerSample {
        id: row.worker.clone(),
        active: !row.dead && !row.draining,
        utilization: (running as f64 / f64::from(row.slots.max(1))).min(1.0),
        last_heartbeat: seconds(row.beat_at),
    }
}
