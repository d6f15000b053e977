//! One file per resource: its shapes, its handlers, and `register`, which says what each of them demands.

pub(crate) mod about;
pub(crate) mod agenda;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod backfills;
pub(crate) mod calendars;
pub(crate) mod cluster;
pub(crate) mod dlq;
pub(crate) mod health;
pub(crate) mod namespaces;
pub(crate) mod notifications;
pub(crate) mod overview;
pub(crate) mod pauses;
pub(crate) mod pools;
pub(crate) mod runs;
pub(crate) mod scheduler;
pub(crate) mod schedules;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod task_runs;
pub(crate) mod webhooks;
pub(crate) mod worker;
pub(crate) mod workers;
pub(crate) mod workflows;

use crate::auth::access::Routes;

/// Every route there is.
pub(crate) fn register(routes: &mut Routes) {
    about::register(routes);
    auth::register(routes);
    audit::register(routes);
    namespaces::register(routes);
    notifications::register(routes);
    pauses::register(routes);
    pools::register(routes);
    secrets::register(routes);
    backfills::register(routes);
    calendars::register(routes);
    dlq::register(routes);
    schedules::register(routes);
    agenda::register(routes);
    overview::register(routes);
    scheduler::register(routes);
    webhooks::register(routes);
    crate::live::register(routes);
    cluster::register(routes);
    health::register(routes);
    runs::register(routes);
    search::register(routes);
    task_runs::register(routes);
    worker::register(routes);
    workers::register(routes);
    workflows::register(routes);
    crate::ui::register(routes);
}
