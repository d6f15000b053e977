//! The hot units on SQLite: set-based statements inside one immediate transaction on the single writer.
//!
//! The twin of the functions in `sql/postgres/functions`; the conformance suite holds the two together.
//! Deciding is done in Rust over what a few statements return, because a statement costs a hop to the connection's thread
//! and a row costs little. Row locks, lock order and `SKIP LOCKED` have no counterpart: there is one writer at a time.

mod bulk;
mod checkpoints;
mod claiming;
mod continuing;
mod database;
mod ending;
pub(crate) mod exchange;
mod files;
pub(crate) mod fires;
mod history;
mod items;
pub(crate) mod limits;
mod placing;
pub(crate) mod runs;
pub(crate) mod settle;
mod stages;
pub(crate) mod submit;
#[cfg(test)]
mod tests;
mod transaction;

pub(crate) use database::{SqliteDb, WriterGuard};
pub use files::ServerLock;
pub(crate) use transaction::SqliteTx;
