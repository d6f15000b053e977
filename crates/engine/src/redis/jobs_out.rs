//! `scheduler:job.created|completed|failed` to the outside, in `stream:scheduler:events.out`, at least once.
//!
//! They are events of the database already; the leader reads them behind a position that is kept in Redis beside the stream.
//! Events that commit late have an earlier time than others that were told: a while before the position is read again, and
//! what was told in this term is left out. A Redis that forgot the position is told the last hour again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_store::EventRow;
use uuid::Uuid;

use super::connection::{Connection, RedisError};
use super::events_out::{KEPT, RelayError, STREAM};
use super::settings::{Redis, RedisSettings};
use crate::node::Shared;

const POSITION: &str = "scheduler:events.out:jobs";
/// How long a commit may take that had its time before.
const OVERLAP: Micros = 120_000_000;
/// What a Redis without a position is told again.
const TOLD_AGAIN: Micros = 3_600_000_000;
const PAGE: i64 = 500;
const LOOK_EVERY: Duration = Duration::from_millis(500);
const AFTER_ERROR: Duration = Duration::from_secs(1);

pub(crate) async fn run(shared: Arc<Shared>, redis: Redis) {
    let Redis { settings, status } = redis;
    let mut terms = shared.term.subscribe();
    loop {
        match shared.stop.run_until_cancelled(terms.wait_for(Option::is_some)).await {
            Some(Ok(_)) => {}
            _ => return,
        }
        tokio::select! {
            ended = relay(&shared, &settings) => match ended {
                Err(RelayError::Redis(error)) => status.trouble(error.to_string()),
                Err(RelayError::Store(error)) => tracing::debug!(%error, "reading events of jobs to tell Redis"),
                Ok(()) => {}
            },
            _ = terms.wait_for(Option::is_none) => {}
            () = shared.stop.cancelled() => return,
        }
        let _ = shared.stop.run_until_cancelled(tokio::time::sleep(AFTER_ERROR)).await;
    }
}

/// Tells until something is amiss.
async fn relay(shared: &Shared, settings: &RedisSettings) -> Result<(), RelayError> {
    let mut redis = Connection::open(settings).await?;
    let mut told: BTreeMap<(Micros, Uuid), ()> = BTreeMap::new();
    loop {
        let kept = redis.ask(&["GET", POSITION]).await?;
        let now = shared.client.now();
        let position: Option<Micros> = kept.text().and_then(|text| text.parse().ok());
        let from = position.map_or(now - TOLD_AGAIN, |position| position - OVERLAP);
        if position.is_none() {
            told.clear();
            redis.ask(&["SET", POSITION, &from.to_string()]).await?;
        }
        told = told.split_off(&(from, Uuid::nil()));
        let mut behind = (from, Uuid::nil());
        loop {
            let events = shared.client.store.job_events_behind(behind, PAGE).await?;
            for event in events.iter().filter(|event| !told.contains_key(&(event.created_at, event.id))) {
                tell(&mut redis, event).await?;
            }
            told.extend(events.iter().map(|event| ((event.created_at, event.id), ())));
            match events.last() {
                Some(last) if events.len() == PAGE as usize => behind = (last.created_at, last.id),
                _ => break,
            }
        }
        let reached = told.last_key_value().map_or(now - OVERLAP, |((at, _), ())| *at);
        // Only where there is one: a Redis that was flushed since it was read has lost what was just told, too.
        let reached = reached.max(position.unwrap_or(from)).to_string();
        redis.ask(&["SET", POSITION, &reached, "XX"]).await?;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn tell(redis: &mut Connection, event: &EventRow) -> Result<(), RedisError> {
    let (id, run) = (event.id.to_string(), event.run.map(|run| run.to_string()).unwrap_or_default());
    let data = event.data.to_string();
    let job = event.key.as_deref().unwrap_or_default();
    let arguments = [
        "XADD",
        STREAM,
        "MAXLEN",
        "~",
        KEPT,
        "*",
        "event",
        &event.name,
        "namespace",
        &event.namespace,
        "job",
        job,
        "run",
        &run,
        "id",
        &id,
        "data",
        &data,
    ];
    redis.ask(&arguments).await.map(|_| ())
}
