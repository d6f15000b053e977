//! Functions: handlers registered by name that run inside the worker's process.

mod builtin;
mod call;
mod notify;
mod payload;
mod registry;
mod run;
mod upkeep;

pub use call::{FunctionCall, FunctionFuture, FunctionResult, Handler, LogSink};
pub use registry::{Registry, RegistryBuilder};
pub(crate) use run::{CatchPanic, immediate, run, timed_out};
