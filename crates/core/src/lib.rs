//! The pure heart: what a workflow is, which states exist, and what follows from what.
//!
//! Nothing here waits, reads a clock, opens a file or uses the network. Time and randomness are parameters,
//! so every decision can be replayed in a test.

pub mod advance;
pub mod artifacts;
mod author;
pub mod builtin;
pub mod dag;
pub mod dead_letter;
pub mod diagnostic;
pub mod difference;
mod document;
pub mod expr;
pub mod format;
pub mod graph;
pub mod ids;
pub mod import;
mod inputs;
mod pattern;
pub mod plan;
pub mod recent;
pub mod reopen;
pub mod retry;
pub mod rule;
pub mod schedule;
pub mod schema;
pub mod signature;
pub mod simulate;
pub mod staleness;
pub mod state;
pub mod time;
pub mod trace;
pub mod work;
pub mod workflow;
mod yaml;

pub use author::{parse, parse_with_warnings};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use document::read_document;
pub use expr::{Scope, TaskError, TaskView};
pub use ids::{RunId, TaskKey};
pub use plan::Decision;
pub use workflow::Workflow;

/// Microseconds since the Unix epoch, UTC: the only representation of an instant inside the program.
pub type Micros = i64;
