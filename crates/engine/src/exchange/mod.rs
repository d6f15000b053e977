//! The exchange: results and demand go in, claims come out, as one unit of the store per lane.
//!
//! Results arrive in `completions`, wait for their log lines in `logs`, are batched in `inbox` and handed in by `lane`;
//! claims become orders in `assignments`, and task runs that no worker executes are settled in `parked`.

pub(crate) mod assignments;
pub(crate) mod completions;
pub(crate) mod inbox;
pub(crate) mod lane;
pub(crate) mod logs;
pub(crate) mod parked;
pub(crate) mod scopes;
