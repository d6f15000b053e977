//! The node's side of etcd: its membership, its view of other members, and the health of the connection.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::contact::Contact;
use super::gateway::Gateway;
use super::watch::KeyChange;
use super::{EtcdSettings, locks};
use crate::bus::transport::BoxFuture;
use crate::coordination::coordinator::{CoordinationError, CoordinationHealth, Coordinator, LeadershipNote, Member};
use crate::coordination::database::DatabaseCoordinator;
use crate::coordination::election::DUTY;
use crate::coordination::lock_guard::LockGuard;

/// How long a lease outlives its process.
const TTL: Duration = Duration::from_secs(3);
const RENEW_EVERY: Duration = Duration::from_secs(1);
const AFTER_ERROR: Duration = Duration::from_millis(500);

pub(crate) struct EtcdCoordinator {
    gateway: Arc<Gateway>,
    database: Arc<DatabaseCoordinator>,
    state: Mutex<State>,
    /// Members or the leadership have changed.
    changed: Notify,
    /// Wakes the renewal, because contact must be proven or the leadership published.
    renew: Notify,
}

#[derive(Default)]
struct State {
    contact: Contact,
    present: HashSet<Uuid>,
    /// The snapshot of members was read and is watched.
    follows: bool,
    leadership: Option<LeadershipNote>,
    trouble: Option<String>,
}

impl std::fmt::Debug for EtcdCoordinator {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EtcdCoordinator").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

impl EtcdCoordinator {
    pub(crate) fn new(settings: &EtcdSettings, database: Arc<DatabaseCoordinator>) -> Result<Self, CoordinationError> {
        Ok(Self {
            gateway: Arc::new(Gateway::new(settings)?),
            database,
            state: Mutex::default(),
            changed: Notify::new(),
            renew: Notify::new(),
        })
    }

    /// Sends one request, to learn at once whether the settings are valid.
    pub(crate) async fn check(&self) -> Result<(), CoordinationError> {
        let asked = self.gateway.has(&self.gateway.key("election/")).await.map(|_| ());
        if let Err(error) = &asked {
            self.trouble(error);
        }
        asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self, error: &CoordinationError) {
        let text = error.to_string();
        let mut state = self.state();
        if state.trouble.is_none() {
            tracing::warn!(error = text, "etcd does not help; the database goes on alone");
        }
        state.trouble = Some(text);
    }

    fn recovered(&self) {
        if self.state().trouble.take().is_some() {
            tracing::info!("etcd helps again");
        }
    }

    /// Keeps a lease with the membership under it, and replaces the lease when it ends.
    async fn hold_lease(&self, member: &Member, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let lease = match self.gateway.grant(TTL.as_secs()).await {
                Ok(lease) => lease,
                Err(error) => {
                    self.trouble(&error);
                    let _ = stop.run_until_cancelled(tokio::time::sleep(AFTER_ERROR)).await;
                    continue;
                }
            };
            if let Err(error) = self.keep_lease(lease, member, stop).await {
                self.trouble(&error);
                let _ = stop.run_until_cancelled(tokio::time::sleep(AFTER_ERROR)).await;
            }
            if stop.is_cancelled() {
                let _ = tokio::time::timeout(TTL, self.gateway.revoke(lease)).await;
            }
            self.state().contact.interrupted();
        }
    }

    /// Renews a lease until it is over or the node stops.
    async fn keep_lease(&self, lease: i64, member: &Member, stop: &CancellationToken) -> Result<(), CoordinationError> {
        let value = serde_json::to_value(member).unwrap_or(Value::Null);
        self.gateway.put(&self.gateway.key(&format!("members/{}", member.node)), &value, lease).await?;
        let mut noted = None;
        loop {
            let leadership = self.state().leadership;
            if leadership != noted {
                self.write_leadership(noted, leadership, lease).await?;
                noted = leadership;
            }
            let sent = Instant::now();
            match self.gateway.keep_alive(lease).await {
                Ok(true) => {
                    self.recovered();
                    let mut state = self.state();
                    state.contact.renewed(sent, TTL);
                    if state.contact.has_seen_ends() {
                        // The renewal may prove the end of another node's lease.
                        self.changed.notify_one();
                    }
                }
                Ok(false) => return Ok(()),
                Err(error) => self.trouble(&error),
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.renew.notified() => {}
                () = tokio::time::sleep(RENEW_EVERY) => {}
            }
        }
    }

    /// Publishes which node leads, or withdraws this node's own entry. It never deletes the entry of a successor.
    async fn write_leadership(
        &self,
        noted: Option<LeadershipNote>,
        note: Option<LeadershipNote>,
        lease: i64,
    ) -> Result<(), CoordinationError> {
        let key = self.gateway.key(&format!("election/{DUTY}"));
        let value = |note: LeadershipNote| json!({"node": note.node, "epoch": note.epoch});
        match (note, noted) {
            (Some(note), _) => self.gateway.put(&key, &value(note), lease).await,
            (None, Some(noted)) => self.gateway.delete_if(&key, &value(noted)).await,
            (None, None) => Ok(()),
        }
    }

    /// Watches the members. Members that are missing after a gap are not known to be gone, because etcd may have been
    /// wiped.
    async fn follow(&self) {
        loop {
            if let Err(error) = self.follow_once().await {
                self.trouble(&error);
            }
            {
                let mut state = self.state();
                state.follows = false;
                state.contact.interrupted();
            }
            tokio::time::sleep(AFTER_ERROR).await;
        }
    }

    async fn follow_once(&self) -> Result<(), CoordinationError> {
        let prefix = self.gateway.key("");
        let (keys, revision) = self.gateway.keys(&prefix).await?;
        let mut watch = self.gateway.watch(&prefix, revision + 1).await?;
        {
            let mut state = self.state();
            state.present = keys.iter().filter_map(|key| self.member_of(key)).collect();
            let present: Vec<Uuid> = state.present.iter().copied().collect();
            present.into_iter().for_each(|node| state.contact.came(node));
            state.follows = true;
        }
        self.changed.notify_one();
        loop {
            for change in watch.next().await? {
                self.note(&change);
            }
        }
    }

    fn note(&self, change: &KeyChange) {
        let mut state = self.state();
        match change {
            KeyChange::Put(key) => {
                if let Some(node) = self.member_of(key) {
                    state.present.insert(node);
                    state.contact.came(node);
                }
            }
            KeyChange::Deleted(key) => {
                if let Some(node) = self.member_of(key) {
                    state.present.remove(&node);
                    state.contact.ended(node, Instant::now());
                    self.renew.notify_one();
                }
                self.changed.notify_one();
            }
        }
    }

    fn member_of(&self, key: &str) -> Option<Uuid> {
        key.strip_prefix(&self.gateway.key("members/"))?.parse().ok()
    }
}

impl Coordinator for EtcdCoordinator {
    fn kind(&self) -> &'static str {
        "etcd"
    }

    fn health(&self) -> CoordinationHealth {
        match &self.state().trouble {
            None => CoordinationHealth::Healthy,
            Some(cause) => CoordinationHealth::Degraded(cause.clone()),
        }
    }

    fn keep_membership(self: Arc<Self>, member: Member, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let database = Arc::clone(&self.database);
            let following = stop.run_until_cancelled(self.follow());
            tokio::join!(database.beat(member.clone(), stop.clone()), self.hold_lease(&member, &stop), following);
        })
    }

    fn present(&self) -> Option<Vec<Uuid>> {
        let state = self.state();
        state.follows.then(|| state.present.iter().copied().collect())
    }

    fn is_gone(&self, node: Uuid) -> bool {
        self.state().contact.is_gone(node, TTL)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn note_leadership(&self, note: Option<LeadershipNote>) {
        self.state().leadership = note;
        self.renew.notify_one();
    }

    fn lock<'a>(&'a self, name: &'a str, ttl: Duration) -> BoxFuture<'a, Result<LockGuard, CoordinationError>> {
        Box::pin(locks::lock(&self.gateway, name, ttl))
    }
}
