//! The pure heart: what a workflow is, which states exist, and what follows from what.
//!
//! Nothing here waits, reads a clock, opens a file or talks to anybody. Time and randomness are parameters,
//! so every decision can be replayed in a test.

pub mod ids;
pub mod retry;
pub mod rule;
pub mod state;
pub mod work;
pub mod workflow;

pub use ids::{RunId, TaskKey};
pub use workflow::Workflow;

/// Microseconds since the Unix epoch, UTC: the only representation of an instant inside the program.
pub type Micros = i64;
