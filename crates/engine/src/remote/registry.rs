//! The remote sessions that this node carries, and their registration.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mainspring_boxed::boxed;
use mainspring_store::{Exchange, ExchangeGuard, NewRemoteSession, RemoteSessionRow, TaskToken, WorkerGuard};

use super::exchange::WorkerExchange;
use super::session::RemoteSession;
use crate::exchange::session_inbox::Served;
use crate::node::Shared;

/// Why a request of a worker is refused.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The session does not exist, or the token is not its own. The caller cannot tell which.
    #[error("there is no such session")]
    UnknownSession,
    #[error("the session was found dead: its tasks run again elsewhere; stop them and register anew")]
    SessionLost,
    #[error("exchange {seq} is neither the last one, {last}, nor the one after it")]
    OutOfOrder { seq: i64, last: i64 },
    #[error("the attempt is not held by this session")]
    Fenced,
    /// Another node has carried the session since the request arrived.
    #[error("the session went to another node meanwhile: repeat the exchange")]
    Moved,
    /// The node is stopping.
    #[error("this node takes no more requests of workers: go to another one")]
    Stopping,
    #[error(transparent)]
    Artifact(#[from] crate::artifacts::ArtifactError),
    #[error(transparent)]
    Store(#[from] mainspring_store::Error),
}

/// A worker that registers. Its fields were checked before.
#[derive(Debug, Clone, Default)]
pub struct NewWorker {
    pub worker: String,
    pub hostname: String,
    pub queues: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// Namespaces that it may take tasks from; `None` means all.
    pub namespaces: Option<Vec<String>>,
    /// Processes, functions, remote tasks.
    pub slots: [i32; 3],
    pub handlers: Vec<String>,
    pub version: String,
    /// The hash of the session's token.
    pub token_hash: Vec<u8>,
}

/// The session of a request, and its credentials.
#[derive(Debug, Clone)]
pub struct WorkerSession {
    pub id: i64,
    pub token_hash: Vec<u8>,
    /// Namespaces that the API token permits; `None` means all.
    pub namespaces: Option<Vec<String>>,
}

/// The remote sessions of a node.
#[derive(Debug, Default)]
pub(crate) struct RemoteSessions {
    sessions: Mutex<HashMap<i64, Arc<RemoteSession>>>,
}

impl RemoteSessions {
    fn sessions(&self) -> MutexGuard<'_, HashMap<i64, Arc<RemoteSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, session: i64) -> Option<Arc<RemoteSession>> {
        self.sessions().get(&session).cloned()
    }

    pub(crate) fn ids(&self) -> Vec<i64> {
        self.sessions().keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sessions().is_empty()
    }

    /// Sessions with contact within half of the lease.
    pub(crate) fn heard_recently(&self, shared: &Shared) -> Vec<i64> {
        let sessions = self.sessions();
        let within = shared.config.lease_ttl / 2;
        sessions.values().filter(|session| session.was_in_contact_within(within)).map(|session| session.id).collect()
    }

    /// Forgets sessions that were silent for long: another node carries them, or they are found dead.
    pub(crate) fn forget_silent(&self, shared: &Shared) {
        let within = shared.config.lease_ttl * 4;
        let silent: Vec<i64> = {
            let sessions = self.sessions();
            sessions.values().filter(|session| session.is_silent_for(within)).map(|session| session.id).collect()
        };
        for session in silent {
            self.forget(shared, session);
        }
    }

    /// Marks a session dead. Its worker learns it with its next request, at any node.
    pub(crate) fn lost(&self, shared: &Shared, session: i64) {
        if let Some(session) = self.sessions().remove(&session) {
            tracing::warn!(session = session.id, "the session of a remote worker was found dead");
            session.lose_it();
        }
        shared.gatherer().leave(session);
    }

    /// Forgets a session that another node carries or that is silent: nothing more is claimed for it here.
    pub(crate) fn forget(&self, shared: &Shared, session: i64) {
        self.sessions().remove(&session);
        shared.gatherer().leave(session);
    }

    /// Forgets a session that nothing is claimed for here any more, unless it is carried anew already.
    pub(crate) fn forget_orphan(&self, session: &Arc<RemoteSession>) {
        let mut sessions = self.sessions();
        if sessions.get(&session.id).is_some_and(|known| Arc::ptr_eq(known, session)) {
            sessions.remove(&session.id);
        }
    }

    /// Notes the results that an exchange settled. Where the reply was lost, the results are handed in once more, and
    /// the store then names the refused ones.
    pub(crate) fn handed_in(&self, shared: &Shared, exchange: &Exchange, fenced: &[TaskToken], known: bool) {
        if self.is_empty() {
            return;
        }
        let ended = exchange.ended.iter().map(|row| row.token);
        let continued = exchange.continued.iter().map(|row| row.token);
        let mut by_session: HashMap<i64, Vec<(TaskToken, bool)>> = HashMap::new();
        for token in ended.chain(continued) {
            by_session.entry(token.session).or_default().push((token, !fenced.contains(&token)));
        }
        for (id, tokens) in by_session {
            let Some(session) = self.get(id) else { continue };
            if known {
                session.settle(tokens);
                continue;
            }
            let mut gatherer = shared.gatherer();
            for row in exchange.ended.iter().filter(|row| row.token.session == id) {
                gatherer.push_ended(row.clone());
            }
            for row in exchange.continued.iter().filter(|row| row.token.session == id) {
                gatherer.push_continued(row.clone());
            }
            drop(gatherer);
            shared.client.bus.signals().wake_lanes();
        }
    }
}

/// The entry point of remote workers at a node.
#[derive(Debug, Clone)]
pub struct WorkerGate {
    pub(crate) shared: Arc<Shared>,
}

#[boxed]
impl WorkerGate {
    /// How long a session lives without contact.
    pub fn lease_ttl(&self) -> std::time::Duration {
        self.shared.config.lease_ttl
    }

    /// Registers a worker. Several with one id may work at the same time: their sessions differ.
    pub async fn register(&self, worker: NewWorker) -> Result<i64, WorkerError> {
        self.refuse_when_stopping()?;
        let client = &self.shared.client;
        let labels: Vec<String> = worker.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let session = NewRemoteSession {
            node: self.shared.id,
            worker: worker.worker,
            hostname: worker.hostname,
            queues: worker.queues.join(","),
            labels: labels.join(","),
            namespaces: worker.namespaces.map(|names| names.join(",")),
            slots: worker.slots,
            handlers: worker.handlers.join(","),
            version: worker.version,
            token_hash: worker.token_hash,
        };
        let id = client.store.open_remote_session(client.now(), &session).await?;
        if client.store.namesakes(&session.worker, id).await.is_ok_and(|others| others > 0) {
            tracing::warn!(worker = session.worker, session = id, "another live worker has the same id; both work");
        }
        tracing::info!(
            worker = session.worker,
            session = id,
            queues = session.queues,
            "a remote worker has registered"
        );
        if let Some(row) = client.store.remote_session(id).await? {
            self.carry(row).state().carry();
        }
        Ok(id)
    }

    /// The session of a request, taken over from another node if necessary.
    pub(crate) async fn session(&self, wanted: &WorkerSession) -> Result<Arc<RemoteSession>, WorkerError> {
        self.refuse_when_stopping()?;
        if let Some(session) = self.shared.remote.get(wanted.id) {
            return admit(wanted, &session.token_hash, session.served.namespaces.as_deref()).map(|()| session);
        }
        let row = self.shared.client.store.remote_session(wanted.id).await?.ok_or(WorkerError::UnknownSession)?;
        let namespaces = names(row.namespaces.as_deref());
        admit(wanted, &row.token_hash, namespaces.as_deref())?;
        if row.dead {
            return Err(WorkerError::SessionLost);
        }
        Ok(self.carry(row))
    }

    fn carry(&self, row: RemoteSessionRow) -> Arc<RemoteSession> {
        let served = Served {
            queues: words(&row.queues),
            labels: words(&row.labels).iter().filter_map(|pair| pair.split_once('=')).map(owned).collect(),
            namespaces: names(row.namespaces.as_deref()),
            classes: [row.slots > 0, row.function_slots > 0, row.remote_slots > 0],
            remote_as_function: false,
        };
        let mut sessions = self.shared.remote.sessions();
        let session = sessions
            .entry(row.id)
            .or_insert_with(|| Arc::new(RemoteSession::new(row.id, row.token_hash, served.clone(), row.draining)));
        let session = Arc::clone(session);
        drop(sessions);
        let mut gatherer = self.shared.gatherer();
        gatherer.join(row.id, served, Instant::now());
        if row.draining {
            gatherer.drain_session(row.id);
        }
        session
    }

    /// Moves the guard of a worker's exchange to this one. If another node carried the session meanwhile, this node's
    /// state is out of date, and it reads the session's claims from the database.
    pub(crate) async fn pass_guard(
        &self,
        session: &RemoteSession,
        request: &WorkerExchange,
    ) -> Result<(), WorkerError> {
        let (shared, seq) = (&self.shared, request.seq);
        let backlog = request.holding.iter().filter(|(_, _, started)| !started).count();
        let guard = WorkerGuard {
            session: session.id,
            seq,
            node: shared.id,
            backlog: i32::try_from(backlog).unwrap_or(i32::MAX),
        };
        match shared.client.store.guard_worker_exchange(shared.client.now(), guard).await? {
            ExchangeGuard::Passed { moved } => {
                let mut gatherer = shared.gatherer();
                let mut state = session.state();
                if moved {
                    state.start_over();
                    if let Some(inbox) = gatherer.session_mut(session.id) {
                        inbox.forget_held();
                    }
                }
                state.carry();
                Ok(())
            }
            ExchangeGuard::OutOfOrder { last } => Err(WorkerError::OutOfOrder { seq, last }),
            ExchangeGuard::Dead => {
                shared.remote.lost(shared, session.id);
                Err(WorkerError::SessionLost)
            }
        }
    }

    /// Ends a session and returns its unfinished attempts.
    pub async fn end(&self, wanted: &WorkerSession) -> Result<u64, WorkerError> {
        let session = self.session(wanted).await?;
        let client = &self.shared.client;
        self.shared.remote.forget(&self.shared, session.id);
        let returned = client.store.end_session(client.now(), session.id).await?;
        if returned > 0 {
            client.something_claimable();
        }
        tracing::info!(session = session.id, returned, "a remote worker has left");
        Ok(returned)
    }

    fn refuse_when_stopping(&self) -> Result<(), WorkerError> {
        if self.shared.stop.is_cancelled() || self.shared.gatherer().is_draining() {
            return Err(WorkerError::Stopping);
        }
        Ok(())
    }
}

fn admit(wanted: &WorkerSession, token_hash: &[u8], namespaces: Option<&[String]>) -> Result<(), WorkerError> {
    let allowed = match (&wanted.namespaces, namespaces) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(allowed), Some(served)) => served.iter().all(|name| allowed.contains(name)),
    };
    if allowed && wanted.token_hash == token_hash { Ok(()) } else { Err(WorkerError::UnknownSession) }
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn names(text: Option<&str>) -> Option<Vec<String>> {
    text.map(words)
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}
