//! The loop of a remote worker: register, exchange, execute, until it is asked to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_api::worker::{PROTOCOL, Register, Slots};
use mainspring_boxed::boxed;
use mainspring_core::work::{Clock, Completion, LogChunk};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::artifacts::RemoteArtifacts;
use super::files::FileCache;
use super::link::{Link, LinkError, LinkSetupError};
use super::logs::{self, LogRequest};
use super::session::Session;
use super::session_loop::{SessionEnd, SessionLoop};
use crate::pool::Pool;

const REGISTER_PAUSE: Duration = Duration::from_millis(500);
/// A session that is lost sooner was perhaps never known to the server that answered: servers may be on two databases.
const SHORT_LIFE: Duration = Duration::from_secs(1);
const LONGEST_LOST_PAUSE: Duration = Duration::from_secs(5);

/// What an operator can choose about a remote worker.
#[derive(Debug, Clone, Default)]
pub struct RemoteConfig {
    pub servers: Vec<String>,
    /// An API token with the role `worker`.
    pub token: String,
    /// A PEM file of an authority that is trusted beside the public ones.
    pub authority: Option<PathBuf>,
    pub worker_id: String,
    pub hostname: String,
    /// Empty means all.
    pub queues: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// Slots for processes, functions and remote tasks.
    pub slots: [u32; 3],
    /// How many attempts the worker claims beyond its slots.
    pub prefetch: u32,
    pub handlers: Vec<String>,
    /// How long running tasks may go on after the worker was asked to stop.
    pub shutdown_timeout: Duration,
}

/// Why a worker ends before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(transparent)]
    Link(#[from] LinkSetupError),
    #[error("the server refuses this worker: {0}")]
    Refused(String),
}

/// How long to wait before the next session when sessions are lost as soon as they are registered.
#[derive(Debug, Default)]
struct LossPause {
    /// Sessions in a row that were lost at once.
    short_lives: u32,
}

impl LossPause {
    /// The pause after a session that lived so long. `random` is in [0, 1): workers do not come back all at once.
    fn after(&mut self, lived: Duration, random: f64) -> Duration {
        if lived >= SHORT_LIFE {
            self.short_lives = 0;
            return Duration::ZERO;
        }
        let full = (REGISTER_PAUSE * 2_u32.pow(self.short_lives.min(10))).min(LONGEST_LOST_PAUSE);
        self.short_lives += 1;
        full.mul_f64(0.5 + random / 2.0)
    }
}

/// A worker that executes for servers elsewhere.
#[derive(Debug)]
pub struct RemoteWorker {
    pub(super) config: RemoteConfig,
    link: Link,
    pub(super) pool: Pool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) completions: mpsc::UnboundedReceiver<Completion>,
    pub(super) logs: mpsc::UnboundedSender<LogRequest>,
    pub(super) files: Arc<FileCache>,
    artifacts: RemoteArtifacts,
}

#[boxed]
impl RemoteWorker {
    /// The pool must send its completions and log chunks to these channels.
    pub fn new(
        config: RemoteConfig,
        pool: Pool,
        clock: Arc<dyn Clock>,
        completions: mpsc::UnboundedReceiver<Completion>,
        chunks: mpsc::Receiver<LogChunk>,
    ) -> Result<Self, RemoteError> {
        let link = Link::new(&config.servers, &config.token, config.authority.as_ref())?;
        let (logs, requests) = mpsc::unbounded_channel();
        tokio::spawn(logs::run(chunks, requests));
        let artifacts = RemoteArtifacts::default();
        pool.fetch_artifacts_from(Arc::new(artifacts.clone()));
        Ok(Self { config, link, pool, clock, completions, logs, files: Arc::default(), artifacts })
    }

    /// Works until `stop` is cancelled, then finishes what it has and leaves. A session that was lost is replaced.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), RemoteError> {
        let stop = &stop;
        let mut losses = LossPause::default();
        while let Some(session) = self.register(stop).await? {
            tracing::info!(session = session.id, server = self.link.server(), "registered");
            self.artifacts.use_session(&session);
            let _ = self.logs.send(LogRequest::Session(session.clone()));
            let registered = Instant::now();
            let session_loop = SessionLoop::new(&mut self, session.clone());
            match session_loop.run(stop).await {
                SessionEnd::Lost => {
                    tracing::warn!(
                        session = session.id,
                        "the session was found dead: its tasks are killed and go on elsewhere"
                    );
                    session.over.cancel();
                    self.pool.session_lost(session.id);
                    let pause = losses.after(registered.elapsed(), fastrand::f64());
                    if !pause.is_zero() {
                        tracing::warn!(
                            ?pause,
                            "the session was lost at once: do all servers of this worker have the same database?"
                        );
                        let _ = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                    }
                }
                SessionEnd::Done => {
                    self.leave(&session).await;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Registers a session, and retries until a server answers. `None` when the worker is asked to stop first.
    async fn register(&self, stop: &CancellationToken) -> Result<Option<Session>, RemoteError> {
        let [process, function, remote] = self.config.slots;
        let worker = Register {
            protocol: PROTOCOL,
            worker_id: self.config.worker_id.clone(),
            hostname: self.config.hostname.clone(),
            queues: self.config.queues.clone(),
            labels: self.config.labels.clone(),
            slots: Slots { process, function, remote },
            handlers: self.config.handlers.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        while !stop.is_cancelled() {
            match Session::register(&self.link, &worker).await {
                Ok(session) => return Ok(Some(session)),
                Err(LinkError::Unavailable(cause)) => tracing::warn!(cause, next = self.link.server(), "registering"),
                Err(error) => return Err(RemoteError::Refused(error.to_string())),
            }
            let _ = stop.run_until_cancelled(tokio::time::sleep(REGISTER_PAUSE)).await;
        }
        Ok(None)
    }

    async fn leave(&self, session: &Session) {
        match session.end().await {
            Ok(ended) => tracing::info!(session = session.id, returned = ended.returned, "the session has ended"),
            Err(error) => tracing::warn!(%error, "ending the session; it will be found dead"),
        }
        session.over.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_are_lost_at_once_are_replaced_ever_more_slowly() {
        let millis = Duration::from_millis;
        let mut losses = LossPause::default();
        assert_eq!(losses.after(millis(60_000), 0.5), Duration::ZERO, "an ordinary loss costs no time");
        assert_eq!(losses.after(millis(20), 0.0), millis(250));
        assert_eq!(losses.after(millis(20), 0.5), millis(750));
        for _ in 0..40 {
            assert!(losses.after(millis(20), 0.99) <= LONGEST_LOST_PAUSE);
        }
        assert!(losses.after(millis(20), 0.0) >= LONGEST_LOST_PAUSE / 2);
        assert_eq!(losses.after(millis(1_000), 0.5), Duration::ZERO);
        assert_eq!(losses.after(millis(20), 0.0), millis(250), "it begins anew");
    }
}
