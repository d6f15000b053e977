//! What starts runs by the clock: triggers, jobs, calendars, fires and backfills.

pub(crate) mod backfills;
pub(crate) mod calendars;
pub(crate) mod executions;
pub(crate) mod fire_unit;
pub(crate) mod fires;
pub(crate) mod job_creation;
pub(crate) mod jobs;
pub(crate) mod polls;
pub(crate) mod realign;
pub(crate) mod staged;
pub(crate) mod trigger_sync;
pub(crate) mod triggers;
