//! Lifecycle events to the outside: the numbered log of every run, in `stream:scheduler:events.out`, at least once.
//!
//! The leader watches which runs change and appends what their logs have gained. The position reached in each run's log is kept in Redis
//! beside the stream: when Redis has lost it, or could not store it, events are sent again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::RunId;
use mainspring_store::{Error, RunEvent, RunSummary};

use super::connection::{Connection, RedisError};
use super::outward::{RelayError, append, while_leading};
use super::settings::{Redis, RedisSettings};
use crate::live::{LiveMessage, LiveUpdate, MessageType, WideFilter, WideSubscription};
use crate::node::Shared;
use crate::specs::Spec;

const POSITION: &str = "scheduler:events.out:position:";
/// How long a position is kept after the last event of its run.
const POSITION_LASTS: &str = "86400";
const PAGE: i64 = 100;
/// Runs that change meanwhile are looked at together.
const GATHER: Duration = Duration::from_millis(50);

pub(crate) async fn run(shared: Arc<Shared>, redis: Redis) {
    let relay = || async { Relay { shared: &shared, changed: BTreeSet::new() }.run(&redis.settings).await };
    while_leading(&shared, &redis.status, "logs of runs", relay).await;
}

struct Relay<'a> {
    shared: &'a Shared,
    changed: BTreeSet<RunId>,
}

impl Relay<'_> {
    /// Follows until an error. It begins with a snapshot: what changed meanwhile is found by positions.
    async fn run(&mut self, settings: &RedisSettings) -> Result<(), RelayError> {
        let mut redis = Connection::open(settings).await?;
        let types = vec![MessageType::WorkflowStatus, MessageType::TaskStatus];
        let filter = WideFilter { namespaces: None, workflow: None, types };
        let mut subscription = self.shared.client.live.subscribe(filter).await?;
        loop {
            if !self.gather(&mut subscription).await? {
                return Ok(());
            }
            while let Some(run) = self.changed.first().copied() {
                self.relay(&mut redis, run).await?;
                self.changed.remove(&run);
            }
        }
    }

    /// Waits for changes, and takes those that come right after; false when there will be none any more.
    async fn gather(&mut self, subscription: &mut WideSubscription) -> Result<bool, RelayError> {
        let mut next = subscription.next().await?;
        let until = tokio::time::Instant::now() + GATHER;
        loop {
            match next {
                LiveUpdate::Message(LiveMessage { run: Some(run), .. }) => _ = self.changed.insert(run),
                LiveUpdate::Message(_) => {}
                LiveUpdate::Over(_) => return Ok(false),
            }
            next = match tokio::time::timeout_at(until, subscription.next()).await {
                Ok(message) => message?,
                Err(_) => return Ok(true),
            };
        }
    }

    async fn relay(&self, redis: &mut Connection, run: RunId) -> Result<(), RelayError> {
        let client = &self.shared.client;
        let key = format!("{POSITION}{run}");
        let position = redis.ask(&["GET", &key]).await?;
        let mut position: i64 = position.text().and_then(|text| text.parse().ok()).unwrap_or(0);
        loop {
            let (summary, log) = match client.store.run_summary(run).await {
                Ok(summary) => (summary, client.store.run_log(run, position, PAGE).await?),
                Err(Error::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if log.events.is_empty() {
                return Ok(());
            }
            let spec = client.specs.get(summary.version).await?;
            for event in &log.events {
                send(redis, &summary, &spec, event).await?;
                position = event.seq;
            }
            redis.ask(&["SET", &key, &position.to_string(), "EX", POSITION_LASTS]).await?;
        }
    }
}

async fn send(redis: &mut Connection, run: &RunSummary, spec: &Spec, event: &RunEvent) -> Result<(), RedisError> {
    let message = LiveMessage::event(run, spec, event);
    let (id, seq) = (run.id.to_string(), event.seq.to_string());
    let fields: [(&str, &str); 6] = [
        ("event", message.kind.word()),
        ("namespace", &run.namespace),
        ("workflow", &run.workflow),
        ("run", &id),
        ("seq", &seq),
        ("data", &message.text),
    ];
    append(redis, &fields).await
}
