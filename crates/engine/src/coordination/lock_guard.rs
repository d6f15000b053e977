//! A held lock. It beats in the background, reports when it was lost, and is released when it is dropped.

use std::time::{Duration, Instant};

use mainspring_boxed::boxed;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::CoordinationError;
use crate::bus::transport::BoxFuture;

/// The store's side of a held lock.
pub(crate) trait LockLease: Send + Sync + 'static {
    /// Renews the lock; false if another process took it over.
    fn beat(&self) -> BoxFuture<'_, Result<bool, CoordinationError>>;
    fn release(&self) -> BoxFuture<'_, Result<(), CoordinationError>>;
}

#[derive(Debug)]
pub struct LockGuard {
    fence: i64,
    lost: CancellationToken,
    release: Option<oneshot::Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

#[boxed]
impl LockGuard {
    pub(crate) fn new(fence: i64, ttl: Duration, lease: impl LockLease) -> Self {
        let lost = CancellationToken::new();
        let (release, released) = oneshot::channel();
        let keeper = tokio::spawn(keep(lease, ttl, lost.clone(), released));
        Self { fence, lost, release: Some(release), keeper: Some(keeper) }
    }

    /// Rises with every holder. A sink that refuses lower values than it has seen is safe from a holder that lost the
    /// lock without noticing.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// Waits until the lock is lost: taken over, or not renewed within its lifetime.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Releases the lock and waits until others can take it.
    pub async fn release(mut self) {
        drop(self.release.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.await;
        }
    }
}

async fn keep(lease: impl LockLease, ttl: Duration, lost: CancellationToken, mut released: oneshot::Receiver<()>) {
    let mut renewed = Instant::now();
    loop {
        tokio::select! {
            // Whether the guard was released or dropped, the lock is not needed any more.
            _ = &mut released => {
                if let Err(error) = lease.release().await {
                    tracing::warn!(%error, "giving up a lock; it lasts until its time is over");
                }
                return;
            }
            () = tokio::time::sleep(ttl / 3) => {}
        }
        let started = Instant::now();
        let left = ttl.saturating_sub(renewed.elapsed());
        match tokio::time::timeout(left.max(Duration::from_millis(10)), lease.beat()).await {
            Ok(Ok(true)) => renewed = started,
            Ok(Ok(false)) => break,
            Ok(Err(error)) => tracing::debug!(%error, "renewing a lock"),
            Err(_) => {}
        }
        if renewed.elapsed() >= ttl {
            break;
        }
    }
    lost.cancel();
}
