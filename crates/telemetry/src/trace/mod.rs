//! Spans that leave this process over OTLP, if a collector is configured.

mod collector;
mod exchange;
mod exporter;
mod grpc;
mod protocol;
mod span;
mod wire;

use std::fmt;
use std::time::Duration;

use mainspring_core::trace::TraceContext;
use tokio::sync::{mpsc, oneshot};

pub use collector::TraceSetupError;
pub use protocol::TraceProtocol;
pub use span::{Kind, Span};

/// Spans that may wait for the collector; more are dropped.
const MOST_WAITING: usize = 8_192;

/// Where spans go and which of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// Of the collector, like `http://127.0.0.1:4318`.
    pub endpoint: String,
    pub protocol: TraceProtocol,
    /// Added to every request to the collector.
    pub headers: Vec<(String, String)>,
    /// The share of traces that begin here and are recorded; those that begin elsewhere say it themselves.
    pub sample_ratio: f64,
    /// `service.name`.
    pub service: String,
    /// `service.instance.id`.
    pub instance: String,
}

/// Takes spans and sends them in batches; what the collector does not take is dropped, and nothing waits for it. Without a
/// collector it takes nothing and costs nothing. Clones share everything.
#[derive(Clone, Default)]
pub struct Tracer(Option<Exporting>);

#[derive(Clone)]
struct Exporting {
    spans: mpsc::Sender<Exported>,
    sample_ratio: f64,
}

/// What the exporter is given.
#[derive(Debug)]
enum Exported {
    Span(Box<Span>),
    /// Send what has gathered, and say so.
    Flush(oneshot::Sender<()>),
}

impl fmt::Debug for Tracer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.is_on() { "Tracer(on)" } else { "Tracer(off)" })
    }
}

impl Tracer {
    /// Must be called within a tokio runtime, which then carries the requests to the collector.
    pub fn start(settings: &TraceSettings) -> Result<Self, TraceSetupError> {
        let collector = collector::Collector::new(settings)?;
        let (spans, waiting) = mpsc::channel(MOST_WAITING);
        tokio::spawn(exporter::run(collector, waiting));
        Ok(Self(Some(Exporting { spans, sample_ratio: settings.sample_ratio })))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a trace that begins here is recorded. Every process of an installation decides the same.
    pub fn samples(&self, trace_id: [u8; 16]) -> bool {
        self.0.as_ref().is_some_and(|exporting| is_drawn(trace_id, exporting.sample_ratio))
    }

    /// The context of a span under `parent`; without one, of the first span of a new trace.
    pub fn child(&self, parent: Option<TraceContext>, trace_id: [u8; 16], span_id: [u8; 8]) -> TraceContext {
        match parent {
            Some(parent) => TraceContext { span_id, ..parent },
            None => TraceContext { trace_id, span_id, sampled: self.samples(trace_id) },
        }
    }

    /// Takes a span that has ended.
    pub fn record(&self, span: Span) {
        if let Some(exporting) = &self.0
            && span.context.sampled
        {
            // Full: the collector is away or too slow, and work goes on.
            let _ = exporting.spans.try_send(Exported::Span(Box::new(span)));
        }
    }

    /// Sends what has gathered, for at most that long.
    pub async fn shutdown(&self, patience: Duration) {
        let Some(exporting) = &self.0 else { return };
        let (done, sent) = oneshot::channel();
        let flush = async {
            if exporting.spans.send(Exported::Flush(done)).await.is_ok() {
                let _ = sent.await;
            }
        };
        // Traces are no reason to stop later or to complain while stopping.
        let _ = tokio::time::timeout(patience, flush).await;
    }
}

/// The last bytes of an id are random. As many bits are taken as a number with a point holds: more would be rounded up
/// to 1, which no ratio is above.
fn is_drawn(trace_id: [u8; 16], ratio: f64) -> bool {
    let [.., a, b, c, d, e, f, g] = trace_id;
    let drawn = (u64::from_be_bytes([0, a, b, c, d, e, f, g]) >> 3) as f64 / (1_u64 << 53) as f64;
    drawn < ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traces_is_recorded() {
        let mut id = [0; 16];
        id[9] = 0x80;
        assert!(!is_drawn(id, 0.5) && is_drawn(id, 0.51) && is_drawn([0xff; 16], 1.0) && !is_drawn([0; 16], 0.0));
        assert!(!Tracer::default().samples([0; 16]));
    }
}
