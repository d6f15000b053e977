//! Whether this node may receive requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainspring_engine::Client;

/// Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Readiness {
    client: Client,
    draining: Arc<AtomicBool>,
}

impl Readiness {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, draining: Arc::default() }
    }

    /// Makes the node not ready from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether all components but the workers are healthy and the node is not stopping.
    pub(crate) async fn is_ready(&self) -> bool {
        !self.draining.load(Ordering::Acquire) && self.client.health().await.is_ready()
    }
}
