//! One JSON line per result.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    workload: String,
    n: usize,
    seconds: f64,
    rate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    #[serde(flatten)]
    further: serde_json::Map<String, serde_json::Value>,
}

impl Report {
    pub(crate) fn new(workload: impl Into<String>, n: usize, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        let rate = n as f64 / seconds.max(1e-9);
        let further = serde_json::Map::new();
        Self { workload: workload.into(), n, seconds, rate, p50_ms: None, p99_ms: None, further }
    }

    /// A number that only this workload has.
    pub(crate) fn with(mut self, name: &str, value: serde_json::Value) -> Self {
        self.further.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn with_percentiles(mut self, samples: &mut [Duration]) -> Self {
        samples.sort_unstable();
        self.p50_ms = percentile(samples, 0.5);
        self.p99_ms = percentile(samples, 0.99);
        self
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    pub(crate) fn print(&self) {
        if let Ok(line) = serde_json::to_string(self) {
            println!("{line}");
        }
    }
}

/// Of sorted samples, in milliseconds.
pub(crate) fn percentile(samples: &[Duration], share: f64) -> Option<f64> {
    let position = ((samples.len() as f64 - 1.0) * share).round() as usize;
    samples.get(position).map(|sample| sample.as_secs_f64() * 1_000.0)
}

pub(crate) fn median(samples: &mut [Duration]) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}
