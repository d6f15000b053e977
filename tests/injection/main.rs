//! Hostile values, end to end: each arrives literally or is refused, and nothing of it is executed.
//!
//! The classes of past vulnerabilities of workflow engines give the tests their names. A canary file would appear if
//! anything of a value were executed; it never does.

mod descriptors;
mod environment;
mod paths;
mod place;
mod shells;
mod sql;
mod templates;
mod values;
