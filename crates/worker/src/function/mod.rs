//! Functions: handlers registered by name that run inside the worker's process.

mod builtin;
mod call;
mod registry;
mod run;

pub use call::{FunctionCall, FunctionFuture, FunctionResult, Handler, LogSink};
pub use registry::Registry;
pub(crate) use run::{CatchPanic, immediate, run, timed_out};
