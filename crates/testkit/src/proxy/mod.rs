//! Proxies. The one in front of PostgreSQL counts round trips and loses replies.
//!
//! It understands just enough of the protocol: where a request ends (Sync, or a simple Query), which statement it
//! executes, and where its reply ends. A reply is lost after ReadyForQuery has arrived, so after the commit. There is no
//! TLS: the proxy declines it.

mod faults;
mod relay;
mod tcp;
mod trips;
mod wire;

pub use faults::Fault;
pub use relay::Proxy;
pub use tcp::{Passage, TcpProxy};
pub use trips::Trip;
