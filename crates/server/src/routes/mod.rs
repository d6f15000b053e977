//! One file per resource: its shapes, its handlers, and `register`, which says what each of them demands.

pub(crate) mod about;
pub(crate) mod pools;

use crate::doors::access::Doors;

/// Every route there is.
pub(crate) fn register(doors: &mut Doors) {
    about::register(doors);
    pools::register(doors);
    crate::live::register(doors);
}
