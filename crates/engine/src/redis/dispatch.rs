//! Dispatch streams: what is claimable on queues with `transport = "redis"`, an entry per task run, a stream per route.
//!
//! An entry is a hint that permits one claim: the row is claimed in the database like any other, under the same lease, and the
//! entry is acknowledged and removed when that claim is committed. `dispatch_feed` writes the entries, `dispatch_reader` turns them
//! into tickets of this node. Loss, repetition and delay of entries are harmless: the feeder compares what is claimable with what
//! is in the stream, and every node also looks by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use super::resp::Reply;

/// The settings of dispatch by Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchConfig {
    /// The queues that streams dispatch; none by default.
    pub queues: BTreeSet<String>,
    /// The consumer group that shares the entries.
    pub group: String,
    /// How many entries a node reads at once.
    pub batch: usize,
    /// How long an idle node waits for entries at a time.
    pub block: Duration,
}

impl Default for DispatchConfig {
    fn default() -> Self {
        Self {
            queues: BTreeSet::new(),
            group: "scheduler-workers".into(),
            batch: 10,
            block: Duration::from_millis(5_000),
        }
    }
}

/// The stream of a route.
pub(super) fn stream(route: i32) -> String {
    format!("{PREFIX}{route}")
}

/// The route of a stream.
pub(super) fn route(stream: &str) -> Option<i32> {
    stream.strip_prefix(PREFIX)?.parse().ok()
}

const PREFIX: &str = "stream:scheduler:job.dispatch:";

/// The ids and the fields of entries; those that were removed meanwhile have none.
pub(super) fn entries(reply: &Reply) -> impl Iterator<Item = (&str, &[Reply])> {
    reply.list().iter().filter_map(|entry| match entry.list() {
        [id, fields] => Some((id.text()?, fields.list())),
        _ => None,
    })
}

/// The value of a field.
pub(super) fn field<'a>(fields: &'a [Reply], name: &str) -> Option<&'a str> {
    fields.chunks_exact(2).find(|pair| pair[0].text() == Some(name)).and_then(|pair| pair[1].text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_names_its_route() {
        assert_eq!(stream(7), "stream:scheduler:job.dispatch:7");
        assert_eq!(route(&stream(7)), Some(7));
        assert_eq!(route("stream:scheduler:events.in"), None);
    }
}
