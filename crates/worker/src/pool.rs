//! The pool: the attempts that run at the moment, and how they are asked to end.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use mainspring_core::trace::TraceContext;
use mainspring_core::work::{ArtifactSource, Assignment, Clock, Completion, LogChunk, Outcome, Workforce};
use mainspring_core::{Micros, TaskKey};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::config::PoolConfig;
use crate::control::{CancelReason, Control, Stop};
use crate::executor::{self, Executor, ExecutorContext, executor};
use crate::function::Registry;
use crate::http::{ClientError, HttpClient, HttpTask};
use crate::mask::Mask;
use crate::shell::{Ended, Workbench};
use crate::shield::hide_process;
use crate::spans;
use crate::text::locked;
use crate::watchdog::Guard;

/// How long the end of a pool waits until the files of its last attempts are stored.
const FILES_PATIENCE: Duration = Duration::from_secs(60);

/// Why a pool cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("starting a worker pool needs a tokio runtime")]
    NoRuntime,
    #[error("cannot make a directory for tasks in {}: {source}", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("cannot prepare for requests: {0}")]
    Http(#[from] ClientError),
    #[error("cannot hide this process from its tasks: {0}")]
    Hide(std::io::Error),
    #[error("cannot start the watchdog {command:?}: {source}")]
    Watchdog { command: Vec<OsString>, source: std::io::Error },
}

/// Executes assignments. Clones are handles to the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Running {
    attempts: HashMap<(TaskKey, i32), Attempt>,
    /// Sessions whose tasks are no longer begun.
    lost: HashSet<i64>,
}

#[derive(Debug)]
struct Attempt {
    session: i64,
    control: Arc<Control>,
}

#[derive(Debug)]
struct Shared {
    context: ExecutorContext,
    completions: mpsc::UnboundedSender<Completion>,
    runtime: Handle,
    running: Mutex<Running>,
    /// Notified when the last running attempt has ended.
    idle: Notify,
    closing: AtomicBool,
    closed: CancellationToken,
    last_renewal: Mutex<Instant>,
}

#[boxed]
impl Pool {
    /// Must be called inside a tokio runtime, which will execute the tasks.
    pub fn start(
        config: PoolConfig,
        clock: Arc<dyn Clock>,
        registry: Registry,
        completions: mpsc::UnboundedSender<Completion>,
        logs: mpsc::Sender<LogChunk>,
    ) -> Result<Self, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let workbench = Workbench::new(&config).map_err(|source| {
            let path = config.root.clone().unwrap_or_else(std::env::temp_dir);
            Error::Directory { path, source }
        })?;
        if config.hide_process {
            hide_process().map_err(Error::Hide)?;
        }
        let http = HttpClient::new(config.http.clone())?;
        let guard = match config.watchdog.clone() {
            None => None,
            Some(command) => match Guard::start(command.clone(), workbench.root(), &config) {
                Ok(guard) => Some(guard),
                Err(source) => return Err(Error::Watchdog { command, source }),
            },
        };
        let shared = Arc::new(Shared {
            context: ExecutorContext {
                config,
                clock,
                registry,
                request: Arc::new(HttpTask(http.clone())),
                http,
                logs,
                workbench,
                guard,
                artifacts: OnceLock::new(),
            },
            completions,
            runtime,
            running: Mutex::default(),
            idle: Notify::new(),
            closing: AtomicBool::new(false),
            closed: CancellationToken::new(),
            last_renewal: Mutex::new(Instant::now()),
        });
        shared.runtime.spawn(Arc::clone(&shared).pulse());
        Ok(Self { shared })
    }

    /// Says where files of other tasks come from. Only the first call counts.
    pub fn fetch_artifacts_from(&self, source: Arc<dyn ArtifactSource>) {
        let _ = self.shared.context.artifacts.set(source);
    }

    /// Starts all of them and returns at once. Functions that need not wait are finished before this returns.
    pub fn assign(&self, assignments: Vec<Assignment>) {
        for assignment in assignments {
            self.shared.begin(assignment);
        }
    }

    /// Asks one attempt to end, if it is still running here.
    pub fn cancel(&self, key: TaskKey, attempt: i32, reason: CancelReason) {
        let running = locked(&self.shared.running);
        let control = running.attempts.get(&(key, attempt)).map(|attempt| Arc::clone(&attempt.control));
        drop(running);
        if let Some(control) = control {
            control.stop(match reason {
                CancelReason::Requested(reason) => Stop::Cancel(reason),
                CancelReason::Lost => Stop::Lost,
            });
        }
    }

    /// A session is lost: what runs for it dies at once and is not reported, and what is assigned for it from now on is
    /// not begun.
    pub fn session_lost(&self, session: i64) {
        let mut running = locked(&self.shared.running);
        running.lost.insert(session);
        let of_it = running.attempts.values().filter(|attempt| attempt.session == session);
        let controls: Vec<_> = of_it.map(|attempt| Arc::clone(&attempt.control)).collect();
        drop(running);
        controls.iter().for_each(|control| control.stop(Stop::Lost));
    }

    /// The store renewed the lease. If no renewal arrives for as long as the task, or else
    /// [`PoolConfig::on_store_loss`], permits, the pool kills the attempt and hands it back.
    pub fn lease_renewed(&self) {
        *locked(&self.shared.last_renewal) = Instant::now();
        if let Some(guard) = &self.shared.context.guard {
            guard.send_beat();
        }
    }

    /// The attempts that are running now.
    pub fn holding(&self) -> Vec<(TaskKey, i32)> {
        locked(&self.shared.running).attempts.keys().copied().collect()
    }

    /// How many attempts are running now.
    pub fn running(&self) -> usize {
        locked(&self.shared.running).attempts.len()
    }

    /// Takes nothing new, waits for what runs, and after `grace` hands back what is unfinished. Every attempt is
    /// reported when this returns, and its files are stored unless that takes long. Calling it again, or twice at once, does no harm.
    pub async fn shutdown(&self, grace: Duration) {
        let shared = &self.shared;
        shared.closing.store(true, Ordering::SeqCst);
        if tokio::time::timeout(grace, shared.until_idle()).await.is_err() {
            shared.each(|control| control.stop(Stop::Release));
            shared.until_idle().await;
        }
        shared.closed.cancel();
        let begun = Instant::now();
        while shared.context.workbench.has_copies() && begun.elapsed() < FILES_PATIENCE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shared.context.workbench.close();
        if let Some(guard) = &shared.context.guard {
            guard.close();
        }
    }
}

impl Workforce for Pool {
    fn assign(&self, assignments: Vec<Assignment>) {
        Self::assign(self, assignments);
    }

    fn cancel(&self, key: TaskKey, attempt: i32, reason: &str) {
        Self::cancel(self, key, attempt, CancelReason::Requested(reason.to_owned()));
    }

    fn session_lost(&self, session: i64) {
        Self::session_lost(self, session);
    }

    fn lease_renewed(&self) {
        Self::lease_renewed(self);
    }
}

impl Shared {
    fn begin(self: &Arc<Self>, mut assignment: Assignment) {
        if self.closing.load(Ordering::Relaxed) {
            self.report(&assignment, self.context.clock.now(), Outcome::Released);
            return;
        }
        let executor = executor(&assignment.order.action);
        let started_at = self.context.clock.now();
        if let Some(outcome) = executor.immediate(&self.context, &assignment) {
            self.report(&assignment, started_at, outcome);
            return;
        }
        let control = Arc::new(Control::new(self.context.config.store_patience(assignment.order.on_store_loss)));
        {
            let mut running = locked(&self.running);
            // Checked again under the lock, because a shutdown that found nothing running must not see an attempt
            // begin.
            if self.closing.load(Ordering::SeqCst) {
                self.report(&assignment, self.context.clock.now(), Outcome::Released);
                return;
            }
            if running.lost.contains(&assignment.session) {
                // The session was lost after the claim: another session executes the task.
                return;
            }
            match running.attempts.entry((assignment.key, assignment.attempt)) {
                // The assignment was delivered twice, and the attempt is already running.
                Entry::Occupied(_) => return,
                Entry::Vacant(entry) => {
                    entry.insert(Attempt { session: assignment.session, control: Arc::clone(&control) });
                }
            }
        }
        let parent = spans::enter(&self.context.config.tracer, &mut assignment);
        self.runtime.spawn(Arc::clone(self).execute(assignment, parent, executor, control));
    }

    async fn execute(
        self: Arc<Self>,
        assignment: Assignment,
        parent: Option<TraceContext>,
        executor: &'static dyn Executor,
        control: Arc<Control>,
    ) {
        let started_at = self.context.clock.now();
        let mask = Arc::new(Mask::new(&assignment.order.secrets));
        let attempt = executor::Attempt { assignment: &assignment, control: &control, mask };
        let ended = executor.execute(&self.context, attempt).await;
        if let Some(ended) = ended {
            let now = self.context.clock.now();
            spans::leave(&self.context.config.tracer, &assignment, parent, (started_at, now), &ended.outcome);
            self.report_with(&assignment, started_at, ended);
        }
        let mut running = locked(&self.running);
        running.attempts.remove(&(assignment.key, assignment.attempt));
        if running.attempts.is_empty() {
            self.idle.notify_waiters();
        }
    }

    fn report(&self, assignment: &Assignment, started_at: Micros, outcome: Outcome) {
        self.report_with(assignment, started_at, Ended { outcome, artifacts: Vec::new(), logged: false });
    }

    fn report_with(&self, assignment: &Assignment, started_at: Micros, ended: Ended) {
        let secrets = &assignment.order.secrets;
        let outcome = if secrets.is_empty() { ended.outcome } else { Mask::new(secrets).outcome(ended.outcome) };
        let completion = Completion {
            key: assignment.key,
            session: assignment.session,
            attempt: assignment.attempt,
            started_at,
            finished_at: self.context.clock.now(),
            outcome,
            artifacts: ended.artifacts,
            logged: ended.logged,
        };
        if let Some(metrics) = &self.context.config.metrics {
            spans::count(metrics, assignment, &completion);
        }
        // The receiver is gone only when the whole process ends.
        let _ = self.completions.send(completion);
    }

    fn each(&self, act: impl Fn(&Control)) {
        let running = locked(&self.running);
        let controls: Vec<_> = running.attempts.values().map(|attempt| Arc::clone(&attempt.control)).collect();
        drop(running);
        controls.iter().for_each(|control| act(control));
    }

    async fn until_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if locked(&self.running).attempts.is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// Shows the watchdog that this process runs, and ends what must not go on while the store is silent.
    async fn pulse(self: Arc<Self>) {
        let every = (self.context.config.lease_ttl / 4).max(Duration::from_millis(10));
        let closed = self.closed.clone();
        while closed.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            if let Some(guard) = &self.context.guard {
                guard.send_alive();
            }
            let silence = locked(&self.last_renewal).elapsed();
            // The session may still be alive in the store. An attempt that is handed back can be claimed again.
            self.each(|control| {
                if silence > control.patience {
                    control.kill(Stop::Release);
                }
            });
        }
    }
}
