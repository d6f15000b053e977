//! `scheduler:job.created|completed|failed` to the outside, in `stream:scheduler:events.out`, at least once.
//!
//! They are events of the database already; the leader reads them behind a position that is kept in Redis beside the stream.
//! Events that commit late have an earlier time than others that were sent: a while before the position is read again, and
//! what was sent in this term is left out. A Redis that lost the position gets the last hour again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_store::EventRow;
use uuid::Uuid;

use super::connection::{Connection, RedisError};
use super::outward::{RelayError, append, while_leading};
use super::settings::{Redis, RedisSettings};
use crate::node::Shared;

const POSITION: &str = "scheduler:events.out:jobs";
/// How long a commit may take after the time of its event.
const OVERLAP: Micros = 120_000_000;
/// How far back events are sent again when Redis has no position.
const SENT_AGAIN: Micros = 3_600_000_000;
const PAGE: i64 = 500;
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn run(shared: Arc<Shared>, redis: Redis) {
    let relay = || relay(&shared, &redis.settings);
    while_leading(&shared, &redis.status, "events of jobs", relay).await;
}

/// Relays until an error.
async fn relay(shared: &Shared, settings: &RedisSettings) -> Result<(), RelayError> {
    let mut redis = Connection::open(settings).await?;
    let mut sent: BTreeMap<(Micros, Uuid), ()> = BTreeMap::new();
    loop {
        let kept = redis.ask(&["GET", POSITION]).await?;
        let now = shared.client.now();
        let position: Option<Micros> = kept.text().and_then(|text| text.parse().ok());
        let from = position.map_or(now - SENT_AGAIN, |position| position - OVERLAP);
        if position.is_none() {
            sent.clear();
            redis.ask(&["SET", POSITION, &from.to_string()]).await?;
        }
        sent = sent.split_off(&(from, Uuid::nil()));
        let mut behind = (from, Uuid::nil());
        loop {
            let events = shared.client.store.job_events_behind(behind, PAGE).await?;
            for event in events.iter().filter(|event| !sent.contains_key(&(event.created_at, event.id))) {
                send(&mut redis, event).await?;
            }
            sent.extend(events.iter().map(|event| ((event.created_at, event.id), ())));
            match events.last() {
                Some(last) if events.len() == PAGE as usize => behind = (last.created_at, last.id),
                _ => break,
            }
        }
        let reached = sent.last_key_value().map_or(now - OVERLAP, |((at, _), ())| *at);
        // A position is written only where there is one: a flushed Redis has lost the events too.
        let reached = reached.max(position.unwrap_or(from)).to_string();
        redis.ask(&["SET", POSITION, &reached, "XX"]).await?;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn send(redis: &mut Connection, event: &EventRow) -> Result<(), RedisError> {
    let (id, run) = (event.id.to_string(), event.run.map(|run| run.to_string()).unwrap_or_default());
    let data = event.data.to_string();
    let job = event.key.as_deref().unwrap_or_default();
    let fields: [(&str, &str); 6] = [
        ("event", &event.name),
        ("namespace", &event.namespace),
        ("job", job),
        ("run", &run),
        ("id", &id),
        ("data", &data),
    ];
    append(redis, &fields).await
}
