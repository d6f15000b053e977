//! The leader's work for dead letters: it completes entries, works off batches, looks for stale runs and unserved
//! tasks, and deletes old closed entries.
//!
//! Nothing here relies on there being one leader: entries are completed by a compare-and-swap, a batch advances by its
//! position, and a run is given up under its lock and the leader's term.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_core::dead_letter::Reason;
use mainspring_store::{Result, Term};
use mainspring_telemetry::Event;

use super::batches;
use crate::node::Shared;

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const UNSERVED_EVERY: Duration = Duration::from_secs(15);
const FORGET_EVERY: Duration = Duration::from_secs(300);
const ENTRIES_AT_ONCE: usize = 2_000;

/// When each part was done last.
#[derive(Debug, Default)]
struct Done {
    detected: Option<Instant>,
    unserved: Option<Instant>,
    forgot: Option<Instant>,
    /// The defaults were written under this term.
    defaults: Option<i64>,
}

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut leading = shared.term.subscribe();
    let mut done = Done::default();
    while !shared.stop.is_cancelled() {
        let term = leading.borrow_and_update().clone();
        let Some(term) = term else {
            let _ = shared.stop.run_until_cancelled(leading.changed()).await;
            continue;
        };
        if let Err(error) = tick(&shared, &term, &mut done).await {
            tracing::warn!(%error, "keeping the operator's desk");
        }
        tokio::select! {
            () = tokio::time::sleep(LONGEST_SLEEP) => {}
            _ = leading.changed() => {}
            () = shared.stop.cancelled() => {}
        }
    }
}

async fn tick(shared: &Shared, term: &Term, done: &mut Done) -> Result<()> {
    let (client, config) = (&shared.client, &shared.config.desk);
    if done.defaults != Some(term.epoch) {
        client.store.set_staleness_defaults(config.thresholds).await?;
        // A new leader waits for a whole interval, so that runs which it has never seen get the chance to move.
        *done = Done { defaults: Some(term.epoch), detected: Some(Instant::now()), ..Done::default() };
    }
    client.capture_letters(ENTRIES_AT_ONCE).await?;
    batches::work(shared).await?;
    if config.detects && is_due(&mut done.detected, config.interval) {
        detect(shared, term).await?;
    }
    if is_due(&mut done.unserved, UNSERVED_EVERY.min(config.unserved_after)) {
        client.report_unserved(config.unserved_after).await?;
    }
    if let Some(kept) = config.kept
        && is_due(&mut done.forgot, FORGET_EVERY)
    {
        client.store.forget_letters(client.now() - Micros::try_from(kept.as_micros()).unwrap_or(Micros::MAX)).await?;
    }
    Ok(())
}

async fn detect(shared: &Shared, term: &Term) -> Result<()> {
    let config = &shared.config.desk;
    let started = Instant::now();
    let found = shared.client.detect_stale(Some(term), None, config.batch_size, config.dry_run).await?;
    let metrics = &shared.client.metrics;
    metrics.record(Event::StalenessDetectionRan { dry_run: config.dry_run, seconds: started.elapsed().as_secs_f64() });
    for one in &found {
        metrics.record(Event::RunStale { phase: one.phase.word(), minutes: one.time_in_state_minutes });
        if one.transition_success {
            let reason = Reason::StalenessTimeout.word();
            metrics.record(Event::RunFailedByDetector { phase: one.phase.word(), reason });
        }
        tracing::warn!(
            run_id = %one.run,
            workflow = one.workflow,
            namespace = one.namespace,
            phase = one.phase.word(),
            minutes = one.time_in_state_minutes,
            threshold_minutes = one.threshold_minutes,
            action = one.action.word(),
            "a run is stale"
        );
    }
    tracing::debug!(found = found.len(), took_ms = started.elapsed().as_millis() as u64, "looked for stale runs");
    Ok(())
}

fn is_due(last: &mut Option<Instant>, every: Duration) -> bool {
    let now = Instant::now();
    let due = last.is_none_or(|last| now.duration_since(last) >= every);
    if due {
        *last = Some(now);
    }
    due
}
