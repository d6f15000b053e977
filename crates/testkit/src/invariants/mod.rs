//! What must hold in a database, whatever happened to the programs that wrote it.
//!
//! [`check`] holds at any time, also while work is under way; [`check_at_rest`] adds what must hold once every run was
//! driven to its end. Both read one snapshot and change nothing. What needs the clients' acknowledgements or an effect
//! log (an acknowledged completion appears once; a sink accepts one effect) is not here.

mod counts;
mod fires;
mod jobs;
mod reading;
mod rules;

pub(crate) use reading::Snapshot;
pub use reading::{Violation, check, check_at_rest, check_jobs};
