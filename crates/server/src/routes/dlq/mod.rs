//! `/dlq`: dead letters, staleness, and what people do about them.

mod act;
mod batch;
mod look;
mod record;
mod shapes;
mod staleness;

use crate::auth::access::Routes;

pub(crate) fn register(routes: &mut Routes) {
    look::register(routes);
    act::register(routes);
    record::register(routes);
    batch::register(routes);
    staleness::register(routes);
}
