//! Leadership and its duties: finding dead sessions, ending overdue runs, sweeping, forgetting.
//!
//! Deadness is a mark, never a time: the leader measures with its own monotonic clock how long a beat stood still, and
//! only while it can read the store. Every unit of a leader holds its term.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_store::{Result, Store, Term};

use crate::node::Shared;

/// The name of the term whose holder leads.
pub const DUTY: &str = "scheduler";
const SWEEP_EVERY: Duration = Duration::from_secs(5);
const RECONCILE_EVERY: Duration = Duration::from_secs(60);
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// How long something has been seen standing still.
#[derive(Debug, Default)]
struct Standing {
    seen: HashMap<i64, (i64, Instant)>,
}

impl Standing {
    /// Notes a beat; returns for how long it has been the same.
    fn note(&mut self, id: i64, beat: i64, now: Instant) -> Duration {
        let entry = self.seen.entry(id).or_insert((beat, now));
        if entry.0 != beat {
            *entry = (beat, now);
        }
        now.duration_since(entry.1)
    }
}

pub(crate) async fn run(shared: Arc<Shared>) {
    let pace = shared.config.heartbeat.min(shared.config.lease_ttl / 3);
    let mut ticks = tokio::time::interval(pace);
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
}

impl Leadership {
    async fn turn(&mut self, shared: &Shared) -> Result<()> {
        let store = &shared.client.store;
        let term = match self.term.clone() {
            Some(term) if store.beat_term(&term).await? => term,
            Some(_) => {
                tracing::warn!("leadership was taken over");
                *self = Self::default();
                return Ok(());
            }
            None => match self.try_to_lead(shared).await? {
                Some(term) => term,
                None => return Ok(()),
            },
        };
        self.find_dead(shared, &term).await?;
        if store.expire_runs(shared.client.now(), &term).await? > 0 {
            shared.client.bell.look();
        }
        self.keep_house(shared, store, &term).await
    }

    async fn try_to_lead(&mut self, shared: &Shared) -> Result<Option<Term>> {
        let store = &shared.client.store;
        let seen = store.term(DUTY).await?;
        if let Some(term) = &seen {
            let stood = self.holder.note(term.epoch, term.beat, Instant::now());
            if !term.released && stood < shared.config.lease_ttl {
                return Ok(None);
            }
        }
        let taken = store.take_term(DUTY, shared.id, shared.client.clock.new_id(), seen.as_ref()).await?;
        if let Some(term) = &taken {
            tracing::info!(epoch = term.epoch, "this node leads");
            self.term = taken.clone();
            self.sessions = Standing::default();
        }
        Ok(taken)
    }

    async fn find_dead(&mut self, shared: &Shared, term: &Term) -> Result<()> {
        let store = &shared.client.store;
        let live = store.live_sessions().await?;
        let now = Instant::now();
        self.sessions.seen.retain(|id, _| live.iter().any(|session| session.id == *id));
        for session in live {
            if self.sessions.note(session.id, session.beat, now) < shared.config.lease_ttl {
                continue;
            }
            let returned = store.reap_session(shared.client.now(), session.id, session.beat, term).await?;
            tracing::warn!(
                session = session.id,
                worker = session.worker,
                returned,
                "a worker is lost; what it held goes on elsewhere"
            );
            shared.client.bell.look();
        }
        Ok(())
    }

    async fn keep_house(&mut self, shared: &Shared, store: &Store, term: &Term) -> Result<()> {
        let now = Instant::now();
        if is_due(&mut self.swept, SWEEP_EVERY, now) && store.sweep_claims(shared.client.now(), term).await? > 0 {
            shared.client.bell.look();
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
            }
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
