//! Executes tasks: shell scripts in process groups of their own, functions inside this process.
//!
//! A [`Pool`] is handed [`Assignment`](mainspring_core::work::Assignment)s and answers each with one
//! [`Completion`](mainspring_core::work::Completion), unless the session that claimed it is lost: then nobody would
//! accept the answer, so the work is killed in silence. What a task prints goes to the log channel while it runs.
//!
//! Deliberately absent: claiming, retrying, deciding what a failure means, and anything durable. Those belong to the
//! engine; a pool that dies leaves nothing behind but processes, and the [`watchdog`] sees to them.

mod capture;
mod config;
mod control;
mod function;
mod output;
mod pool;
mod shell;
mod text;
pub mod watchdog;

pub use config::{DEFAULT_ENVIRONMENT, OnStoreLoss, PoolConfig};
pub use control::CancelReason;
pub use function::{FunctionCall, FunctionFuture, FunctionResult, Handler, LogSink, Registry};
pub use output::{OUTPUT_LIMIT, OutputError, parse_output};
pub use pool::{Error, Pool};
