//! Forgets what is older than it is to be kept, and makes room for what comes.

use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_store::{PurgeScope, Result, Term};

use super::leader_duty::LeaderDuty;
use crate::node::{NodeConfig, Shared};

/// Seldom: which events may go depends on every run that is open.
const FORGET_EVENTS_EVERY: Duration = Duration::from_secs(3_600);
/// Events are kept at least this long, however soon runs are forgotten.
const SHORTEST_EVENT_RETENTION: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Lanes of nodes that are gone, and nodes that never said goodbye.
const FORGET_NODES_AFTER: i64 = 3_600_000_000;

/// Seldom: nothing finds sessions by their end.
const FORGET_SESSIONS_EVERY: Duration = Duration::from_secs(3_600);
/// Sessions that ended are listed at least this long, and known to workers that slept.
const FORGET_SESSIONS_AFTER: i64 = 7 * 24 * 3_600_000_000;
/// Much more than clocks of nodes are apart.
const CLOCKS_APART: i64 = 24 * 3_600_000_000;

/// How many times as long as a chunk took the duty rests after it.
const RESTS_PER_CHUNK: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(2);

/// A worker may still fetch what an attempt was given just before its time was up.
const CACHES_OUTLIVE_THEIR_TIME: i64 = 3_600_000_000;

#[derive(Debug, Default)]
pub(crate) struct Retention {
    forgot_events: Option<Instant>,
    forgot_sessions: Option<Instant>,
}

impl LeaderDuty for Retention {
    const NAME: &'static str = "forgetting what is old";

    fn interval(&self, _: &NodeConfig) -> Duration {
        Duration::from_secs(60)
    }

    async fn act(&mut self, shared: &Shared, term: &Term) -> Result<()> {
        let store = &shared.client.store;
        let now = shared.client.now();
        store.ensure_history_partitions(now).await?;
        store.forget_lanes(now - FORGET_NODES_AFTER).await?;
        store.forget_members(now - FORGET_NODES_AFTER).await?;
        let mut pace = ChunkPace::new(shared, term);
        while store.forget_expired_caches(now - CACHES_OUTLIVE_THEIR_TIME).await? > 0 && pace.rest().await {}
        if self.forgot_sessions.is_none_or(|last| last.elapsed() >= FORGET_SESSIONS_EVERY) {
            while store.forget_sessions(now - FORGET_SESSIONS_AFTER, CLOCKS_APART).await? > 0 && pace.rest().await {}
            self.forgot_sessions = Some(Instant::now());
        }
        if !shared.config.retention_rules.is_empty() {
            by_rules(&mut pace, now).await?;
        }
        let Some(retention) = shared.config.retention else { return Ok(()) };
        let before = now - retention.as_micros() as i64;
        if shared.config.retention_rules.is_empty() {
            let mut scope = PurgeScope::ended_before(before);
            while store.purge_chunk(&mut scope).await?.is_some() && pace.rest().await {}
        }
        store.forget_fires(before).await?;
        if self.forgot_events.is_none_or(|last| last.elapsed() >= FORGET_EVENTS_EVERY) {
            let before = now - retention.max(SHORTEST_EVENT_RETENTION).as_micros() as i64;
            while store.forget_events(before).await? > 0 && pace.rest().await {}
            self.forgot_events = Some(Instant::now());
        }
        Ok(())
    }
}

/// Lets a duty that deletes much rest after each chunk, in proportion: work goes first, and the busier the database is, the
/// longer a chunk takes and the longer the rest.
struct ChunkPace<'a> {
    shared: &'a Shared,
    term: &'a Term,
    chunk_begun: Instant,
}

impl<'a> ChunkPace<'a> {
    fn new(shared: &'a Shared, term: &'a Term) -> Self {
        Self { shared, term, chunk_begun: Instant::now() }
    }

    /// Whether there may be another chunk.
    fn is_on(&self) -> bool {
        !self.shared.stop.is_cancelled() && self.shared.term.borrow().as_ref() == Some(self.term)
    }

    /// Rests; whether there may be another chunk.
    async fn rest(&mut self) -> bool {
        let rest = (self.chunk_begun.elapsed() * RESTS_PER_CHUNK).min(LONGEST_REST);
        let _ = self.shared.stop.run_until_cancelled(tokio::time::sleep(rest)).await;
        self.chunk_begun = Instant::now();
        self.is_on()
    }
}

/// Forgets the runs of each workflow after what the rules say of it.
async fn by_rules(pace: &mut ChunkPace<'_>, now: Micros) -> Result<()> {
    let shared = pace.shared;
    let store = &shared.client.store;
    for (id, namespace, name) in store.workflow_names().await? {
        let Some(kept) = kept_for(&shared.config, &namespace, &name) else { continue };
        let before = now - i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
        let mut scope = PurgeScope::ended_before(before).of_workflow(id);
        while pace.is_on() && store.purge_chunk(&mut scope).await?.is_some() {
            pace.rest().await;
        }
    }
    Ok(())
}

/// The rule of the workflow, else that of its namespace, else that of all.
fn kept_for(config: &NodeConfig, namespace: &str, name: &str) -> Option<Duration> {
    let rules = &config.retention_rules;
    let own = rules.get(&format!("{namespace}/{name}")).or_else(|| rules.get(namespace));
    own.copied().or(config.retention)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_rule_decides_how_long_runs_are_kept() {
        let days = |days: u64| Duration::from_secs(days * 24 * 3_600);
        let mut config = NodeConfig { retention: Some(days(30)), ..NodeConfig::default() };
        config.retention_rules.insert("reports".into(), days(7));
        config.retention_rules.insert("reports/audit".into(), days(365));
        assert_eq!(kept_for(&config, "reports", "audit"), Some(days(365)));
        assert_eq!(kept_for(&config, "reports", "daily"), Some(days(7)));
        assert_eq!(kept_for(&config, "sales", "audit"), Some(days(30)));
        config.retention = None;
        assert_eq!(kept_for(&config, "sales", "audit"), None);
    }
}
