//! Repairs lost answers: compares what the worker holds with what the database says it holds.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::workflow::SlotClass;
use mainspring_store::{Claimed, TaskToken};

use super::exchange::WorkerExchange;
use super::registry::{WorkerError, WorkerGate};
use super::session::RemoteSession;
use crate::exchange::assignments;

/// The database is asked this often even if both sides agree, because another node may have claimed for this session.
const REPAIR_EVERY: Duration = Duration::from_secs(5);

impl WorkerGate {
    /// Delivers attempts that the worker should have and lacks, and stops attempts that it should not have.
    pub(super) async fn repair(
        &self,
        session: &Arc<RemoteSession>,
        request: &WorkerExchange,
    ) -> Result<(), WorkerError> {
        let token = |key, attempt| TaskToken { key, session: session.id, attempt };
        let finished: HashSet<TaskToken> =
            request.finished.iter().map(|result| token(result.key, result.attempt)).collect();
        let holding: HashSet<TaskToken> =
            request.holding.iter().map(|(key, attempt, _)| token(*key, *attempt)).collect();
        let mut looks = self.is_due(session) || self.knows_less(session, holding.iter().chain(&finished));
        looks |= self.forget_missing(session, request.seq, |token| holding.contains(token) || finished.contains(token));
        if looks {
            self.read_claims(session, &holding, &finished, request.seq).await?;
        }
        let strangers: Vec<TaskToken> = {
            let gatherer = self.shared.gatherer();
            let state = session.state();
            holding
                .iter()
                .copied()
                .filter(|token| gatherer.get(*token).is_none() && !state.is_pending(*token))
                .collect()
        };
        let mut state = session.state();
        for token in strangers {
            state.ask_to_stop(token, "the attempt is not this session's any more".into());
        }
        Ok(())
    }

    fn is_due(&self, session: &RemoteSession) -> bool {
        session.state().repaired.is_none_or(|repaired| repaired.elapsed() > REPAIR_EVERY)
    }

    /// Whether the worker names attempts that this node does not know.
    fn knows_less<'t>(&self, session: &RemoteSession, named: impl Iterator<Item = &'t TaskToken>) -> bool {
        let gatherer = self.shared.gatherer();
        let state = session.state();
        let mut named = named;
        named.any(|token| gatherer.get(*token).is_none() && !state.is_pending(*token))
    }

    /// Forgets delivered attempts that did not arrive; the database then says which to deliver again. The answer to the
    /// previous exchange may still be under way, because a worker may send the next one meanwhile. True if there were
    /// any.
    fn forget_missing(&self, session: &RemoteSession, seq: i64, named: impl Fn(&TaskToken) -> bool) -> bool {
        let mut gatherer = self.shared.gatherer();
        let mut state = session.state();
        let delivered = state.delivered.iter();
        let missing = delivered.filter(|(token, given)| **given + 2 <= seq && !named(token)).map(|(token, _)| *token);
        let missing: Vec<TaskToken> = missing.collect();
        for token in &missing {
            state.forget(*token);
            if let Some(inbox) = gatherer.session_mut(session.id) {
                inbox.forget(*token);
            }
        }
        !missing.is_empty()
    }

    /// Reads every claim of the session. Claims that the worker lacks are queued for it, and attempts that are not
    /// claimed any more are forgotten.
    async fn read_claims(
        &self,
        session: &Arc<RemoteSession>,
        holding: &HashSet<TaskToken>,
        finished: &HashSet<TaskToken>,
        seq: i64,
    ) -> Result<(), WorkerError> {
        // Attempts held before the query and missing in its result were ended by another node.
        let held: Vec<TaskToken> = match self.shared.gatherer().session(session.id) {
            Some(inbox) => inbox.held().copied().collect(),
            None => return Err(WorkerError::Moved),
        };
        let claims = self.shared.client.store.claims_of(session.id).await?;
        let claimed: HashSet<TaskToken> = claims.iter().map(|claim| claim.token).collect();
        let mut undelivered: Vec<Claimed> = Vec::new();
        {
            let mut gatherer = self.shared.gatherer();
            let mut state = session.state();
            let classes: Vec<SlotClass> = claims.iter().map(|claim| gatherer.class_of(claim.route)).collect();
            let Some(inbox) = gatherer.session_mut(session.id) else { return Err(WorkerError::Moved) };
            state.repaired = Some(Instant::now());
            for token in held.iter().filter(|token| !claimed.contains(token)) {
                inbox.forget(*token);
                state.forget(*token);
            }
            for (claim, class) in claims.into_iter().zip(classes) {
                if state.is_pending(claim.token) || !inbox.hold(&claim, class) {
                    continue;
                }
                if holding.contains(&claim.token) || finished.contains(&claim.token) {
                    state.delivered.insert(claim.token, seq);
                } else {
                    undelivered.push(claim);
                }
            }
        }
        if !undelivered.is_empty() {
            tracing::info!(
                session = session.id,
                tasks = undelivered.len(),
                "delivering claims that a worker has not got"
            );
            // They are held by now: they must reach the outbox even if the worker hangs up meanwhile.
            let shared = Arc::clone(&self.shared);
            let _ = tokio::spawn(async move { assignments::execute(&shared, undelivered).await }).await;
        }
        Ok(())
    }
}
