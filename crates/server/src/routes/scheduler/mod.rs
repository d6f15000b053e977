//! `/scheduler`: jobs, their executions, events and who handles them.

mod executions;
mod handlers;
mod jobs;
mod shapes;
mod totals;

use mainspring_engine::{JobError, RequestFault};

use crate::auth::access::Routes;
use crate::problem::{Fault, Problem};

pub(crate) fn register(routes: &mut Routes) {
    jobs::register(routes);
    executions::register(routes);
    totals::register(routes);
    handlers::register(routes);
}

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Invalid(faults) => invalid(faults),
            JobError::Conflict(cause) => Self::conflict(cause),
            JobError::Submit(error) => error.into(),
            JobError::Store(error) => error.into(),
        }
    }
}

/// 422 with everything that is wrong.
fn invalid(faults: Vec<RequestFault>) -> Problem {
    let detail = match faults.as_slice() {
        [one] => format!("{}: {}", one.pointer, one.message),
        several => format!("the request has {} faults", several.len()),
    };
    Problem::faults(detail, faults.into_iter().map(|fault| Fault::at(fault.pointer, fault.message)).collect())
}
