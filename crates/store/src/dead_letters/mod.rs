//! Dead letters: what needs a person, why, and what became of it.
//!
//! Entries of exhausted tasks are written by the unit that ends the task, without what is costly to find out; a duty
//! captures that right after ([`Store::capture_letters`]). An entry is an audit record: what touches the run are the
//! actions on task runs, which close the pending entries of the tasks they concern in their own transaction.

mod batches;
mod capture;
mod groups;
mod read;
mod record;

pub use batches::{BatchRow, NewBatch};
pub use capture::{Captured, IncompleteEntry};
pub use groups::{GroupRow, ReasonStatistics};
pub use read::{DeadLetter, LetterFilter, Queued};
pub use record::{LetterPatch, NewLetter};
pub(crate) use record::{
    close_matching, close_of_runs, close_of_tasks, close_pending, close_stale, insert, insert_many, pending_of,
    require_pending,
};

use mainspring_core::Micros;
use uuid::{NoContext, Timestamp, Uuid};

/// A UUID v7 of that time.
pub(crate) fn new_id(now: Micros) -> Uuid {
    let (seconds, nanos) = ((now / 1_000_000).max(0), (now % 1_000_000).max(0) * 1_000);
    Uuid::new_v7(Timestamp::from_unix(NoContext, seconds as u64, nanos as u32))
}
