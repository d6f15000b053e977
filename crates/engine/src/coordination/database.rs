//! Coordination by the database alone: beats that others see standing still.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_store::{LockRow, Store};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::coordinator::{CoordinationError, CoordinationHealth, Coordinator, LeadershipNote, Member};
use super::lock_guard::{LockGuard, LockLease};
use super::standing::StandstillTimer;
use crate::bus::transport::BoxFuture;
use crate::clock::SystemClock;

const BEAT_EVERY: Duration = Duration::from_secs(1);
/// The pause between two tries for a lock that another process holds.
const LOCK_LOOKS: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct DatabaseCoordinator {
    store: Store,
    clock: Arc<SystemClock>,
}

impl DatabaseCoordinator {
    pub(crate) fn new(store: Store, clock: Arc<SystemClock>) -> Self {
        Self { store, clock }
    }

    pub(crate) async fn beat(&self, member: Member, stop: CancellationToken) {
        use mainspring_core::work::Clock as _;
        let mut ticks = tokio::time::interval(BEAT_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            if let Err(error) = self.store.beat_member(self.clock.now(), &member.row()).await {
                tracing::debug!(%error, "saying that this node takes part");
            }
        }
        if let Err(error) = self.store.remove_member(member.node).await {
            tracing::debug!(%error, "saying that this node leaves; it will be forgotten");
        }
    }

    async fn take_lock(&self, name: &str, ttl: Duration) -> Result<LockGuard, CoordinationError> {
        let holder = self.clock.new_id();
        let holder_name = format!("process {}", std::process::id());
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).max(1);
        let mut standing: StandstillTimer<i64> = StandstillTimer::default();
        loop {
            let seen = self.store.lock_row(name).await?;
            let is_free = match &seen {
                None => true,
                Some(row) => {
                    let passed = standing.look(Instant::now(), LOCK_LOOKS);
                    let stood = standing.note(row.fence, row.beat, passed);
                    row.released || stood >= Duration::from_millis(row.ttl_ms.unsigned_abs())
                }
            };
            if is_free
                && let Some(row) = self.store.take_lock(name, holder, &holder_name, ttl_ms, seen.as_ref()).await?
            {
                let lease = DatabaseLock { store: self.store.clone(), row };
                return Ok(LockGuard::new(lease.row.fence, ttl, lease));
            }
            tokio::time::sleep(LOCK_LOOKS).await;
        }
    }
}

impl Coordinator for DatabaseCoordinator {
    fn kind(&self) -> &'static str {
        "database"
    }

    /// The health report has a separate component for the database.
    fn health(&self) -> CoordinationHealth {
        CoordinationHealth::Healthy
    }

    fn keep_membership(self: Arc<Self>, member: Member, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.beat(member, stop).await })
    }

    fn present(&self) -> Option<Vec<Uuid>> {
        None
    }

    /// The election itself measures beats that stand still.
    fn is_gone(&self, _: Uuid) -> bool {
        false
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn note_leadership(&self, _: Option<LeadershipNote>) {}

    fn lock<'a>(&'a self, name: &'a str, ttl: Duration) -> BoxFuture<'a, Result<LockGuard, CoordinationError>> {
        Box::pin(self.take_lock(name, ttl))
    }
}

struct DatabaseLock {
    store: Store,
    row: LockRow,
}

impl LockLease for DatabaseLock {
    fn beat(&self) -> BoxFuture<'_, Result<bool, CoordinationError>> {
        Box::pin(async { Ok(self.store.beat_lock(&self.row.name, self.row.fence, self.row.holder).await?) })
    }

    fn release(&self) -> BoxFuture<'_, Result<(), CoordinationError>> {
        Box::pin(async { Ok(self.store.release_lock(&self.row.name, self.row.fence, self.row.holder).await?) })
    }
}
