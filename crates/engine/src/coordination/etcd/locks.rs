//! Locks: a key under a lease of its own. The revision that made it is the fencing value.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::gateway::Gateway;
use crate::bus::transport::BoxFuture;
use crate::coordination::CoordinationError;
use crate::coordination::lock_guard::{LockGuard, LockLease};

/// The pause between two tries for a lock that another process holds.
const TRY_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn lock(gateway: &Arc<Gateway>, name: &str, ttl: Duration) -> Result<LockGuard, CoordinationError> {
    let key = gateway.key(&format!("locks/{name}"));
    let lease = gateway.grant(ttl.as_secs().max(2)).await?;
    let value = json!({"process": std::process::id()});
    let mut renew_at = tokio::time::Instant::now() + ttl / 3;
    let held = loop {
        match gateway.create(&key, &value, lease).await {
            Ok(Some(fence)) => break Ok(fence),
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        if tokio::time::Instant::now() >= renew_at {
            // Waiting may take longer than the lease lasts.
            if !gateway.keep_alive(lease).await? {
                break Err(CoordinationError::Unreachable("the lease ended while waiting for the lock".into()));
            }
            renew_at = tokio::time::Instant::now() + ttl / 3;
        }
        tokio::time::sleep(TRY_EVERY).await;
    };
    let lock = EtcdLock { gateway: Arc::clone(gateway), key, lease };
    match held {
        Ok(fence) => Ok(LockGuard::new(fence, ttl, lock)),
        Err(error) => {
            let _ = gateway.revoke(lease).await;
            Err(error)
        }
    }
}

struct EtcdLock {
    gateway: Arc<Gateway>,
    key: String,
    lease: i64,
}

impl LockLease for EtcdLock {
    fn beat(&self) -> BoxFuture<'_, Result<bool, CoordinationError>> {
        // A lease that lives has its key, unless etcd was wiped and gave the same number again.
        Box::pin(async { Ok(self.gateway.keep_alive(self.lease).await? && self.gateway.has(&self.key).await?) })
    }

    fn release(&self) -> BoxFuture<'_, Result<(), CoordinationError>> {
        Box::pin(self.gateway.revoke(self.lease))
    }
}
