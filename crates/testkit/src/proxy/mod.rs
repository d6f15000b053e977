//! A proxy in front of PostgreSQL that counts round trips and loses replies.
//!
//! It understands just enough of the protocol: where a request ends (Sync, or a simple Query), which statement it
//! executes, and where its reply ends. A reply is lost after ReadyForQuery has arrived, so after the commit. There is no
//! TLS: the proxy declines it.

mod faults;
mod relay;
mod trips;
mod wire;

pub use faults::Fault;
pub use relay::Proxy;
pub use trips::Trip;
