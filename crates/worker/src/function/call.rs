//! What a handler is given and what it gives back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainspring_boxed::boxed;
use mainspring_core::TaskKey;
use mainspring_core::trace::TraceContext;
use mainspring_core::work::{Clock, Failure, LogChunk, LogLine, LogStream, Order, OrderAction};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::capture::{LINE_LIMIT, clean_line};
use crate::http::HttpClient;
use crate::mask::Mask;

pub type FunctionResult = Result<Option<Value>, Failure>;
pub type FunctionFuture<'a> = Pin<Box<dyn Future<Output = FunctionResult> + Send + 'a>>;

/// Something a task of kind `function` can call. Any `async` closure over a [`FunctionCall`] is one.
pub trait Handler: Send + Sync + 'static {
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_>;

    /// The result, if it is known without waiting. It saves the future and its bookkeeping.
    fn immediate(&self, _payload: &Value, _attempt: i32) -> Option<FunctionResult> {
        None
    }

    /// The time limit of tasks that have none of their own.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

impl<F, Fut> Handler for F
where
    F: Fn(FunctionCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = FunctionResult> + Send + 'static,
{
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_> {
        Box::pin(self(call))
    }
}

/// One call of a handler.
#[derive(Debug, Clone)]
pub struct FunctionCall {
    pub key: TaskKey,
    /// The session of the worker. With `attempt` it is the fencing token that a sink may check.
    pub session: i64,
    pub attempt: i32,
    pub generation: i32,
    pub order: Arc<Order>,
    /// Cancelled when the task should end; a handler that ignores it is dropped at its next `await`.
    pub cancel: CancellationToken,
    pub log: LogSink,
    /// The span of this call, if the worker sends traces.
    pub trace: Option<TraceContext>,
    pub(crate) http: HttpClient,
}

impl FunctionCall {
    pub fn payload(&self) -> &Value {
        match &self.order.action {
            OrderAction::Function { payload, .. } | OrderAction::Remote { payload, .. } => payload,
            OrderAction::Run { .. } | OrderAction::Steps { .. } | OrderAction::Http(_) => &Value::Null,
        }
    }

    /// Stable over the attempts of one generation, so that a sink can recognise a repetition.
    pub fn idempotency_key(&self) -> String {
        format!("{}.g{}", self.key, self.generation)
    }
}

/// Writes log lines of one call, under the same limits as the output of a process.
#[derive(Debug, Clone)]
pub struct LogSink {
    pub(crate) key: TaskKey,
    pub(crate) attempt: i32,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) logs: mpsc::Sender<LogChunk>,
    /// Bytes that may still be written.
    pub(crate) left: Arc<AtomicUsize>,
    pub(crate) mask: Arc<Mask>,
}

#[boxed]
impl LogSink {
    /// Writes a text, line by line; waits while the log is behind.
    pub async fn write(&self, stream: LogStream, text: &str) {
        let at = self.clock.now();
        let mut lines = Vec::new();
        for line in text.lines() {
            let line = clean_line(self.mask.text(line).as_bytes(), LINE_LIMIT);
            let cost = line.len() + 1;
            match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(cost)) {
                Ok(_) => lines.push(LogLine { at, stream, text: line }),
                Err(left) => {
                    if left > 0 && self.left.swap(0, Ordering::Relaxed) > 0 {
                        let text = "output truncated: the limit of this attempt is reached".to_owned();
                        lines.push(LogLine { at, stream: LogStream::System, text });
                    }
                    break;
                }
            }
        }
        if !lines.is_empty() {
            let chunk = LogChunk { key: self.key, attempt: self.attempt, lines };
            // A closed channel means that the worker is going away; the task's result does not depend on its log.
            let _ = self.logs.send(chunk).await;
        }
    }

    pub async fn info(&self, text: &str) {
        self.write(LogStream::Stdout, text).await;
    }

    pub async fn error(&self, text: &str) {
        self.write(LogStream::Stderr, text).await;
    }
}
