//! Named pools.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A named pool.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    pub name: String,
    pub namespace: String,
    /// How many task runs may go on at once; null is unlimited.
    pub slots: Option<i32>,
    /// How many go on.
    pub held: i32,
    /// How many task runs may start in a window of `per`; missing without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<i32>,
    /// How long a window is: a duration such as `1m`. It begins with the first start after the window before is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// How many have started in the window that is under way; missing without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<i32>,
    /// When the window that is under way ends; missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ends_at: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutPool {
    /// A number from 0, or null for unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<i32>,
    /// How many task runs may start in a window of `per`: 1 to 1,000,000, together with `per`; without both there is no rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<i64>,
    /// A duration from `1s` to `1d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
}
