//! What operators watch: the one list of events that the parts of the program report, and the metrics made of them.
//!
//! Engine, server and workers call [`Metrics::record`] with an [`Event`]; which counters and histograms an event moves is
//! decided in `metrics/record.rs` and nowhere else. Gauges over the store are set from a [`Sample`] that the leader takes.
//! Labels are bounded: no ids of runs or requests. Those are in traces: a [`Tracer`] sends [`Span`]s to a collector.

mod event;
mod metrics;
mod text;
mod trace;

pub use event::{Event, QueueDepth, Sample, WorkerSample};
pub use metrics::Metrics;
pub use trace::{Kind, Span, TraceProtocol, TraceSettings, TraceSetupError, Tracer};
