//! Calendars of closed days.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::closed_set;

closed_set! {
    /// What happens to a fire on a closed day.
    CalendarAction {
        Skip = "skip",
        Move = "move",
    }
}

/// A named calendar.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CalendarShown {
    pub name: String,
    pub namespace: String,
    pub timezone: String,
    pub days: Vec<String>,
    pub weekdays: Vec<String>,
    pub windows: Vec<WindowShown>,
    pub action: CalendarAction,
    pub created_at: String,
    pub updated_at: String,
}

/// Closed from the first instant up to, not including, the other.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowShown {
    pub from: String,
    pub to: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutCalendar {
    /// Where its days begin; UTC unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Closed days: `2026-12-25`.
    #[serde(default)]
    pub days: Vec<String>,
    /// Closed in every week: `sat`, `sun`.
    #[serde(default)]
    pub weekdays: Vec<String>,
    #[serde(default)]
    pub windows: Vec<WindowShown>,
    /// `skip`, or `move` to the next open day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}
