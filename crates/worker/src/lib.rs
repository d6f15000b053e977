//! Executes tasks: shell scripts in process groups of their own, HTTP requests and functions inside this process.
//!
//! A [`Pool`] is handed [`Assignment`](mainspring_core::work::Assignment)s and answers each with one
//! [`Completion`](mainspring_core::work::Completion), unless the session that claimed it is lost: the engine would
//! refuse that result, so the pool kills the work without a report. What a task prints goes to the log channel while it
//! runs.
//!
//! Deliberately absent: claiming, retrying, deciding what a failure means, and anything durable. Those belong to the
//! engine; a pool that dies leaves nothing behind but processes, and the [`watchdog`] sees to them.

mod capture;
mod config;
pub mod confine;
mod control;
mod email;
mod executor;
mod function;
mod host;
pub mod http;
mod mask;
mod messenger;
mod output;
mod pool;
mod remote;
mod shell;
mod shield;
mod spans;
mod text;
pub mod watchdog;

pub use config::{DEFAULT_ENVIRONMENT, OnStoreLoss, PoolConfig};
pub use control::CancelReason;
pub use email::{SmtpConfig, SmtpSecurity};
pub use function::{FunctionCall, FunctionFuture, FunctionResult, Handler, LogSink, Registry, RegistryBuilder};
pub use host::{ComponentHealth, HealthReport, HealthStatus, Host, HostError, HostFuture, PurgeReport, ReindexReport};
pub use messenger::Courier;
pub use output::{OUTPUT_LIMIT, OutputError, parse_output};
pub use pool::{Error, Pool};
pub use remote::{LinkSetupError, RemoteConfig, RemoteError, RemoteWorker};
pub use shell::{ARTIFACTS_LIMIT, find_engine};
pub use shield::{close_inherited, hide_process};
