//! What an operator can choose about execution.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use mainspring_core::workflow;
use mainspring_telemetry::{Metrics, Tracer};

use crate::confine::Confinement;
use crate::http::HttpConfig;

/// The variables of the worker's own environment that tasks may see. Everything else stays outside, so that the
/// database URL or a token of the server never reaches a task.
pub const DEFAULT_ENVIRONMENT: &[&str] =
    &["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"];

/// What becomes of running processes while the store cannot be reached, unless their task sets its own policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStoreLoss {
    /// Processes go on and report later, for at most this long.
    Continue(Duration),
    /// Processes are killed as soon as another session may have been given the lease.
    Kill,
}

impl Default for OnStoreLoss {
    fn default() -> Self {
        Self::Continue(Duration::from_secs(600))
    }
}

#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Where the pool makes its private directory of working directories; the system's temporary folder by default.
    pub root: Option<PathBuf>,
    /// What a relative `cwd` is relative to; the worker's current directory by default.
    pub base: Option<PathBuf>,
    /// Names of variables passed on from the worker's environment.
    pub environment: Vec<String>,
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// The time between asking a function to stop and dropping it.
    pub function_grace: Duration,
    /// How long output may stay open after the main process has exited.
    pub drain: Duration,
    /// Bytes of log kept per attempt; what follows is dropped, visibly.
    pub log_limit: usize,
    /// The command line that calls [`watchdog::main`](crate::watchdog::main), such as `[current_exe, "watchdog"]`.
    /// Without it, processes outlive a killed worker.
    pub watchdog: Option<Vec<OsString>>,
    pub on_store_loss: OnStoreLoss,
    /// The session's time to live. A worker that does not even run for twice as long is taken for stopped, and the
    /// watchdog kills its processes, since they are being executed again elsewhere.
    pub lease_ttl: Duration,
    /// Which requests tasks may make.
    pub http: HttpConfig,
    /// How tasks are isolated from the server. Without this they are not isolated.
    pub confinement: Option<Confinement>,
    /// The program that runs containers; without one, tasks with an image fail.
    pub container_engine: Option<PathBuf>,
    /// Whether the pool hides its process from the tasks it starts, see [`hide_process`](crate::hide_process).
    pub hide_process: bool,
    /// The receiver of the spans of tasks.
    pub tracer: Tracer,
    /// The counters of attempts, for a worker whose node does not count them.
    pub metrics: Option<Metrics>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            root: None,
            base: None,
            environment: DEFAULT_ENVIRONMENT.iter().map(ToString::to_string).collect(),
            grace: Duration::from_secs(10),
            function_grace: Duration::from_millis(500),
            drain: Duration::from_secs(1),
            log_limit: 8 * 1024 * 1024,
            watchdog: None,
            on_store_loss: OnStoreLoss::default(),
            lease_ttl: Duration::from_millis(3500),
            http: HttpConfig::default(),
            confinement: None,
            container_engine: None,
            hide_process: true,
            tracer: Tracer::default(),
            metrics: None,
        }
    }
}

impl PoolConfig {
    /// How long the store may stay silent before an attempt must end. The policy of the task wins over this worker's
    /// setting. A task that goes on although its worker would kill it gets the default patience.
    pub(crate) fn store_patience(&self, task: Option<workflow::OnStoreLoss>) -> Duration {
        let choice = match (task, self.on_store_loss) {
            (Some(workflow::OnStoreLoss::Kill), _) => OnStoreLoss::Kill,
            (Some(workflow::OnStoreLoss::Continue), OnStoreLoss::Kill) => OnStoreLoss::default(),
            (_, own) => own,
        };
        match choice {
            OnStoreLoss::Continue(patience) => patience.max(self.lease_ttl),
            OnStoreLoss::Kill => self.lease_ttl,
        }
    }
}
