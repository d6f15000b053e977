//! The bus: announces what happened to the loops of this process and to other processes.
//!
//! A caller publishes a [`BusMessage`] that says what happened, never which loop to wake. In this process `signals` delivers
//! it; other processes get it through a [`BusTransport`]: a NOTIFY of PostgreSQL, a stream of Redis. Messages may be lost,
//! repeated or late: every loop also looks by itself, and [`Bus::poll_interval`] says how often.
//!
//! To add a message: the variant in `message.rs`, its line in `wire.rs`, what it wakes in `Bus::receive`.

pub(crate) mod handle;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod postgres;
pub(crate) mod signals;
pub(crate) mod transport;
pub(crate) mod wire;

pub(crate) use handle::Bus;
pub use message::{AccessChange, AccessChanges, AccessKind};
pub(crate) use message::{BusMessage, ClaimableRoutes};
pub(crate) use signals::MAX_LANES;
