//! The metrics by name. Names and labels are part of the contract with dashboards and alerts.

mod families;
mod record;

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::text::classic;
use families::Families;

/// Every metric of this process. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    families: Arc<Families>,
    is_off: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("scheduler");
        let families = Families::register(&mut registry);
        Self { registry: Arc::new(registry), families: Arc::new(families), is_off: false }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}

impl Metrics {
    /// The content type of [`Metrics::encode`].
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Metrics that never move, to measure what they cost otherwise.
    pub fn off() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// All metrics in the Prometheus text format.
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(32 * 1024);
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        classic(&text)
    }
}
