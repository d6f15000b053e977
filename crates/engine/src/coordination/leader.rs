//! Leadership and its duties: finding dead sessions, ending overdue runs, sweeping, forgetting.
//!
//! Deadness is a mark, never a time: the leader measures with its own monotonic clock how long a beat stood still, and
//! only while it can read the store. Every unit of a leader holds its term.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_store::{Result, Store, Term};

use crate::bus::{BusMessage, ClaimableRoutes};
use crate::node::{NodeConfig, Shared};

/// The name of the term whose holder leads.
pub const DUTY: &str = "scheduler";
const SWEEP_EVERY: Duration = Duration::from_secs(5);
const RECONCILE_EVERY: Duration = Duration::from_secs(60);
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// Seldom: which events may go depends on every run that is open.
const FORGET_EVENTS_EVERY: Duration = Duration::from_secs(3_600);
/// Events are kept at least so long, however soon runs are forgotten.
const EVENTS_LAST: Duration = Duration::from_secs(7 * 24 * 3_600);

/// How long something has been seen standing still.
#[derive(Debug, Default)]
struct Standing {
    seen: HashMap<i64, (i64, Duration)>,
    looked: Option<Instant>,
}

impl Standing {
    /// Begins a look; returns the time that it adds. Time in which nobody looked adds next to nothing: whoever beats was
    /// perhaps kept from the store just like us, and must get the chance to beat again.
    fn look(&mut self, now: Instant, pace: Duration) -> Duration {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |last| now.duration_since(last));
        since.min(pace * 3 / 2)
    }

    /// Notes a beat; returns for how long it has been the same.
    fn note(&mut self, id: i64, beat: i64, passed: Duration) -> Duration {
        match self.seen.get_mut(&id) {
            Some(entry) if entry.0 == beat => {
                entry.1 += passed;
                entry.1
            }
            _ => {
                self.seen.insert(id, (beat, Duration::ZERO));
                Duration::ZERO
            }
        }
    }
}

/// How often a node looks whether it must lead, and a leader at its duties.
fn pace(config: &NodeConfig) -> Duration {
    config.heartbeat.min(config.lease_ttl / 3)
}

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(pace(&shared.config));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut lead = Leadership::default();
    while shared.stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = lead.turn(&shared).await {
            // What could not be read cannot be judged: start measuring anew.
            tracing::warn!(%error, "leading");
            lead.sessions = Standing::default();
            lead.holder = Standing::default();
        }
    }
    shared.term.send_replace(None);
    if let Some(term) = lead.term
        && let Err(error) = shared.client.store.release_term(&term).await
    {
        tracing::warn!(%error, "giving up leadership; another will notice");
    }
}

#[derive(Debug, Default)]
struct Leadership {
    term: Option<Term>,
    holder: Standing,
    sessions: Standing,
    swept: Option<Instant>,
    reconciled: Option<Instant>,
    forgot: Option<Instant>,
    forgot_events: Option<Instant>,
}

impl Leadership {
    async fn turn(&mut self, shared: &Shared) -> Result<()> {
        let store = &shared.client.store;
        let term = match self.term.clone() {
            Some(term) if store.beat_term(&term).await? => term,
            Some(_) => {
                tracing::warn!("leadership was taken over");
                *self = Self::default();
                shared.term.send_replace(None);
                return Ok(());
            }
            None => match self.try_to_lead(shared).await? {
                Some(term) => term,
                None => return Ok(()),
            },
        };
        self.find_dead(shared, &term).await?;
        if store.expire_runs(shared.client.now(), &term).await? > 0 {
            shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        self.keep_house(shared, store, &term).await
    }

    async fn try_to_lead(&mut self, shared: &Shared) -> Result<Option<Term>> {
        let store = &shared.client.store;
        let seen = store.term(DUTY).await?;
        if let Some(term) = &seen {
            let passed = self.holder.look(Instant::now(), pace(&shared.config));
            let stood = self.holder.note(term.epoch, term.beat, passed);
            if !term.released && stood < shared.config.lease_ttl {
                return Ok(None);
            }
        }
        let taken = store.take_term(DUTY, shared.id, shared.client.clock.new_id(), seen.as_ref()).await?;
        if let Some(term) = &taken {
            tracing::info!(epoch = term.epoch, "this node leads");
            self.term = taken.clone();
            shared.term.send_replace(taken.clone());
            self.sessions = Standing::default();
        }
        Ok(taken)
    }

    async fn find_dead(&mut self, shared: &Shared, term: &Term) -> Result<()> {
        let store = &shared.client.store;
        let live = store.live_sessions().await?;
        let passed = self.sessions.look(Instant::now(), pace(&shared.config));
        self.sessions.seen.retain(|id, _| live.iter().any(|session| session.id == *id));
        for session in live {
            if self.sessions.note(session.id, session.beat, passed) < shared.config.lease_ttl {
                continue;
            }
            let returned = store.reap_session(shared.client.now(), session.id, session.beat, term).await?;
            tracing::warn!(
                session = session.id,
                worker = session.worker,
                returned,
                "a worker is lost; what it held goes on elsewhere"
            );
            shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        Ok(())
    }

    async fn keep_house(&mut self, shared: &Shared, store: &Store, term: &Term) -> Result<()> {
        let now = Instant::now();
        if is_due(&mut self.swept, SWEEP_EVERY, now) && store.sweep_claims(shared.client.now(), term).await? > 0 {
            shared.client.bus.publish(BusMessage::Claimable(ClaimableRoutes::Any));
        }
        if is_due(&mut self.reconciled, RECONCILE_EVERY, now) {
            let mended = store.reconcile_limits(shared.client.now(), term).await?;
            if mended > 0 {
                tracing::error!(mended, "limits held other than what was counted; mended");
            }
        }
        if is_due(&mut self.forgot, FORGET_EVERY, now) {
            store.ensure_history_partitions(shared.client.now()).await?;
            store.forget_lanes(shared.client.now() - 3_600_000_000).await?;
            if let Some(retention) = shared.config.retention {
                let before = shared.client.now() - retention.as_micros() as i64;
                while store.purge_runs(before, None).await?.runs > 0 && !shared.stop.is_cancelled() {}
                store.forget_fires(before).await?;
            }
        }
        if let Some(retention) = shared.config.retention
            && is_due(&mut self.forgot_events, FORGET_EVENTS_EVERY, now)
        {
            let before = shared.client.now() - retention.max(EVENTS_LAST).as_micros() as i64;
            while store.forget_events(before).await? > 0 && !shared.stop.is_cancelled() {}
        }
        Ok(())
    }
}

/// Whether something that happens every so often is due; notes it if so.
fn is_due(last: &mut Option<Instant>, every: Duration, now: Instant) -> bool {
    let due = last.is_none_or(|last| now.duration_since(last) >= every);
    if due {
        *last = Some(now);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let pace = Duration::from_secs(1);
        let start = Instant::now();
        let mut standing = Standing::default();
        let mut stood = |second: u64, beat: i64| {
            let passed = standing.look(start + Duration::from_secs(second), pace);
            standing.note(7, beat, passed).as_millis()
        };
        assert_eq!(stood(0, 1), 0);
        assert_eq!(stood(1, 1), 1_000);
        assert_eq!(stood(60, 1), 2_500, "the store was away for a minute, and so it was for the others");
        assert_eq!(stood(61, 2), 0);
        assert_eq!(stood(62, 2), 1_000);
        assert_eq!(stood(63, 2), 2_000);
    }
}
