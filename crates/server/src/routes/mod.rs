//! One file per resource: its shapes, its handlers, and `register`, which says what each of them demands.

pub(crate) mod about;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod backfills;
pub(crate) mod calendars;
pub(crate) mod health;
pub(crate) mod namespaces;
pub(crate) mod pools;
pub(crate) mod runs;
pub(crate) mod scheduler;
pub(crate) mod schedules;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod task_runs;
pub(crate) mod webhooks;
pub(crate) mod workers;
pub(crate) mod workflows;

use crate::doors::access::Doors;

/// Every route there is.
pub(crate) fn register(doors: &mut Doors) {
    about::register(doors);
    auth::register(doors);
    audit::register(doors);
    namespaces::register(doors);
    pools::register(doors);
    secrets::register(doors);
    backfills::register(doors);
    calendars::register(doors);
    schedules::register(doors);
    scheduler::register(doors);
    webhooks::register(doors);
    crate::live::register(doors);
    health::register(doors);
    runs::register(doors);
    search::register(doors);
    task_runs::register(doors);
    workers::register(doors);
    workflows::register(doors);
}
