//! Work stealing: an idle worker gets a share of the backlog of another one.
//!
//! The thief leaves a request in the database. The node that carries the victim asks it, with its next answer, to hand
//! attempts back. They are released and claimed like any other, so none runs twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_telemetry::Event;

use super::registry::WorkerGate;
use super::session::RemoteSession;
use crate::node::Shared;

/// A worker asks for a share at most this often.
const ASK_EVERY: Duration = Duration::from_secs(1);

impl WorkerGate {
    /// A worker had free slots for a whole wait and got nothing, while others may have a backlog.
    pub(super) async fn steal_for(&self, session: &Arc<RemoteSession>, want: [i32; 3]) {
        {
            let mut state = session.state();
            let too_soon = state.asked_to_share.is_some_and(|asked| asked.elapsed() < ASK_EVERY);
            if too_soon || state.draining || want.iter().all(|slots| *slots == 0) {
                return;
            }
            state.asked_to_share = Some(Instant::now());
        }
        let routes = self.shared.gatherer().routes_of(session.id);
        let client = &self.shared.client;
        match client.store.ask_to_share(client.now(), session.id, &routes).await {
            Ok(Some(victim)) => tracing::debug!(thief = session.id, victim, "asked another worker to share"),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "asking another worker to share"),
        }
    }
}

/// Asks workers of this node to hand back what other workers requested.
pub(crate) async fn share(shared: &Shared) {
    let sessions = shared.remote.ids();
    if sessions.is_empty() {
        return;
    }
    let requests = match shared.client.store.take_share_requests(&sessions).await {
        Ok(requests) => requests,
        Err(error) => return tracing::debug!(%error, "reading which work others ask for"),
    };
    for (victim, count) in requests {
        let Some(session) = shared.remote.get(victim) else { continue };
        let shared_count = session.state().share(usize::try_from(count).unwrap_or(0));
        shared.client.metrics.record(Event::TasksStolen { count: shared_count as u64 });
        session.wake();
    }
}
