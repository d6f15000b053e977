//! The election: one node holds the term, and every unit of its duties holds it too.
//!
//! A term is made in the database by compare-and-swap. It may be taken when its holder released it, when its beat stood
//! still for its lease, or at once when the coordinator knows that the holder is gone. What the leader does meanwhile is
//! not decided here: the duties watch `Shared::term`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_store::{Result, Term};

use super::LeadershipNote;
use super::standing::StandstillTimer;
use crate::bus::BusMessage;
use crate::node::{NodeConfig, Shared};

/// The name of the term whose holder leads.
pub const DUTY: &str = "scheduler";

/// How often a node checks whether it must lead, and how often a leader beats.
pub(crate) fn pace(config: &NodeConfig) -> Duration {
    config.heartbeat.min(config.lease_ttl / 3)
}

/// Stands for election until the node resigns or stops, then hands over.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(pace(&shared.config));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut candidate = Candidate::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.client.coordinator.changed() => {}
            () = shared.client.bus.signals().leadership_was_released() => {}
            () = shared.resign.cancelled() => break,
            () = shared.stop.cancelled() => break,
        }
        if let Err(error) = candidate.step(&shared).await {
            // A failed read proves nothing about the holder, so measuring starts anew.
            tracing::warn!(%error, "standing for election");
            candidate.holder = StandstillTimer::default();
        }
    }
    candidate.hand_over(&shared).await;
    shared.resigned.cancel();
}

#[derive(Debug, Default)]
struct Candidate {
    term: Option<Term>,
    /// How long the beat of each epoch has stood still.
    holder: StandstillTimer<i64>,
}

impl Candidate {
    async fn step(&mut self, shared: &Shared) -> Result<()> {
        let Some(term) = &self.term else { return self.try_to_lead(shared).await };
        if !shared.client.store.beat_term(term).await? {
            tracing::warn!(epoch = term.epoch, "leadership was taken over");
            *self = Self::default();
            shared.term.send_replace(None);
            shared.client.coordinator.note_leadership(None);
        }
        Ok(())
    }

    async fn try_to_lead(&mut self, shared: &Shared) -> Result<()> {
        let store = &shared.client.store;
        let seen = store.term(DUTY).await?;
        if let Some(term) = &seen {
            let passed = self.holder.look(Instant::now(), pace(&shared.config));
            let stood = self.holder.note(term.epoch, term.beat, passed);
            let is_gone = || shared.client.coordinator.is_gone(term.node);
            if !term.released && stood < shared.config.lease_ttl && !is_gone() {
                return Ok(());
            }
        }
        let taken = store.take_term(DUTY, shared.id, shared.client.clock.new_id(), seen.as_ref()).await?;
        if let Some(term) = taken {
            tracing::info!(epoch = term.epoch, "this node leads");
            shared.client.coordinator.note_leadership(Some(LeadershipNote { node: shared.id, epoch: term.epoch }));
            shared.term.send_replace(Some(term.clone()));
            self.term = Some(term);
        }
        Ok(())
    }

    /// Releases the term, so that another node can take it at once.
    async fn hand_over(self, shared: &Shared) {
        shared.term.send_replace(None);
        let Some(term) = self.term else { return };
        match shared.client.store.release_term(&term).await {
            Ok(()) => {
                tracing::info!(epoch = term.epoch, "this node does not lead any more");
                shared.client.coordinator.note_leadership(None);
                shared.client.bus.publish(BusMessage::LeadershipReleased);
            }
            Err(error) => tracing::warn!(%error, "giving up leadership; another node will notice"),
        }
    }
}
