//! Whether this node may be sent work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainspring_engine::Client;

/// Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct Readiness {
    client: Client,
    draining: Arc<AtomicBool>,
}

impl Readiness {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, draining: Arc::default() }
    }

    /// From now on not ready.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether nothing but workers is unhealthy, and we are not about to stop.
    pub(crate) async fn is_ready(&self) -> bool {
        !self.draining.load(Ordering::Acquire) && self.client.health().await.is_ready()
    }
}
