//! Remote workers at this node: their sessions and their requests.
//!
//! A session lives in the database. The node that a worker asks carries it, and rebuilds its state from the database
//! when the worker comes from another node. `session` holds what is on its way to a worker, `exchange` answers its
//! requests, `repair` compares what the worker holds with what the database says, `uploads` takes log lines and files,
//! `stealing` moves backlogs to idle workers.

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
