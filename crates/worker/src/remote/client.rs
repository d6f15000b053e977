//! The loop of a remote worker: register, exchange, execute, until it is asked to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
        while let Some(session) = self.register(stop).await? {
            tracing::info!(session = session.id, server = self.link.server(), "registered");
            self.artifacts.use_session(&session);
            let _ = self.logs.send(LogRequest::Session(session.clone()));
            let session_loop = SessionLoop::new(&mut self, session.clone());
            match session_loop.run(stop).await {
                SessionEnd::Lost => {
                    tracing::warn!(
                        session = session.id,
                        "the session was found dead: its tasks are killed and go on elsewhere"
                    );
                    session.over.cancel();
                    self.pool.session_lost(session.id);
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
