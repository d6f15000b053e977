//! Schedules: the leader's clock loop, the units of fires it stages, backfills, and what a client asks about triggers.

pub(crate) mod backfills;
pub(crate) mod clock_loop;
pub(crate) mod due;
pub(crate) mod firing;
pub(crate) mod staging;
pub(crate) mod status;
pub(crate) mod triggers;
