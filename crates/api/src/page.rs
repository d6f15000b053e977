//! Lists that come in pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Totals are counted up to here.
pub const MOST_COUNTED: i64 = 10_000;

/// Part of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    pub items: Vec<T>,
    /// The cursor of the next page, or null at the end.
    pub next: Option<String>,
    /// How many there are, counted up to 10000; only with `count=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
}

impl<T> List<T> {
    #[must_use]
    pub fn with_total(mut self, total: Option<i64>) -> Self {
        self.total = total.map(|total| total.min(MOST_COUNTED));
        self
    }
}
