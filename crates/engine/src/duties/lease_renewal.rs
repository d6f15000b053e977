//! Renews the leases of this node's sessions.

use std::sync::Arc;

use mainspring_telemetry::Event;

use crate::exchange::lane::start_over;
use crate::node::Shared;

/// Renews the node's sessions; a session that is not renewed any more was found dead.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(shared.config.heartbeat);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shared.stop.run_until_cancelled(ticks.tick()).await.is_some() {
        // Before the question: a session that began after it is not in the answer.
        let session = shared.inbox().session;
        match shared.client.store.renew(shared.client.now(), shared.id).await {
            Ok(alive) => {
                shared.workforce.heard();
                shared.client.metrics.record(Event::WorkerBeat { worker: &shared.config.name });
                shared.client.metrics.record(Event::LoopPassed { name: "lease_renewal" });
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
