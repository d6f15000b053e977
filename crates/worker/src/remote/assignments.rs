//! From an assignment of the protocol to one of the pool.

use std::sync::Arc;

use mainspring_api::worker;
use mainspring_core::work::{Assignment, Failure, Order};
use serde_json::Value;

use super::desk::Attempt;

/// Reads an assignment. An assignment that cannot be read fails its attempt, if the attempt is known.
pub(crate) fn read(assigned: worker::Assignment, session: i64) -> Result<Assignment, (Option<Attempt>, Failure)> {
    let attempt = assigned.attempt;
    let key = assigned
        .task_run_id
        .parse()
        .map_err(|_| (None, failure("order", format!("`{}` is not a task run id", assigned.task_run_id))))?;
    let trace = assigned.traceparent.as_deref().and_then(|text| text.parse().ok());
    let order = order(assigned).map_err(|failure| (Some((key, attempt)), failure))?;
    Ok(Assignment { key, session, attempt, generation: order.1, order: Arc::new(order.0), trace })
}

fn order(assigned: worker::Assignment) -> Result<(Order, i32), Failure> {
    let Value::Object(fields) = assigned.order else {
        return Err(failure("order", "the order is not an object".into()));
    };
    let mut order: Order = serde_json::from_value(Value::Object(fields))
        .map_err(|error| failure("order", format!("this worker does not understand the order: {error}")))?;
    order.env = assigned.env;
    order.secrets = assigned.secrets;
    Ok((order, assigned.generation))
}

pub(crate) fn failure(kind: &str, message: String) -> Failure {
    Failure { kind: kind.into(), message, permanent: kind == "order", ..Failure::default() }
}
