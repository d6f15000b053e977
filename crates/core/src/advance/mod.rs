//! The model of a run in memory, with which the units of the databases are compared.
//!
//! A [`Board`] holds one run. Events go in (a task was started, an attempt ended, a condition was decided, the run
//! was cancelled), transitions come out. The two databases do the same with rows and counters; tests hold them
//! against this model. Limits, due times and sessions are not here: they delay a start, but change no outcome.

mod board;
mod check;
mod expire;
mod reopen;

#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;

pub use board::{Board, Change, Ending, Refused, Slot};
pub use reopen::Reopening;
