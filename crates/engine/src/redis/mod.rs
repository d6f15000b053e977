//! Redis Streams beside the database: wake-ups between nodes, dispatch of queues, events from outside, lifecycle events to the
//! outside.
//!
//! Redis never decides: what it loses, the database still has, and every loop also looks by itself. Nodes speak RESP2 over
//! a connection of their own for each loop; the few commands that streams need do not justify a client library.

pub(crate) mod connection;
mod consumers;
pub(crate) mod dispatch;
pub(crate) mod dispatch_feed;
pub(crate) mod dispatch_reader;
pub(crate) mod events_in;
pub(crate) mod events_out;
pub(crate) mod jobs_out;
mod outward;
pub(crate) mod resp;
pub(crate) mod settings;
pub(crate) mod wake;

pub use dispatch::DispatchConfig;
pub(crate) use settings::Redis;
pub use settings::RedisSettings;
