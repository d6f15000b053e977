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
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// The shortest sleep while what is due cannot be promoted: another transaction holds it, or the store failed.
const BLOCKED_SLEEP: Duration = Duration::from_millis(50);
const DUE_AT_ONCE: i64 = 1_000;
const EVENTS_AT_ONCE: i64 = 100;

/// Sleeps until the next row is due, promotes it, and continues chunked units.
pub(crate) async fn run(shared: Arc<Shared>) {
    while !shared.stop.is_cancelled() {
        let progress = do_due(&shared).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "promoting what is due");
            Progress::Blocked
        });
        shared.client.metrics.record(Event::LoopPassed { name: "promotion" });
        let next = *shared.next_due.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = pause_until(next, shared.client.clock.now(), progress);
        tokio::select! {
            () = shared.client.bus.signals().promotion_woken() => {}
            () = tokio::time::sleep(pause) => {}
            () = shared.stop.cancelled() => {}
        }
    }
}

/// Whether a pass promoted what it found due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Made,
    /// Rows were due and none was promoted.
    Blocked,
}

/// How long to sleep when `next` is the next due time.
fn pause_until(next: Option<Micros>, now: Micros, progress: Progress) -> Duration {
    let Some(due) = next else { return LONGEST_SLEEP };
    let shortest = if due <= now && progress == Progress::Blocked { BLOCKED_SLEEP } else { SHORTEST_SLEEP };
    Duration::from_micros(u64::try_from(due - now).unwrap_or(0)).clamp(shortest, LONGEST_SLEEP)
}

async fn do_due(shared: &Shared) -> mainspring_store::Result<Progress> {
    let store = &shared.client.store;
    let mut progress = Progress::Made;
    let now = shared.client.now();
    let duties = store.duties().await?;
    let next = duties.next_due;
    *shared.next_due.lock().unwrap_or_else(PoisonError::into_inner) = next;
    if next.is_some_and(|due| due <= now) {
        let promoted = store.promote_due(now, DUE_AT_ONCE).await?;
        *shared.next_due.lock().unwrap_or_else(PoisonError::into_inner) = store.next_due().await?;
        if promoted > 0 {
            shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        } else {
            progress = Progress::Blocked;
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
    Ok(progress)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_cannot_be_promoted_are_looked_at_seldom() {
        let millis = Duration::from_millis;
        let (now, soon, late) = (1_000_000_000, 1_000_007_000, 1_005_000_000);
        for (next, progress, pause) in [
            (None, Progress::Made, LONGEST_SLEEP),
            (None, Progress::Blocked, LONGEST_SLEEP),
            (Some(now - 1), Progress::Made, SHORTEST_SLEEP),
            (Some(now - 1), Progress::Blocked, BLOCKED_SLEEP),
            (Some(soon), Progress::Made, millis(7)),
            // Another node promoted what was due, and the next row is another one.
            (Some(soon), Progress::Blocked, millis(7)),
            (Some(late), Progress::Made, LONGEST_SLEEP),
        ] {
            assert_eq!(pause_until(next, now, progress), pause, "{next:?} {progress:?}");
        }
    }
}
