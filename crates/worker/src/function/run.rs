//! Executes one call: time limit, cancellation, and panics that stay inside.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mainspring_core::work::{Failure, Outcome};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::call::{FunctionCall, FunctionResult, Handler};
use crate::control::{Control, Stop};
use crate::text;

/// The outcome of a handler that need not wait.
pub(crate) fn immediate(handler: &dyn Handler, payload: &Value, attempt: i32) -> Option<Outcome> {
    match catch_unwind(AssertUnwindSafe(|| handler.immediate(payload, attempt))) {
        Ok(result) => result.map(outcome),
        Err(panic) => Some(Outcome::Failed(panicked(panic.as_ref()))),
    }
}

/// Calls the handler; `None` if the attempt was lost: its result would be refused.
pub(crate) async fn run(
    handler: Arc<dyn Handler>,
    call: FunctionCall,
    control: &Control,
    grace: Duration,
) -> Option<Outcome> {
    let limit = call.order.timeout_ms.map(Duration::from_millis).or_else(|| handler.timeout());
    let cancel = call.cancel.clone();
    let future = match catch_unwind(AssertUnwindSafe(|| handler.call(call))) {
        Ok(future) => future,
        Err(panic) => return Some(Outcome::Failed(panicked(panic.as_ref()))),
    };
    let mut future = CatchPanic(future);
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    tokio::select! {
        // The request to stop comes first: a handler that obeys it has not succeeded.
        biased;
        () = control.stopped.cancelled() => {}
        result = &mut future => return Some(result.map_or_else(Outcome::Failed, outcome)),
        () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
    }
    // The attempt is over: what the handler still returns while it tidies up does not count.
    let stop = control.reason();
    cancel.cancel();
    tokio::select! {
        biased;
        () = control.killed.cancelled() => {}
        _ = &mut future => {}
        () = tokio::time::sleep(grace) => {}
    }
    match control.reason().filter(|latest| stop.is_some() || *latest == Stop::Lost) {
        Some(Stop::Lost) => None,
        Some(Stop::Release) => Some(Outcome::Released),
        Some(Stop::Cancel(reason)) => Some(Outcome::Cancelled { reason }),
        None => Some(Outcome::Failed(timed_out(limit.unwrap_or_default()))),
    }
}

pub(crate) fn timed_out(limit: Duration) -> Failure {
    let message = format!("timed out after {}", text::duration(limit));
    Failure { kind: "timeout".into(), message, ..Failure::default() }
}

fn outcome(result: FunctionResult) -> Outcome {
    match result {
        Ok(output) => Outcome::Success { output },
        Err(failure) => Outcome::Failed(failure),
    }
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let panic_message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    let message = format!("panicked: {}", text::first_characters(&panic_message, 10_000));
    Failure { kind: "panic".into(), message, ..Failure::default() }
}

/// Turns a panic of the inner future into a failure of that one task.
pub(crate) struct CatchPanic<F>(pub(crate) Pin<Box<F>>)
where
    F: Future + Send + ?Sized;

impl<F: Future + Send + ?Sized> Future for CatchPanic<F> {
    type Output = Result<F::Output, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panicked(panic.as_ref()))),
        }
    }
}
