//! Duties of the leader: one file per duty, one loop for all.
//!
//! A duty starts with a term and stops with it. Its every unit holds the term in the store, so a duty that goes on for
//! a moment after a takeover changes nothing. To add one: a file with an implementation of [`LeaderDuty`], and its line
//! in `Node::start_leader_duties`.

use std::sync::Arc;
use std::time::Duration;

use mainspring_store::{Result, Term};

use crate::node::{NodeConfig, Shared};

pub(crate) trait LeaderDuty: Send + 'static {
    /// The name for log messages.
    const NAME: &'static str;

    /// The pause between two passes.
    fn interval(&self, config: &NodeConfig) -> Duration;

    /// One pass.
    fn act(&mut self, shared: &Shared, term: &Term) -> impl Future<Output = Result<()>> + Send;
}

/// Runs a duty whenever this node leads, until it stops.
pub(crate) async fn run<D: LeaderDuty>(shared: Arc<Shared>, mut duty: D) {
    let mut terms = shared.term.subscribe();
    loop {
        let held = match shared.stop.run_until_cancelled(terms.wait_for(Option::is_some)).await {
            Some(Ok(term)) => term.clone(),
            _ => return,
        };
        let Some(term) = held else { continue };
        while terms.borrow().as_ref() == Some(&term) {
            if let Err(error) = duty.act(&shared, &term).await {
                tracing::warn!(%error, duty = D::NAME, "a duty of the leader did not succeed; it is tried again");
            }
            tokio::select! {
                () = shared.stop.cancelled() => return,
                _ = terms.changed() => {}
                () = tokio::time::sleep(duty.interval(&shared.config)) => {}
            }
        }
    }
}
