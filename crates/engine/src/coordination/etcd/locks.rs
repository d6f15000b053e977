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
    let lease = gateway.grant(lease_seconds(ttl)).await?;
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

/// etcd counts in whole seconds, and at least two. The lease may outlast what its holder believes, never end before it.
fn lease_seconds(ttl: Duration) -> u64 {
    (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).max(2)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_at_least_as_long_as_its_lock() {
        for (millis, seconds) in [(500, 2), (2_000, 2), (2_001, 3), (2_999, 3), (30_000, 30)] {
            assert_eq!(lease_seconds(Duration::from_millis(millis)), seconds, "{millis} ms");
        }
    }
}
