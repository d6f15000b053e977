//! Remote workers at this node: their sessions, what goes to them and what comes back.
//!
//! A session lives in the database; any node can carry it, and the one that is asked does. What this node remembers of it is
//! rebuilt from the database when the worker comes from another node. `session` holds what is on its way to a worker,
//! `exchange` answers its requests, `repair` compares what the worker holds with what the database says it holds, `uploads`
//! takes log lines and files, `stealing` moves what waits to workers that are idle.

mod exchange;
mod registry;
mod repair;
mod session;
pub(crate) mod stealing;
mod uploads;

pub use exchange::{WorkerAnswer, WorkerExchange, WorkerResult};
pub(crate) use registry::RemoteSessions;
pub use registry::{NewWorker, WorkerError, WorkerGate, WorkerSession};
pub use uploads::{LogAnswer, LogUpload};
