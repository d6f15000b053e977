//! Feeds the dispatch streams: the leader adds an entry for every claimable task run that has none.
//!
//! It remembers what it has added, and every two seconds reads what the streams still hold: what a flushed, restarted or failed
//! over Redis has lost is added again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{Connection, RedisError};
use super::dispatch::{entries, field, stream};
use super::outward::{RelayError, while_leading};
use super::settings::{Redis, RedisSettings};
use crate::node::Shared;

/// The most outstanding entries of a route. Later rows follow when earlier ones are claimed.
const AHEAD: i64 = 500;
/// The stream is trimmed to this length. Trimmed entries are added again.
const KEPT: &str = "10000";
const COMPARE_EVERY: Duration = Duration::from_secs(2);
/// Rows can become claimable without a message.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A claimable task run: its id, and how many attempts it has had.
type Claimable = (String, i32);

pub(crate) async fn run(shared: Arc<Shared>, redis: Redis) {
    while_leading(&shared, &redis.status, "what is claimable", || feed(&shared, &redis.settings)).await;
}

/// Feeds the streams until an error.
async fn feed(shared: &Shared, settings: &RedisSettings) -> Result<(), RelayError> {
    let mut redis = Connection::open(settings).await?;
    let mut added: HashMap<i32, HashSet<Claimable>> = HashMap::new();
    let mut compared: Option<Instant> = None;
    loop {
        let compares = compared.is_none_or(|compared| compared.elapsed() >= COMPARE_EVERY);
        if compares {
            compared = Some(Instant::now());
        }
        let routes = shared.gatherer().dispatched_routes();
        for route in routes {
            let known = added.entry(route).or_default();
            if compares {
                *known = outstanding(&mut redis, route).await?;
            }
            let rows = shared.client.store.claimable(route, AHEAD).await?;
            let rows: Vec<Claimable> = rows.into_iter().map(|(key, attempt)| (key.to_string(), attempt)).collect();
            let ready: HashSet<&Claimable> = rows.iter().collect();
            known.retain(|row| ready.contains(row));
            for row in rows {
                if !known.contains(&row) {
                    add(&mut redis, route, &row).await?;
                    known.insert(row);
                }
            }
        }
        tokio::select! {
            () = shared.client.bus.signals().dispatch_woken() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// What the stream of a route holds: read or not, acknowledged entries are removed.
async fn outstanding(redis: &mut Connection, route: i32) -> Result<HashSet<Claimable>, RedisError> {
    let reply = redis.ask(&["XRANGE", &stream(route), "-", "+", "COUNT", KEPT]).await?;
    let row = |(_, fields): (&str, _)| {
        Some((field(fields, "task_run_id")?.to_owned(), field(fields, "attempt")?.parse().ok()?))
    };
    Ok(entries(&reply).filter_map(row).collect())
}

async fn add(redis: &mut Connection, route: i32, (id, attempt): &Claimable) -> Result<(), RedisError> {
    let (stream, attempt, route) = (stream(route), attempt.to_string(), route.to_string());
    let arguments =
        ["XADD", &stream, "MAXLEN", "~", KEPT, "*", "task_run_id", id, "attempt", &attempt, "route", &route];
    redis.ask(&arguments).await.map(|_| ())
}
