//! The spans of attempts, and their counters on workers whose node does not count them.

use mainspring_core::Micros;
use mainspring_core::trace::{RunTrace, SpanOf, TraceContext};
use mainspring_core::work::{Assignment, Completion, OrderAction, Outcome};
use mainspring_telemetry::{Event, Kind, Metrics, Span, Tracer};

/// Puts the attempt into a span of its own, whose parent is the span it was in. A worker that sends no spans leaves the
/// attempt in its span, so that the trace does not lose what the task calls.
pub(crate) fn enter(tracer: &Tracer, assignment: &mut Assignment) -> Option<TraceContext> {
    let parent = assignment.trace.filter(|_| tracer.is_on())?;
    let trace = RunTrace { run: assignment.key.run, parent: Some(parent), sampled: parent.sampled };
    assignment.trace = Some(trace.span(SpanOf::Task(assignment.key, assignment.attempt)));
    Some(parent)
}

pub(crate) fn leave(
    tracer: &Tracer,
    assignment: &Assignment,
    parent: Option<TraceContext>,
    (start, end): (Micros, Micros),
    outcome: &Outcome,
) {
    let (Some(parent), Some(context)) = (parent, assignment.trace) else { return };
    let order = &assignment.order;
    tracer.record(Span {
        context,
        parent: Some(parent.span_id),
        kind: Kind::Internal,
        name: format!("task {}", order.task).into(),
        start,
        end,
        attributes: vec![
            ("namespace", order.namespace.clone()),
            ("workflow", order.workflow.clone()),
            ("task", order.task.clone()),
            ("task_type", kind(&order.action).to_owned()),
            ("run_id", assignment.key.run.to_string()),
            ("task_run_id", assignment.key.to_string()),
            ("attempt", assignment.attempt.to_string()),
        ],
        error: match outcome {
            // The message is left out: what a task prints stays with its run.
            Outcome::Failed(failure) => Some(failure.kind.clone()),
            Outcome::Cancelled { .. } => Some("cancelled".into()),
            Outcome::Success { .. } | Outcome::Released => None,
        },
    });
}

pub(crate) fn count(metrics: &Metrics, assignment: &Assignment, completion: &Completion) {
    metrics.record(Event::AttemptEnded {
        task_type: kind(&assignment.order.action),
        status: completion.outcome.word(),
        seconds: (completion.finished_at - completion.started_at).max(0) as f64 / 1e6,
        error_type: match &completion.outcome {
            Outcome::Failed(failure) => Some(&failure.kind),
            _ => None,
        },
    });
}

fn kind(action: &OrderAction) -> &'static str {
    match action {
        OrderAction::Run { .. } => "run",
        OrderAction::Steps { .. } => "steps",
        OrderAction::Http(_) => "http",
        OrderAction::Function { .. } => "function",
        OrderAction::Remote { .. } => "remote",
    }
}
