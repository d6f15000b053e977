//! Repairs lost answers: what the worker holds is compared with what the database says it holds.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::workflow::SlotClass;
use mainspring_store::{Claimed, TaskToken};

use super::exchange::WorkerExchange;
use super::registry::{WorkerError, WorkerGate};
use super::session::{Delivered, RemoteSession};
use crate::exchange::assignments;

/// However sure both sides are, the database is asked this often: another node may have claimed for this session.
const REPAIR_EVERY: Duration = Duration::from_secs(5);

impl WorkerGate {
    /// Delivers again what the worker should have and has not, and stops what it has and should not.
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
        if self.is_due(session) || self.knows_less(session, holding.iter().chain(&finished)) {
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
        // The answer to the exchange before this one may still be on its way: a worker may send the next one meanwhile.
        let missing: Vec<TaskToken> = state
            .delivered
            .iter()
            .filter(|(token, delivered)| {
                delivered.seq + 2 <= request.seq && !holding.contains(token) && !finished.contains(token)
            })
            .map(|(token, _)| *token)
            .collect();
        let unknown: Vec<TaskToken> = missing.into_iter().filter(|token| !state.redeliver(*token)).collect();
        if !unknown.is_empty() {
            // Another node had delivered them: the next look at the database makes their assignments anew.
            state.repaired = None;
            drop(state);
            let mut gatherer = self.shared.gatherer();
            for token in unknown {
                gatherer.finish(token);
            }
        }
        Ok(())
    }

    fn is_due(&self, session: &RemoteSession) -> bool {
        session.state().repaired.is_none_or(|repaired| repaired.elapsed() > REPAIR_EVERY)
    }

    /// Whether the worker names attempts that this node does not know of.
    fn knows_less<'t>(&self, session: &RemoteSession, named: impl Iterator<Item = &'t TaskToken>) -> bool {
        let gatherer = self.shared.gatherer();
        let state = session.state();
        let mut named = named;
        named.any(|token| gatherer.get(*token).is_none() && !state.is_pending(*token))
    }

    /// Learns of every claim of the session. Those that the worker has not got are on their way to it.
    async fn read_claims(
        &self,
        session: &Arc<RemoteSession>,
        holding: &HashSet<TaskToken>,
        finished: &HashSet<TaskToken>,
        seq: i64,
    ) -> Result<(), WorkerError> {
        let claims = self.shared.client.store.claims_of(session.id).await?;
        let mut undelivered: Vec<Claimed> = Vec::new();
        {
            let mut gatherer = self.shared.gatherer();
            let mut state = session.state();
            let classes: Vec<SlotClass> = claims.iter().map(|claim| gatherer.class_of(claim.route)).collect();
            let Some(inbox) = gatherer.session_mut(session.id) else { return Err(WorkerError::Moved) };
            state.repaired = Some(Instant::now());
            for (claim, class) in claims.into_iter().zip(classes) {
                if state.is_pending(claim.token) || !inbox.hold(&claim, class) {
                    continue;
                }
                if holding.contains(&claim.token) || finished.contains(&claim.token) {
                    state.delivered.insert(claim.token, Delivered { seq, assignment: None });
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
            assignments::execute(&self.shared, undelivered).await;
        }
        Ok(())
    }
}
