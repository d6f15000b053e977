//! Renews the leases of this node's sessions.

use std::sync::Arc;
use std::time::Instant;

use mainspring_telemetry::Event;

use crate::exchange::lane::start_over;
use crate::node::Shared;
use crate::remote::stealing;

/// Renews the node's sessions. A session that the store does not renew was found dead.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(shared.config.heartbeat);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shared.stop.run_until_cancelled(ticks.tick()).await.is_some() {
        // Read before the renewal: a session that began after it is not in the reply.
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
                            // The drain was requested through another process.
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

/// A remote session that was not renewed was found dead, or another node carries it. Either way its worker learns it
/// with its next request. Sessions that came back after the renewal was sent are skipped.
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

/// Ends sessions of this node that it does not know: they were opened, and the reply was lost. While the own session is
/// alive, nothing else opens another one.
async fn end_unknown_sessions(shared: &Shared, own: i64, renewed: &[(i64, bool, bool)]) {
    for (stranger, ..) in renewed.iter().filter(|(id, _, remote)| *id != own && !remote) {
        match shared.client.store.end_session(shared.client.now(), *stranger).await {
            Ok(_) => tracing::debug!(session = stranger, "ended a session that was opened in vain"),
            Err(error) => tracing::warn!(%error, "ending a session that was opened in vain"),
        }
    }
}
