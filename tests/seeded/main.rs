//! Bugs on purpose: each is one that a scheduler like this could have, and the checker must find it. Under the same
//! schedule the sound version leaves nothing to find.
//!
//! Bugs inside a unit are put into the test's own database by changing the text of its function; bugs of a node are
//! played by the driver.

mod bugs;
mod corruption;
mod driver;
mod mutation;
mod terms;
