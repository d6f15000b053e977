//! The operator's desk: dead letters and what is done about them, staleness, batches.
//!
//! What people ask for is a method of [`Client`](crate::Client); what happens by itself is the leader's [`duty`].

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

/// What an operator can choose about the desk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeskConfig {
    /// Whether runs are given up that have gone too long without progress.
    pub detects: bool,
    /// Only say what would be given up.
    pub dry_run: bool,
    /// How many runs one transaction gives up.
    pub batch_size: usize,
    pub interval: Duration,
    /// How many entries one transaction of a batch acts on.
    pub entries_at_once: usize,
    pub thresholds: Thresholds,
    /// A task that has been ready for so long without any worker for it gets an entry.
    pub unserved_after: Duration,
    /// Closed entries are forgotten after so long; `None` keeps them.
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
