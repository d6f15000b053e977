//! `/calendars`: days and windows on which schedules do not fire.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_core::schedule::{CalendarAction, CalendarSpec, Window};
use mainspring_core::time::{self, rfc3339};
use mainspring_store::CalendarRow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, InNamespace, Name, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    routes.at(Access::InNamespace(Role::Operator), routes!(put));
    routes.at(Access::InNamespace(Role::Author), routes!(delete));
}

/// A named calendar.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CalendarShown {
    name: String,
    namespace: String,
    timezone: String,
    days: Vec<String>,
    weekdays: Vec<String>,
    windows: Vec<WindowShown>,
    action: &'static str,
    created_at: String,
    updated_at: String,
}

/// Closed from the first instant up to, not including, the other.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowShown {
    from: String,
    to: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutCalendar {
    /// Where its days begin; UTC unless given.
    timezone: Option<String>,
    /// Closed days: `2026-12-25`.
    #[serde(default)]
    days: Vec<String>,
    /// Closed in every week: `sat`, `sun`.
    #[serde(default)]
    weekdays: Vec<String>,
    #[serde(default)]
    windows: Vec<WindowShown>,
    /// `skip`, or `move` to the next open day.
    action: Option<String>,
}

impl From<CalendarRow> for CalendarShown {
    fn from(row: CalendarRow) -> Self {
        let window = |window: &Window| WindowShown { from: rfc3339(window.from), to: rfc3339(window.to) };
        Self {
            name: row.name,
            namespace: row.namespace,
            timezone: row.spec.timezone.unwrap_or_else(|| "UTC".into()),
            days: row.spec.days,
            weekdays: row.spec.weekdays,
            windows: row.spec.windows.iter().map(window).collect(),
            action: row.spec.action.word(),
            created_at: rfc3339(row.created_at),
            updated_at: rfc3339(row.updated_at),
        }
    }
}

impl TryFrom<PutCalendar> for CalendarSpec {
    type Error = Problem;

    fn try_from(put: PutCalendar) -> Result<Self, Problem> {
        let action = match put.action.as_deref() {
            None => CalendarAction::Skip,
            Some(word) => *CalendarAction::ALL
                .iter()
                .find(|action| action.word() == word)
                .ok_or_else(|| Problem::invalid("/action", "must be skip or move"))?,
        };
        let mut windows = Vec::with_capacity(put.windows.len());
        for (index, window) in put.windows.iter().enumerate() {
            let instant = |text: &str, key: &str| {
                time::parse(text).ok_or_else(|| {
                    Problem::invalid(&format!("/windows/{index}/{key}"), "must be a time such as 2026-12-24T12:00:00Z")
                })
            };
            windows.push(Window { from: instant(&window.from, "from")?, to: instant(&window.to, "to")? });
        }
        Ok(Self { timezone: put.timezone, days: put.days, weekdays: put.weekdays, windows, action })
    }
}

/// List calendars
#[utoipa::path(get, path = "/calendars", tag = "schedules", params(PageParams, InNamespace),
    responses((status = 200, body = List<CalendarShown>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(within): Query<InNamespace>,
) -> Result<Json<List<CalendarShown>>, Problem> {
    let namespace = within.or_default();
    caller.enter(namespace)?;
    let after: String = page.after("calendars")?.unwrap_or_default();
    let mut rows = state.client().store().calendars(namespace, &after, page.offset + page.fetch()).await?;
    rows.drain(..rows.len().min(usize::try_from(page.offset).unwrap_or(0)));
    Ok(Json(page.list("calendars", rows, |row| row.name.clone(), CalendarShown::from)))
}

/// Show a calendar
#[utoipa::path(get, path = "/calendars/{name}", tag = "schedules", params(("name" = Name, Path), InNamespace),
    responses((status = 200, body = CalendarShown)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Query(within): Query<InNamespace>,
) -> Result<Json<CalendarShown>, Problem> {
    caller.enter(within.or_default())?;
    Ok(Json(state.client().store().calendar(within.or_default(), name.as_str()).await?.into()))
}

/// Make or replace a calendar; the schedules that name it are computed anew
#[utoipa::path(put, path = "/calendars/{name}", tag = "schedules", params(("name" = Name, Path), InNamespace),
    request_body = PutCalendar, responses((status = 200, body = CalendarShown)))]
pub(crate) async fn put(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Query(within): Query<InNamespace>,
    body::Json(calendar): body::Json<PutCalendar>,
) -> Result<Json<CalendarShown>, Problem> {
    let namespace = within.or_default();
    caller.enter(namespace)?;
    state.client().put_calendar(namespace, name.as_str(), &calendar.try_into()?).await?;
    Ok(Json(state.client().store().calendar(namespace, name.as_str()).await?.into()))
}

/// Remove a calendar that no schedule names
#[utoipa::path(delete, path = "/calendars/{name}", tag = "schedules", params(("name" = Name, Path), InNamespace),
    responses((status = 204, description = "It is gone"), (status = 409, description = "A schedule names it")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Query(within): Query<InNamespace>,
) -> Result<StatusCode, Problem> {
    caller.enter(within.or_default())?;
    state.client().store().delete_calendar(within.or_default(), name.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}
