//! The exchange: results and demand go in, claims come out, as one unit of the store per lane.
//!
//! Results arrive in `completions`, wait for their log lines in `logs`, are gathered in `gatherer`, one inbox per
//! session, and handed in by `lane` in `batches`;
//! claims become orders in `assignments`, with what earlier runs left for them by `caches`, and task runs that no worker executes are settled in `parked`.

pub(crate) mod assignments;
pub(crate) mod batches;
mod bisect;
pub(crate) mod caches;
pub(crate) mod completions;
pub(crate) mod gatherer;
pub(crate) mod lane;
pub(crate) mod logs;
pub(crate) mod parked;
pub(crate) mod routes;
pub(crate) mod scopes;
pub(crate) mod session_inbox;
pub(crate) mod tickets;
