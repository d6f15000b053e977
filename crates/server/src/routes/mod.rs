//! One file per resource: its shapes, its handlers, and `register`, which says what each of them demands.

pub(crate) mod about;
pub(crate) mod health;
pub(crate) mod pools;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod task_runs;
pub(crate) mod workers;
pub(crate) mod workflows;

use crate::doors::access::Doors;

/// Every route there is.
pub(crate) fn register(doors: &mut Doors) {
    about::register(doors);
    health::register(doors);
    pools::register(doors);
    runs::register(doors);
    search::register(doors);
    task_runs::register(doors);
    workers::register(doors);
    workflows::register(doors);
}
