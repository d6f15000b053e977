//! Tests of workflows: a run played in virtual time, with outcomes that the test names instead of work.
//!
//! Nothing is executed and nothing waits. What follows from what is decided by [`crate::advance::Board`], the model
//! that the databases are held against; expressions are evaluated as for a worker. Left out is what depends on the
//! machine: workers, slots, pools, concurrency limits and priorities. Random parts of a delay take their mean.

mod attempts;
mod check;
mod compare;
mod items;
mod mock;
mod outcome;
mod parked;
mod play;
mod suite;

#[cfg(test)]
mod tests;

pub(crate) use mock::{FAIL_KEYS, OUTCOME_KEYS};
pub(crate) use suite::{CASE_KEYS, EXPECT_KEYS, SUITE_KEYS, TASK_KEYS};

pub use compare::{Difference, compare};
pub use mock::{Mock, Step, StepResult};
pub use outcome::{ItemOutcome, Outcome, Refusal, TaskOutcome};
pub use play::{Children, Subject, play};
pub use suite::{Case, Expect, ExpectedTask, Located, Suite};
