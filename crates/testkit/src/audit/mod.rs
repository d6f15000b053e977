//! The checker after the storm: the database at rest against what was seen from outside.
//!
//! Evidence is what clients were answered, what tasks did, and what still runs. The database alone is checked by
//! [`crate::invariants`]; [`audit`] does both.

mod check;
mod evidence;
mod record;
#[cfg(test)]
mod tests;

pub use check::audit;
pub use evidence::{Acknowledged, Attempts, Cancelled, Evidence, Paused, Reopened};
