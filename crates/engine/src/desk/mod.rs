//! Dead letters and the actions on them, staleness, and batches.
//!
//! Requests are methods of [`Client`](crate::Client); the periodic work is the leader's [`duty`].

mod actions;
mod batches;
mod capture;
mod context;
pub(crate) mod duty;
mod notices;
pub(crate) mod notifying;
mod staleness;
mod unserved;

use std::time::Duration;

pub use actions::{LetterAction, LetterError, LetterOutcome};
pub use batches::{BatchRequest, MOST_ENTRIES_AT_ONCE};
use mainspring_core::staleness::Thresholds;
pub use notifying::{Message, Messenger, MessengerFuture};
pub use staleness::{Detection, DetectionAction};

/// The operator's settings for dead letters and staleness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeskConfig {
    /// Whether runs without progress are given up.
    pub detects: bool,
    /// Only log what would be given up.
    pub dry_run: bool,
    /// How many runs one transaction gives up.
    pub batch_size: usize,
    pub interval: Duration,
    /// How many entries one transaction of a batch acts on.
    pub entries_at_once: usize,
    pub thresholds: Thresholds,
    /// How long a task may be ready without any worker for it before it gets an entry.
    pub unserved_after: Duration,
    /// How long closed entries are kept; `None` keeps them for ever.
    pub kept: Option<Duration>,
}

impl Default for DeskConfig {
    fn default() -> Self {
        Self {
            detects: true,
            dry_run: false,
            batch_size: 100,
            interval: Duration::from_secs(300),
            entries_at_once: 500,
            thresholds: Thresholds::default(),
            unserved_after: Duration::from_secs(600),
            kept: Some(Duration::from_secs(90 * 24 * 3_600)),
        }
    }
}
