//! Events: announcing them, delivering each one to its listeners once, and the ends of runs that others follow.

pub(crate) mod announce;
pub(crate) mod budgets;
pub(crate) mod deliveries;
pub(crate) mod following;
pub(crate) mod handlers;
pub(crate) mod notifications;
mod reactions;
pub(crate) mod run_ends;
