//! Events from outside: entries of `stream:scheduler:events.in` become events, and are acknowledged after their commit.
//!
//! Every node that schedules reads as a consumer of one group, so an entry goes to one of them; what a dead one left is
//! claimed by another. The same entry twice is one event: its id follows from the entry. An entry that can never become an
//! event is moved to `stream:scheduler:events.in.rejected` with the reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::connection::{Connection, RedisError};
use super::consumers;
use super::resp::Reply;
use super::settings::{Redis, RedisSettings};
use crate::client::Client;
use crate::events::intake::{AnswerError, NewEvent};
use crate::node::Shared;

const STREAM: &str = "stream:scheduler:events.in";
const REJECTED: &str = "stream:scheduler:events.in.rejected";
const GROUP: &str = "scheduler-events";
const AT_ONCE: &str = "100";
const BLOCK: Duration = Duration::from_secs(2);
/// Entries that a consumer has held for this long without acknowledging them are claimed by another.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);
const AFTER_ERROR: Duration = Duration::from_secs(1);

pub(crate) async fn run(shared: Arc<Shared>, redis: Redis) {
    let Redis { settings, status } = redis;
    let consumer = shared.id.to_string();
    while !shared.stop.is_cancelled() {
        let mut reader = Reader { consumer: &consumer, client: &shared.client, claimed: None };
        if let Some(Err(error)) = shared.stop.run_until_cancelled(reader.read_on(&settings)).await {
            status.trouble(error.to_string());
        }
        let _ = shared.stop.run_until_cancelled(tokio::time::sleep(AFTER_ERROR)).await;
    }
    consumers::leave(&settings, &[STREAM.to_owned()], GROUP, &consumer).await;
}

struct Reader<'a> {
    consumer: &'a str,
    client: &'a Client,
    /// When abandoned entries were last asked for.
    claimed: Option<Instant>,
}

/// An entry of the stream.
struct Entry {
    id: String,
    fields: Vec<(String, String)>,
}

impl Entry {
    fn read(reply: &Reply) -> Option<Self> {
        let [id, fields] = reply.list() else { return None };
        let texts: Vec<String> = fields.list().iter().filter_map(|field| field.text().map(str::to_owned)).collect();
        let fields = texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        Some(Self { id: id.text()?.to_owned(), fields })
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The event, and the id that makes a repetition harmless.
    fn event(&self) -> Result<(Uuid, NewEvent), String> {
        let name = self.field("event_name").ok_or("it has no field `event_name`")?.to_owned();
        let namespace = self.field("namespace").filter(|name| !name.is_empty()).unwrap_or("default").to_owned();
        let data = match self.field("data") {
            None | Some("") => Value::Object(serde_json::Map::new()),
            Some(text) => serde_json::from_str(text).map_err(|error| format!("`data` is not JSON: {error}"))?,
        };
        let id = event_id(&namespace, self.field("id").filter(|id| !id.is_empty()), &self.id);
        let key = self.field("key").map(str::to_owned);
        Ok((id, NewEvent { namespace, name, key, data, source: format!("redis {}", self.id) }))
    }
}

/// The sender's id if it is a UUID that can be kept; otherwise an id derived from the sender's id or the entry.
fn event_id(namespace: &str, given: Option<&str>, entry: &str) -> Uuid {
    let (kind, text) = given.map_or(("entry", entry), |given| ("id", given));
    let mut hash = Sha256::new();
    for part in [namespace, kind, text] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

impl Reader<'_> {
    /// Reads until an error.
    async fn read_on(&mut self, settings: &RedisSettings) -> Result<(), RedisError> {
        let mut redis = Connection::open(settings).await?;
        make_group(&mut redis).await?;
        consumers::forget_abandoned(&mut redis, STREAM, GROUP).await?;
        let block = BLOCK.as_millis().to_string();
        loop {
            let mut entries = self.abandoned(&mut redis).await?;
            let arguments = [
                "XREADGROUP",
                "GROUP",
                GROUP,
                self.consumer,
                "COUNT",
                AT_ONCE,
                "BLOCK",
                &block,
                "STREAMS",
                STREAM,
                ">",
            ];
            match redis.ask_blocking(&arguments, BLOCK).await {
                Ok(reply) => {
                    let read = reply.list().first().and_then(|stream| stream.list().get(1));
                    entries.extend(read.map_or(&[][..], Reply::list).iter().filter_map(Entry::read));
                }
                // A flushed Redis has lost the group.
                Err(RedisError::Refused { message, .. }) if message.starts_with("NOGROUP") => {
                    make_group(&mut redis).await?;
                }
                Err(error) => return Err(error),
            }
            for entry in entries {
                self.take(&mut redis, &entry).await?;
            }
        }
    }

    /// Claims entries that another consumer abandoned.
    async fn abandoned(&mut self, redis: &mut Connection) -> Result<Vec<Entry>, RedisError> {
        if self.claimed.is_some_and(|last| last.elapsed() < ABANDONED_AFTER / 2) {
            return Ok(Vec::new());
        }
        self.claimed = Some(Instant::now());
        let idle = ABANDONED_AFTER.as_millis().to_string();
        let arguments = ["XAUTOCLAIM", STREAM, GROUP, self.consumer, &idle, "0-0", "COUNT", AT_ONCE];
        match redis.ask(&arguments).await {
            Ok(reply) => Ok(reply.list().get(1).map_or(&[][..], Reply::list).iter().filter_map(Entry::read).collect()),
            Err(RedisError::Refused { message, .. }) if message.starts_with("NOGROUP") => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Stores an event. An event that is stored already is not announced again: its sender repeated it, or this node
    /// died before the acknowledgement.
    async fn store(&self, id: Uuid, event: NewEvent) -> Result<(), AnswerError> {
        match self.client.store.event(id).await? {
            Some(_) => Ok(()),
            None => self.client.emit_as(id, event).await.map(|_| ()),
        }
    }

    /// Stores an entry as an event, then acknowledges it: a process that dies in between leaves the entry to be read again.
    async fn take(&self, redis: &mut Connection, entry: &Entry) -> Result<(), RedisError> {
        let rejected = match entry.event() {
            Err(reason) => Some(reason),
            Ok((id, event)) => loop {
                match self.store(id, event.clone()).await {
                    Ok(()) => break None,
                    Err(AnswerError::Store(error)) if error.is_transient() => {
                        tracing::warn!(%error, entry = entry.id, "storing an event from Redis; it waits");
                        tokio::time::sleep(AFTER_ERROR).await;
                    }
                    Err(error) => break Some(error.to_string()),
                }
            },
        };
        if let Some(reason) = rejected {
            tracing::warn!(entry = entry.id, reason, "an entry from Redis is no event");
            let mut arguments =
                vec!["XADD", REJECTED, "MAXLEN", "~", "1000", "*", "entry", &entry.id, "reason", &reason];
            for (field, value) in &entry.fields {
                arguments.extend([field.as_str(), value.as_str()]);
            }
            redis.ask(&arguments).await?;
        }
        redis.ask(&["XACK", STREAM, GROUP, &entry.id]).await.map(|_| ())
    }
}

async fn make_group(redis: &mut Connection) -> Result<(), RedisError> {
    // From the first entry on, because entries that were sent before any node listened count too.
    match redis.ask(&["XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM"]).await {
        Err(RedisError::Refused { message, .. }) if message.starts_with("BUSYGROUP") => Ok(()),
        made => made.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &[(&str, &str)]) -> Entry {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Entry { id: "1-0".into(), fields }
    }

    #[test]
    fn entries_become_events() {
        let (id, event) = entry(&[("event_name", "a.b"), ("data", "{\"x\":1}"), ("id", "7")]).event().unwrap();
        assert_eq!(
            (event.name.as_str(), event.namespace.as_str(), event.data["x"].as_i64()),
            ("a.b", "default", Some(1))
        );
        let again = entry(&[("event_name", "a.b"), ("id", "7")]).event().unwrap().0;
        assert_eq!(id, again, "the same id is the same event");
        let other = entry(&[("event_name", "a.b"), ("id", "7"), ("namespace", "n")]).event().unwrap().0;
        assert_ne!(id, other, "namespaces do not share ids");
        assert!(entry(&[("data", "{}")]).event().unwrap_err().contains("event_name"));
        assert!(entry(&[("event_name", "a"), ("data", "{")]).event().unwrap_err().contains("not JSON"));
    }
}
