//! Relays ends of runs and events: counts ends, delivers events, closes event windows.
//!
//! Nothing here relies on there being one leader: an end is counted in the transaction that removes it, and a listener
//! has one delivery per event. Leading only saves the other nodes the work.

use std::sync::Arc;
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_store::Result;

use crate::bus::{BusMessage, ClaimableRoutes};
use crate::node::Shared;

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const ENDS_AT_ONCE: i64 = 100;
const EVENTS_AT_ONCE: i64 = 100;

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut leading = shared.term.subscribe();
    while !shared.stop.is_cancelled() {
        if leading.borrow_and_update().is_none() {
            let _ = shared.stop.run_until_cancelled(leading.changed()).await;
            continue;
        }
        let next = match tick(&shared).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "following events and ends of runs");
                None
            }
        };
        let pause = next
            .map(|due| Duration::from_micros(u64::try_from(due - shared.client.now()).unwrap_or(0)))
            .map_or(LONGEST_SLEEP, |pause| pause.clamp(Duration::from_millis(1), LONGEST_SLEEP));
        tokio::select! {
            () = shared.client.bus.signals().events_were_pending() => {}
            () = tokio::time::sleep(pause) => {}
            _ = leading.changed() => {}
            () = shared.stop.cancelled() => {}
        }
    }
}

/// Handles everything pending, and returns when the next event window closes.
async fn tick(shared: &Shared) -> Result<Option<Micros>> {
    let store = &shared.client.store;
    let unheard = store.unheard().await?;
    if unheard.ends {
        count_ends(shared).await?;
    }
    if unheard.ends || unheard.events {
        deliver_events(shared).await?;
    }
    if !(unheard.ends || unheard.events || unheard.windows) {
        return Ok(None);
    }
    shared.client.end_windows().await?;
    store.next_debounce().await
}

async fn count_ends(shared: &Shared) -> Result<()> {
    let client = &shared.client;
    let new_id = || client.clock.new_id();
    loop {
        let unit = || client.store.conclude_run_ends(client.now(), ENDS_AT_ONCE, &new_id);
        if client.repeat(unit).await?.ends < ENDS_AT_ONCE as usize || shared.stop.is_cancelled() {
            return Ok(());
        }
    }
}

async fn deliver_events(shared: &Shared) -> Result<()> {
    let client = &shared.client;
    loop {
        let events = client.store.unhandled_events(EVENTS_AT_ONCE).await?;
        for event in &events {
            client.dispatch(event).await?;
        }
        if !events.is_empty() {
            // Waiting task runs may match the new events.
            shared.client.bus.signals().wake_promotion();
            client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        if events.len() < EVENTS_AT_ONCE as usize || shared.stop.is_cancelled() {
            return Ok(());
        }
    }
}
