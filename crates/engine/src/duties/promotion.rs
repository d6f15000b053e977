//! Promotes due rows and continues units that were too big for one transaction. Every node does it; rows that another
//! node has locked are skipped.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_core::work::Clock;
use mainspring_telemetry::Event;

use crate::bus::{BusMessage, ClaimableRoutes};
use crate::node::Shared;

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const DUE_AT_ONCE: i64 = 1_000;
const EVENTS_AT_ONCE: i64 = 100;

/// Sleeps until the next row is due, promotes it, and continues chunked units.
pub(crate) async fn run(shared: Arc<Shared>) {
    while !shared.stop.is_cancelled() {
        if let Err(error) = do_due(&shared).await {
            tracing::warn!(%error, "promoting what is due");
        }
        shared.client.metrics.record(Event::LoopPassed { name: "promotion" });
        let next = *shared.next_due.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = next
            .map(|due| Duration::from_micros(u64::try_from(due - shared.client.clock.now()).unwrap_or(0)))
            .map_or(LONGEST_SLEEP, |pause| pause.clamp(Duration::from_millis(1), LONGEST_SLEEP));
        tokio::select! {
            () = shared.client.bus.signals().promotion_woken() => {}
            () = tokio::time::sleep(pause) => {}
            () = shared.stop.cancelled() => {}
        }
    }
}

async fn do_due(shared: &Shared) -> mainspring_store::Result<()> {
    let store = &shared.client.store;
    let now = shared.client.now();
    let duties = store.duties().await?;
    let next = duties.next_due;
    *shared.next_due.lock().unwrap_or_else(PoisonError::into_inner) = next;
    if next.is_some_and(|due| due <= now) {
        let promoted = store.promote_due(now, DUE_AT_ONCE).await?;
        *shared.next_due.lock().unwrap_or_else(PoisonError::into_inner) = store.next_due().await?;
        if promoted > 0 {
            shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
    }
    let begun = begin_runs(shared, duties.next_start).await?;
    if duties.has_events {
        match_events(shared).await?;
    }
    let mut went_on = false;
    while (begun || duties.has_continuations) && store.proceed(shared.client.now()).await? {
        went_on = true;
        // Lets the lanes in between chunks.
        shared.client.bus.look_here();
        if shared.stop.is_cancelled() {
            break;
        }
    }
    if went_on {
        shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
    }
    Ok(())
}

/// Begins runs whose start time has come, and schedules the next wake-up. True if any began.
async fn begin_runs(shared: &Shared, mut next: Option<Micros>) -> mainspring_store::Result<bool> {
    let store = &shared.client.store;
    let mut begun = false;
    while let Some(start) = next {
        let (now, wall) = (shared.client.now(), shared.client.clock.wall());
        if start > wall {
            shared.wake_at(now + (start - wall));
            break;
        }
        if store.begin_due_runs(now, wall, DUE_AT_ONCE).await? == 0 {
            // Another node is working on them.
            break;
        }
        begun = true;
        next = store.next_start().await?;
    }
    Ok(begun)
}

/// Delivers events to waiting task runs that have not received them.
async fn match_events(shared: &Shared) -> mainspring_store::Result<()> {
    loop {
        let events = shared.client.store.unmatched_events(EVENTS_AT_ONCE).await?;
        for event in &events {
            shared.client.match_event(event).await?;
        }
        if events.len() < EVENTS_AT_ONCE as usize {
            return Ok(());
        }
    }
}
