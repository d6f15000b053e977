//! Reads the dispatch streams as a consumer of one group: an entry becomes a ticket of this node, and is acknowledged and removed
//! when the exchange that used it is applied.
//!
//! A node reads for routes that its sessions serve and have free slots for, so a busy node leaves entries to others. What a dead
//! node has read is claimed after the lease. Every two seconds a node looks without a ticket: nothing depends on Redis.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::connection::{Connection, RedisError};
use super::consumers;
use super::dispatch::{DispatchConfig, entries, route, stream};
use super::resp::Reply;
use super::settings::{Redis, RedisSettings};
use crate::exchange::tickets::Ticket;
use crate::node::Shared;

/// How long a node waits for entries while slots for other routes may become free.
const BLOCK_WHILE_WORKING: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_secs(2);
const AFTER_ERROR: Duration = Duration::from_secs(1);

pub(crate) async fn run(shared: Arc<Shared>, redis: Redis) {
    let Redis { settings, status } = redis;
    let changed = shared.gatherer().dispatch(&shared.config.dispatch.queues);
    let consumer = shared.id.to_string();
    let mut routes_read = HashSet::new();
    while !shared.stop.is_cancelled() {
        let mut reader = Reader {
            shared: &shared,
            config: &shared.config.dispatch,
            consumer: &consumer,
            changed: &changed,
            groups: HashSet::new(),
            claimed: Instant::now(),
            looked: Instant::now(),
        };
        let ended = shared.stop.run_until_cancelled(reader.read_on(&settings)).await;
        routes_read.extend(reader.groups);
        // Ordinary exchanges claim from the routes meanwhile.
        shared.gatherer().set_dispatch_heard(false);
        shared.client.bus.signals().wake_lanes();
        if let Some(Err(error)) = ended {
            status.trouble(error.to_string());
        }
        let _ = shared.stop.run_until_cancelled(tokio::time::sleep(AFTER_ERROR)).await;
    }
    if !routes_read.is_empty() {
        let streams: Vec<String> = routes_read.into_iter().map(stream).collect();
        consumers::leave(&settings, &streams, &shared.config.dispatch.group, &consumer).await;
    }
}

struct Reader<'a> {
    shared: &'a Shared,
    config: &'a DispatchConfig,
    consumer: &'a str,
    changed: &'a Notify,
    /// Routes whose stream is known to have the group.
    groups: HashSet<i32>,
    /// When abandoned entries were last asked for.
    claimed: Instant,
    /// When this node last looked without a ticket.
    looked: Instant,
}

impl Reader<'_> {
    /// Reads until an error.
    async fn read_on(&mut self, settings: &RedisSettings) -> Result<(), RedisError> {
        let mut redis = Connection::open(settings).await?;
        self.shared.gatherer().set_dispatch_heard(true);
        self.shared.client.bus.signals().wake_lanes();
        loop {
            self.acknowledge(&mut redis).await?;
            if self.looked.elapsed() >= LOOK_EVERY {
                self.looked = Instant::now();
                self.shared.gatherer().look_beyond_tickets();
                self.shared.client.bus.signals().wake_lanes();
            }
            let (room, works) = {
                let gatherer = self.shared.gatherer();
                (gatherer.ticket_room(), gatherer.is_working())
            };
            let block = if works { BLOCK_WHILE_WORKING } else { self.config.block.min(LOOK_EVERY) };
            if room.is_empty() {
                let _ = tokio::time::timeout(block.max(BLOCK_WHILE_WORKING), self.changed.notified()).await;
                continue;
            }
            match self.read(&mut redis, &room, block).await {
                // A flushed Redis has lost the groups.
                Err(RedisError::Refused { message, .. }) if is_forgotten(&message) => self.groups.clear(),
                read => read?,
            }
        }
    }

    async fn read(&mut self, redis: &mut Connection, room: &[(i32, usize)], block: Duration) -> Result<(), RedisError> {
        for (route, _) in room {
            if self.groups.insert(*route) {
                self.make_group(redis, *route).await?;
            }
        }
        // Routes share slots, so none gets more tickets than its share.
        let smallest = room.iter().map(|(_, room)| *room).min().unwrap_or(0);
        let count = (smallest / room.len()).clamp(1, self.config.batch).to_string();
        if self.claimed.elapsed() >= self.shared.config.lease_ttl {
            self.claimed = Instant::now();
            self.take_abandoned(redis, room, &count).await?;
        }
        let (streams, millis) =
            (room.iter().map(|(route, _)| stream(*route)).collect::<Vec<_>>(), block.as_millis().to_string());
        let group = self.config.group.as_str();
        let mut arguments =
            vec!["XREADGROUP", "GROUP", group, self.consumer, "COUNT", &count, "BLOCK", &millis, "STREAMS"];
        arguments.extend(streams.iter().map(String::as_str));
        arguments.extend(streams.iter().map(|_| ">"));
        let reply = redis.ask_blocking(&arguments, block).await?;
        for read in reply.list() {
            if let [name, read] = read.list()
                && let Some(route) = name.text().and_then(route)
            {
                self.grant(route, read);
            }
        }
        Ok(())
    }

    /// Claims entries that another node has read and not used within a lease.
    async fn take_abandoned(
        &self,
        redis: &mut Connection,
        room: &[(i32, usize)],
        count: &str,
    ) -> Result<(), RedisError> {
        let idle = self.shared.config.lease_ttl.as_millis().to_string();
        for (route, _) in room {
            let name = stream(*route);
            let arguments = ["XAUTOCLAIM", &name, &self.config.group, self.consumer, &idle, "0-0", "COUNT", count];
            let reply = redis.ask(&arguments).await?;
            if let Some(abandoned) = reply.list().get(1) {
                self.grant(*route, abandoned);
            }
        }
        Ok(())
    }

    fn grant(&self, route: i32, read: &Reply) {
        let mut gatherer = self.shared.gatherer();
        let mut any = false;
        for (id, _) in entries(read) {
            gatherer.grant(Ticket { route, entry: id.to_owned() });
            any = true;
        }
        drop(gatherer);
        if any {
            self.shared.client.bus.signals().wake_lanes();
        }
    }

    /// Removes entries whose claims are committed or found nothing.
    async fn acknowledge(&self, redis: &mut Connection) -> Result<(), RedisError> {
        let mut used: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        for ticket in self.shared.gatherer().take_used_tickets() {
            used.entry(ticket.route).or_default().push(ticket.entry);
        }
        for (route, ids) in used {
            let name = stream(route);
            let ids = || ids.iter().map(String::as_str);
            redis.ask(&["XACK", &name, &self.config.group].into_iter().chain(ids()).collect::<Vec<_>>()).await?;
            redis.ask(&["XDEL", &name].into_iter().chain(ids()).collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    async fn make_group(&self, redis: &mut Connection, route: i32) -> Result<(), RedisError> {
        match redis.ask(&["XGROUP", "CREATE", &stream(route), &self.config.group, "0", "MKSTREAM"]).await {
            Err(RedisError::Refused { message, .. }) if message.starts_with("BUSYGROUP") => {
                consumers::forget_abandoned(redis, &stream(route), &self.config.group).await
            }
            made => made.map(|_| ()),
        }
    }
}

/// Whether the stream or its group does not exist any more.
fn is_forgotten(message: &str) -> bool {
    message.starts_with("NOGROUP") || message.starts_with("UNBLOCKED")
}
