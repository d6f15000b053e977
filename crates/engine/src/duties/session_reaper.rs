//! Finds dead sessions and returns their claims.
//!
//! Every node that may lead watches the beats all the time; only the leader marks a session dead. A new leader
//! therefore knows at once how long each beat has stood still, and a leader that died with its pool costs no second
//! lease.

use std::sync::Arc;
use std::time::Instant;

use mainspring_store::{Error, Result, Term};

use crate::bus::{BusMessage, ClaimableRoutes};
use crate::coordination::election::pace;
use crate::coordination::standing::StandstillTimer;
use crate::node::Shared;

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut terms = shared.term.subscribe();
    let mut ticks = tokio::time::interval(pace(&shared.config));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut beats = StandstillTimer::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            Ok(()) = terms.changed() => {}
            () = shared.stop.cancelled() => return,
        }
        let term = terms.borrow_and_update().clone();
        if let Err(error) = watch(&shared, &mut beats, term.as_ref()).await {
            // A failed read proves nothing about the sessions, so measuring starts anew.
            tracing::warn!(%error, "watching the sessions");
            beats = StandstillTimer::default();
        }
    }
}

async fn watch(shared: &Shared, beats: &mut StandstillTimer<i64>, term: Option<&Term>) -> Result<()> {
    let store = &shared.client.store;
    let live = store.live_sessions().await?;
    let passed = beats.look(Instant::now(), pace(&shared.config));
    beats.retain(|id| live.iter().any(|session| session.id == *id));
    for session in live {
        let stood = beats.note(session.id, session.beat, passed);
        let Some(term) = term.filter(|_| stood >= shared.config.lease_ttl) else { continue };
        let returned = match store.reap_session(shared.client.now(), session.id, session.beat, term).await {
            Ok(returned) => returned,
            // Measuring starts anew.
            Err(error @ Error::Unavailable(_)) => return Err(error),
            // Others are not to wait for it.
            Err(error) => {
                tracing::warn!(%error, session = session.id, "what a lost worker holds was not returned; it is tried again");
                continue;
            }
        };
        if returned == 0 && store.live_sessions().await?.iter().any(|live| live.id == session.id) {
            // Its beat has moved, or this node leads no more.
            continue;
        }
        tracing::warn!(
            session = session.id,
            worker = session.worker,
            returned,
            "a worker is lost; what it held is claimed by others"
        );
        shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
    }
    Ok(())
}
