//! Live updates: subscribers learn what happens to runs, soon and at a bounded cost.
//!
//! - One run is followed by its numbers: [`RunSubscription`] reads the log from where it stands, when the hub says that there
//!   is more. The database is its buffer, so a slow reader costs nothing and misses nothing.
//! - Many runs are followed by what changes: [`WideSubscription`] gets a snapshot, then messages from a bounded queue, and
//!   `resync` with a new snapshot when it fell behind.
//! - The log lines of one task run are followed by [`LogSubscription`].
//!
//! The hub learns of changes from the lanes of its own process, from other nodes by a hint that names runs, and by looking
//! itself: at the followed runs, at new runs, at what people did. Nothing is read and nothing is sent while there are no subscribers.
//! Rights are the caller's business: followers see what their filter lets through.

mod hints;
mod hub;
mod logs;
mod message;
mod run;
mod wide;

pub(crate) use hints::{Gathered, Hint, Hints};
pub use hub::Live;
pub use logs::LogSubscription;
pub use message::{LiveMessage, MessageType};
pub use run::{LiveUpdate, RunSubscription};
pub use wide::{WideFilter, WideSubscription};
