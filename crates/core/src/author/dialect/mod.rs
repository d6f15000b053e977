//! The keys of every mapping of the dialect: one table each, from which the parser knows what is unknown and from which
//! the JSON Schema is made. A key that is not here does not exist.

mod exclusive;
mod http;
mod kinds;
mod table;
mod task;
mod triggers;
mod workflow;

pub(crate) use exclusive::EXCLUSIVE;
pub(crate) use http::{AUTH, BASIC, EXPECT, EXPECT_BODY, HTTP, METHODS};
pub(crate) use kinds::{APPROVAL, CHILD, FUNCTION, REMOTE, WAIT, WAIT_KINDS};
pub(crate) use table::{Shape, Table};
pub(crate) use task::{CACHE, EXIT_CODES, IMAGE, KINDS, LIMITS, RETRY, REUSE, STEP, TASK};
pub(crate) use triggers::{CATCHUP, CHECK_KINDS, DEBOUNCE, POLL, TRIGGER, TRIGGER_KINDS};
pub(crate) use workflow::{CONCURRENCY, DEFAULTS, INPUT, LIFECYCLE, LISTED_KEYS, MAX_LENGTH, NOTIFICATION, WORKFLOW};
