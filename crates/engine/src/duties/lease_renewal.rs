//! Renews the leases of this node's sessions.

use std::sync::Arc;
use std::time::Instant;

use mainspring_telemetry::Event;

use crate::exchange::lane::start_over;
use crate::node::Shared;
use crate::remote::stealing;

/// Renews the node's sessions; a session that is not renewed any more was found dead.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(shared.config.heartbeat);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shared.stop.run_until_cancelled(ticks.tick()).await.is_some() {
        // Before the question: a session that began after it is not in the answer.
        let own = shared.gatherer().own();
        let asked = Instant::now();
        let in_contact = shared.remote.heard_recently(&shared);
        match shared.client.store.renew(shared.client.now(), shared.id, &in_contact).await {
            Ok(renewed) => {
                shared.workforce.lease_renewed();
                shared.client.metrics.record(Event::WorkerBeat { worker: &shared.config.name });
                shared.client.metrics.record(Event::LoopPassed { name: "lease_renewal" });
                settle_remote(&shared, asked, &in_contact, &renewed);
                shared.remote.forget_silent(&shared);
                stealing::share(&shared).await;
                match renewed.iter().find(|session| session.0 == own) {
                    None => start_over(&shared, own).await,
                    Some((_, draining, _)) => {
                        if *draining {
                            // It was asked for from elsewhere.
                            shared.gatherer().drain_session(own);
                        }
                        end_unknown_sessions(&shared, own, &renewed).await;
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "renewing the lease"),
        }
    }
}

/// Remote sessions that are not renewed any more were found dead, or are carried by another node: whichever it is, their
/// workers learn it with their next request. One that came back after the question was asked is not meant by the answer.
fn settle_remote(shared: &Shared, asked: Instant, in_contact: &[i64], renewed: &[(i64, bool, bool)]) {
    for session in in_contact {
        match renewed.iter().find(|row| row.0 == *session) {
            None if shared.remote.get(*session).is_some_and(|session| session.was_carried_since(asked)) => {}
            None => shared.remote.forget(shared, *session),
            Some((_, true, _)) => {
                shared.gatherer().drain_session(*session);
                if let Some(session) = shared.remote.get(*session) {
                    session.set_draining();
                }
            }
            Some(_) => {}
        }
    }
}

/// Ends sessions of this node that it does not know: they were opened, and the reply was lost. While ours is alive no one else
/// opens another.
async fn end_unknown_sessions(shared: &Shared, own: i64, renewed: &[(i64, bool, bool)]) {
    for (stranger, ..) in renewed.iter().filter(|(id, _, remote)| *id != own && !remote) {
        match shared.client.store.end_session(shared.client.now(), *stranger).await {
            Ok(_) => tracing::debug!(session = stranger, "ended a session that was opened in vain"),
            Err(error) => tracing::warn!(%error, "ending a session that was opened in vain"),
        }
    }
}
