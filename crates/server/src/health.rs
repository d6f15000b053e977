//! Whether this node lives and may be sent work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mainspring_engine::Client;
use tokio::sync::Mutex;

/// A database that does not answer for so long is away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Anybody may ask, so the database is asked at most this often.
const REMEMBERED: Duration = Duration::from_millis(500);

/// Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    draining: AtomicBool,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Health {
    pub(crate) fn new(client: Client) -> Self {
        Self { shared: Arc::new(Shared { client, draining: AtomicBool::new(false), last: Mutex::new(None) }) }
    }

    /// From now on not ready.
    pub(crate) fn drain(&self) {
        self.shared.draining.store(true, Ordering::Release);
    }

    /// Whether the database answers with the schema we know, and we are not about to stop.
    pub(crate) async fn is_ready(&self) -> bool {
        if self.shared.draining.load(Ordering::Acquire) {
            return false;
        }
        // Held while asking: many who ask at once are answered by one look.
        let mut last = self.shared.last.lock().await;
        if let Some((at, ready)) = *last
            && at.elapsed() < REMEMBERED
        {
            return ready;
        }
        let store = self.shared.client.store();
        let ready = match tokio::time::timeout(PATIENCE, store.require_current_schema()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "not ready");
                false
            }
            Err(_) => {
                tracing::warn!("not ready: the database does not answer");
                false
            }
        };
        *last = Some((Instant::now(), ready));
        ready
    }
}
