//! A cache of recently read tokens, so that a busy client does not cost a read per request.
//!
//! A change is announced on the bus and empties the cache. If the message is lost, entries expire within half a second,
//! so a revoked token is refused everywhere within one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_engine::{AccessChanges, Client};
use mainspring_store::{Result, TokenRow};
use tokio::sync::broadcast::error::TryRecvError;
use uuid::Uuid;

const GOOD_FOR: Duration = Duration::from_millis(500);
/// The cache holds at most this many; ids that do not exist are not cached.
const MOST: usize = 10_000;

#[derive(Debug)]
pub(crate) struct KnownTokens(Mutex<TokenCache>);

#[derive(Debug)]
struct TokenCache {
    changes: AccessChanges,
    rows: HashMap<Uuid, (Instant, TokenRow)>,
}

impl KnownTokens {
    pub(crate) fn new(client: &Client) -> Self {
        Self(Mutex::new(TokenCache { changes: client.access_changes(), rows: HashMap::new() }))
    }

    /// The token of this id, at most half a second old.
    pub(crate) async fn get(&self, client: &Client, id: Uuid) -> Result<Option<TokenRow>> {
        let asked = Instant::now();
        if let Some(row) = self.with(|known| known.fresh(id, asked)) {
            return Ok(Some(row));
        }
        let row = client.store().token(id).await?;
        if let Some(row) = &row {
            self.with(|known| known.keep(asked, row.clone()));
        }
        Ok(row)
    }

    /// Notes that its use is being stored, so that other requests with the cached row need not store it.
    pub(crate) fn note_use(&self, id: Uuid, now: Micros) {
        self.with(|known| {
            if let Some((_, row)) = known.rows.get_mut(&id) {
                row.last_used_at = Some(now);
            }
        });
    }

    fn with<T>(&self, look: impl FnOnce(&mut TokenCache) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TokenCache {
    fn fresh(&mut self, id: Uuid, now: Instant) -> Option<TokenRow> {
        while let Ok(_) | Err(TryRecvError::Lagged(_)) = self.changes.try_recv() {
            self.rows.clear();
        }
        let (read_at, row) = self.rows.get(&id)?;
        (now.saturating_duration_since(*read_at) < GOOD_FOR).then(|| row.clone())
    }

    /// Stores a row as of the time of the query; later changes are newer.
    fn keep(&mut self, asked: Instant, row: TokenRow) {
        if self.rows.len() >= MOST {
            self.rows.retain(|_, (read_at, _)| read_at.elapsed() < GOOD_FOR);
        }
        if self.rows.len() < MOST {
            self.rows.insert(row.id, (asked, row));
        }
    }
}
