//! What every node does besides exchanging: renew its lease, promote what has become due, go on with big units, listen.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_core::work::Clock;
use mainspring_store::follower;

use crate::lane::start_over;
use crate::node::Shared;
use crate::wake::SCHEDULES;

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const DUE_AT_ONCE: i64 = 1_000;
const EVENTS_AT_ONCE: i64 = 100;

/// Renews the node's sessions; a session that is not renewed any more was found dead.
pub(crate) async fn renew(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(shared.config.heartbeat);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shared.stop.run_until_cancelled(ticks.tick()).await.is_some() {
        // Before the question: a session that began after it is not in the answer.
        let session = shared.inbox().session;
        match shared.client.store.renew(shared.client.now(), shared.id).await {
            Ok(alive) => {
                shared.workforce.heard();
                match alive.iter().find(|(id, _)| *id == session) {
                    None => start_over(&shared, session).await,
                    Some((_, draining)) => {
                        if *draining {
                            // Somebody asked for it from elsewhere.
                            shared.inbox().drain();
                        }
                        end_strangers(&shared, session, &alive).await;
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "renewing the lease"),
        }
    }
}

/// Ends sessions of this node that it does not know: they were opened, and the reply was lost. While ours is alive nobody
/// opens another.
async fn end_strangers(shared: &Shared, session: i64, alive: &[(i64, bool)]) {
    for (stranger, _) in alive.iter().filter(|(id, _)| *id != session) {
        match shared.client.store.end_session(shared.client.now(), *stranger).await {
            Ok(_) => tracing::debug!(session = stranger, "ended a session that was opened in vain"),
            Err(error) => tracing::warn!(%error, "ending a session that was opened in vain"),
        }
    }
}

/// Sleeps until the next row is due, promotes it, and goes on with what was left in chunks.
pub(crate) async fn promote(shared: Arc<Shared>) {
    while !shared.stop.is_cancelled() {
        if let Err(error) = do_due(&shared).await {
            tracing::warn!(%error, "promoting what is due");
        }
        let next = *shared.next_due.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = next
            .map(|due| Duration::from_micros(u64::try_from(due - shared.client.clock.now()).unwrap_or(0)))
            .map_or(LONGEST_SLEEP, |pause| pause.clamp(Duration::from_millis(1), LONGEST_SLEEP));
        tokio::select! {
            () = shared.duty.notified() => {}
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
            shared.client.bell.look();
        }
    }
    let begun = begin_runs(shared, duties.next_start).await?;
    if duties.has_events {
        match_events(shared).await?;
    }
    let mut went_on = false;
    while (begun || duties.has_continuations) && store.proceed(shared.client.now()).await? {
        went_on = true;
        // Let the lanes in between chunks.
        shared.client.bell.look_here();
        if shared.stop.is_cancelled() {
            break;
        }
    }
    if went_on {
        shared.client.bell.look();
    }
    Ok(())
}

/// Lets runs begin that were to start later, and wakes for the next of them. True if any did.
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
            // Another node has them in hand.
            break;
        }
        begun = true;
        next = store.next_start().await?;
    }
    Ok(begun)
}

/// Tells waiting task runs of events that nobody has told them of.
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

/// Hears what other processes announce, where the database can carry it.
pub(crate) async fn listen(shared: Arc<Shared>) {
    let own = shared.id.to_string();
    while !shared.stop.is_cancelled() {
        match shared.client.store.listen().await {
            Ok(listener) if !listener.hears() => return,
            Ok(mut listener) => loop {
                match shared.stop.run_until_cancelled(listener.heard()).await {
                    None => return,
                    Some(Ok(from)) if from == own => {}
                    Some(Ok(what)) if what == SCHEDULES => shared.client.bell.ring_clock(),
                    Some(Ok(from)) if follower(&from).is_some() => shared.client.hints.asked(),
                    Some(Ok(_)) => {
                        shared.client.bell.routes_changed();
                        shared.client.bell.look_here();
                        shared.duty.notify_one();
                        shared.client.bell.happened();
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%error, "listening; looking by ourselves meanwhile");
                        break;
                    }
                }
            },
            Err(error) => tracing::debug!(%error, "listening; looking by ourselves meanwhile"),
        }
        let _ = shared.stop.run_until_cancelled(tokio::time::sleep(LONGEST_SLEEP)).await;
    }
}
