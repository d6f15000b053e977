//! Runs and what happens to them: creation, the exchange, settling, limits, waiting, repair, reopening, retention.

pub(crate) mod admission;
pub(crate) mod artifacts;
pub(crate) mod create;
pub(crate) mod due;
pub(crate) mod exchange;
pub(crate) mod flags;
pub(crate) mod holdings;
pub(crate) mod limits;
pub(crate) mod live_row;
pub(crate) mod locked;
pub(crate) mod operate;
pub(crate) mod parking;
pub(crate) mod proceed;
pub(crate) mod reopen;
pub(crate) mod reopen_items;
pub(crate) mod reopen_open;
pub(crate) mod reopen_write;
pub(crate) mod repair;
pub(crate) mod retention;
pub(crate) mod settle;
pub(crate) mod single_task;
pub(crate) mod starts;
mod stop_items;
pub(crate) mod submit;
pub(crate) mod transitions;
pub(crate) mod waits;
