//! One executor per kind of order: scripts, requests, functions.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use mainspring_core::work::{ArtifactSource, Assignment, Clock, LogChunk, LogStream, OrderAction, Outcome};
use tokio::sync::mpsc;

use crate::config::PoolConfig;
use crate::control::Control;
use crate::function::{self, CatchPanic, FunctionCall, Handler, LogSink, Registry};
use crate::http::{HttpClient, HttpTask};
use crate::mask::Mask;
use crate::shell::{self, Ended, PoolContext, Scripts, Workbench};
use crate::watchdog::Guard;

/// `None`: the attempt was lost, so its result is not reported.
pub(crate) type ExecutorFuture<'a> = Pin<Box<dyn Future<Output = Option<Ended>> + Send + 'a>>;

/// Executes orders of one kind.
pub(crate) trait Executor: Send + Sync {
    /// The outcome, if it is known without waiting.
    fn immediate(&self, _context: &ExecutorContext, _assignment: &Assignment) -> Option<Outcome> {
        None
    }

    /// Executes one attempt to its end. A panic inside is a failure of that attempt.
    fn execute<'a>(&'a self, context: &'a ExecutorContext, attempt: Attempt<'a>) -> ExecutorFuture<'a>;
}

/// The executor of an order.
pub(crate) fn executor(action: &OrderAction) -> &'static dyn Executor {
    match action {
        OrderAction::Run { .. } | OrderAction::Steps { .. } => &Shell,
        OrderAction::Http(_) => &Http,
        OrderAction::Function { .. } | OrderAction::Remote { .. } => &Function,
    }
}

/// What the executors of a pool share.
#[derive(Debug)]
pub(crate) struct ExecutorContext {
    pub(crate) config: PoolConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Registry,
    pub(crate) http: HttpClient,
    pub(crate) request: Arc<HttpTask>,
    pub(crate) logs: mpsc::Sender<LogChunk>,
    pub(crate) workbench: Workbench,
    pub(crate) guard: Option<Guard>,
    /// The source of files of other tasks. It is set once, soon after the start.
    pub(crate) artifacts: OnceLock<Arc<dyn ArtifactSource>>,
}

/// One attempt that is being executed.
#[derive(Debug, Clone)]
pub(crate) struct Attempt<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) control: &'a Control,
    pub(crate) mask: Arc<Mask>,
}

impl ExecutorContext {
    async fn call(&self, handler: Arc<dyn Handler>, attempt: Attempt<'_>) -> Option<Ended> {
        let Attempt { assignment, control, mask } = attempt;
        let call = FunctionCall {
            key: assignment.key,
            session: assignment.session,
            attempt: assignment.attempt,
            generation: assignment.generation,
            order: Arc::clone(&assignment.order),
            cancel: control.stopped.clone(),
            log: LogSink {
                key: assignment.key,
                attempt: assignment.attempt,
                clock: Arc::clone(&self.clock),
                logs: self.logs.clone(),
                left: Arc::new(AtomicUsize::new(self.config.log_limit)),
                mask,
            },
            trace: assignment.trace,
            http: self.http.clone(),
        };
        if !assignment.order.process.remarks.is_empty() {
            call.log.write(LogStream::System, &assignment.order.process.remarks.join("\n")).await;
        }
        let outcome = function::run(handler, call, control, self.config.function_grace).await;
        outcome.map(|outcome| Ended { outcome, artifacts: Vec::new(), logged: true })
    }
}

/// Scripts in process groups of their own.
struct Shell;

impl Executor for Shell {
    fn execute<'a>(&'a self, context: &'a ExecutorContext, attempt: Attempt<'a>) -> ExecutorFuture<'a> {
        let Attempt { assignment, control, mask } = attempt;
        let Some(scripts) = Scripts::of(&assignment.order.action) else {
            return Box::pin(async { None });
        };
        let pool = PoolContext {
            config: &context.config,
            clock: context.clock.as_ref(),
            workbench: &context.workbench,
            guard: context.guard.as_ref(),
            logs: &context.logs,
            artifacts: context.artifacts.get().map(AsRef::as_ref),
        };
        let watched = CatchPanic(Box::pin(shell::run(pool, assignment, scripts, control, mask)));
        Box::pin(async move { watched.await.unwrap_or_else(|failure| Some(failure.into())) })
    }
}

/// Requests under the guard.
struct Http;

impl Executor for Http {
    fn execute<'a>(&'a self, context: &'a ExecutorContext, attempt: Attempt<'a>) -> ExecutorFuture<'a> {
        Box::pin(context.call(Arc::clone(&context.request) as Arc<dyn Handler>, attempt))
    }
}

/// Functions of the registry, by name.
struct Function;

impl Executor for Function {
    fn immediate(&self, context: &ExecutorContext, assignment: &Assignment) -> Option<Outcome> {
        let (name, payload) = called(&assignment.order.action)?;
        match context.registry.get(name) {
            Some(handler) => function::immediate(handler.as_ref(), payload, assignment.attempt),
            None => Some(Outcome::Failed(context.registry.unknown(name))),
        }
    }

    fn execute<'a>(&'a self, context: &'a ExecutorContext, attempt: Attempt<'a>) -> ExecutorFuture<'a> {
        let handler = called(&attempt.assignment.order.action).and_then(|(name, _)| context.registry.get(name));
        match handler {
            Some(handler) => Box::pin(context.call(Arc::clone(handler), attempt)),
            // Its outcome was immediate.
            None => Box::pin(async { None }),
        }
    }
}

fn called(action: &OrderAction) -> Option<(&str, &serde_json::Value)> {
    match action {
        OrderAction::Function { handler, payload } | OrderAction::Remote { handler, payload } => {
            Some((handler, payload))
        }
        OrderAction::Run { .. } | OrderAction::Steps { .. } | OrderAction::Http(_) => None,
    }
}
