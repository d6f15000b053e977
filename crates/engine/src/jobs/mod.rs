//! Jobs: one handler, one schedule, made in one call.
//!
//! A job is a workflow of one task with one trigger, so that it has everything a workflow has: versions, runs, retries,
//! logs, dead letters. What is particular to it is in the store's `jobs` row.

mod checks;
mod request;
mod service;
mod spec;

pub use request::{JobRequest, JobTiming};
pub use service::{Execution, JobError};
pub use spec::JobSpec;
