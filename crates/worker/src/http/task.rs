//! Executes tasks of kind `http`.

use std::time::Duration;

use mainspring_core::work::OrderAction;

use super::answer::output;
use super::client::HttpClient;
use super::expect;
use super::request::{Request, identify};
use crate::function::{FunctionCall, FunctionFuture, FunctionResult, Handler};
use crate::output::OUTPUT_LIMIT;

/// To the pool a request is one more function; only its order looks different.
#[derive(Debug, Clone)]
pub(crate) struct HttpTask(pub(crate) HttpClient);

impl Handler for HttpTask {
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_> {
        Box::pin(async move {
            tokio::select! {
                // Dropping the request closes its connection.
                () = call.cancel.cancelled() => Ok(None),
                result = self.perform(&call) => result,
            }
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.0.config().timeout)
    }
}

impl HttpTask {
    async fn perform(&self, call: &FunctionCall) -> FunctionResult {
        let OrderAction::Http(order) = &call.order.action else { return Ok(None) };
        let mut request = Request::of(order)?;
        identify(&mut request, call);
        let limit = order.max_response_bytes.min(OUTPUT_LIMIT);
        let answer = self.0.send(request, order.follow_redirects, limit, &call.log).await?;
        let facts = answer.facts();
        expect::check(&order.expect, &answer, &facts)?;
        output(facts).map(Some)
    }
}
