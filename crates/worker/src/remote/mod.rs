//! A worker that talks to its servers over HTTP: the protocol of `docs/worker-protocol.md`, nothing private.
//!
//! `link` makes requests and moves to the next server, `session` has the calls of the protocol, `client` registers, `session_loop` is the loop, `desk`
//! what it knows: which attempts run, which wait for a slot, which results are not acknowledged. `logs` sends lines, `files`
//! fetches what versions bring along, `artifacts` carries files of tasks.

mod artifacts;
mod assignments;
mod client;
mod desk;
mod files;
mod link;
mod logs;
mod session;
mod session_loop;

pub use client::{RemoteConfig, RemoteError, RemoteWorker};
pub use link::LinkSetupError;
