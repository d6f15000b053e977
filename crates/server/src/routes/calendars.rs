//! `/calendars`: days and windows on which schedules do not fire.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::calendars::{CalendarShown, PutCalendar, WindowShown};
use mainspring_core::schedule::{CalendarAction, CalendarSpec, Window};
use mainspring_core::time::{self, rfc3339};
use mainspring_store::CalendarRow;
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

fn shown(row: CalendarRow) -> CalendarShown {
    let window = |window: &Window| WindowShown { from: rfc3339(window.from), to: rfc3339(window.to) };
    CalendarShown {
        name: row.name,
        namespace: row.namespace,
        timezone: row.spec.timezone.unwrap_or_else(|| "UTC".into()),
        days: row.spec.days,
        weekdays: row.spec.weekdays,
        windows: row.spec.windows.iter().map(window).collect(),
        action: action_shown(row.spec.action),
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
    }
}

fn action_shown(action: CalendarAction) -> mainspring_api::calendars::CalendarAction {
    match action {
        CalendarAction::Skip => mainspring_api::calendars::CalendarAction::Skip,
        CalendarAction::Move => mainspring_api::calendars::CalendarAction::Move,
    }
}

fn spec(put: PutCalendar) -> Result<CalendarSpec, Problem> {
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
    Ok(CalendarSpec { timezone: put.timezone, days: put.days, weekdays: put.weekdays, windows, action })
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
    page.skip(&mut rows);
    Ok(Json(page.list("calendars", rows, |row| row.name.clone(), shown)))
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
    Ok(Json(shown(state.client().store().calendar(within.or_default(), name.as_str()).await?)))
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
    state.client().put_calendar(namespace, name.as_str(), &spec(calendar)?).await?;
    Ok(Json(shown(state.client().store().calendar(namespace, name.as_str()).await?)))
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
    state.client().delete_calendar(within.or_default(), name.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}
