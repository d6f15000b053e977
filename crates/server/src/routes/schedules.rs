//! `/schedules`: every trigger, when it fires next, and what became of its fires.

use axum::Json;
use axum::extract::State;
use mainspring_api::schedules::{
    ChangeSchedule, FireShown, NextFire, PollShown, Schedule, ScheduleStatus, TriggerKind,
};
use mainspring_core::Micros;
use mainspring_core::schedule::Cron;
use mainspring_core::time::{duration, rfc3339};
use mainspring_core::workflow::{DEFAULT_TIMEZONE, TriggerSource};
use mainspring_store::{FireRow, PollRow, TriggerFilter, TriggerRow};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, Name, Path, Query};
use crate::openapi::words::KindWord;
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{all_of, known, one_of};

/// How many future fires can be asked for.
const MOST_AHEAD: usize = 1_000;
/// How many rows one query reads while the caller may see only some of them.
const ROWS_PER_LOOK: i64 = 500;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    routes.at(Access::InNamespace(Role::Viewer), routes!(next));
    routes.at(Access::InNamespace(Role::Viewer), routes!(fires));
    routes.at(Access::InNamespace(Role::Operator), routes!(change));
    routes.at(Access::InNamespace(Role::Operator), routes!(pause));
    routes.at(Access::InNamespace(Role::Operator), routes!(resume));
}

/// Which schedules.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ScheduleQuery {
    namespace: Option<Name>,
    /// The name of the workflow
    workflow: Option<String>,
    /// `cron`, `every`, `at`, `event`, `webhook`, `workflow`, `poll` or `manual`
    #[param(inline, value_type = Option<KindWord>)]
    kind: Option<String>,
    paused: Option<bool>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NextParams {
    /// How many, at most 1000
    #[param(default = 10, maximum = 1000, minimum = 1)]
    n: Option<usize>,
}

/// A trigger in a few words: when it fires, or what it listens to.
pub(crate) fn in_words(row: &TriggerRow) -> String {
    let shown = shown(row.clone());
    let zone =
        shown.timezone.filter(|zone| zone != DEFAULT_TIMEZONE).map(|zone| format!(" ({zone})")).unwrap_or_default();
    let paused = if row.paused { ", paused" } else { "" };
    match shown.description {
        Some(words) => format!("{words}{zone}{paused}"),
        None => format!("{} {}{paused}", shown.kind, shown.schedule),
    }
}

pub(crate) fn shown(row: TriggerRow) -> Schedule {
    let trigger = row.trigger;
    let (schedule, timezone, description) = match &trigger.source {
        TriggerSource::Cron(cron) => {
            let zone = trigger.timezone.clone().unwrap_or_else(|| DEFAULT_TIMEZONE.into());
            let words = Cron::parse(cron, &zone).ok().map(|cron| cron.describe());
            (cron.clone(), Some(zone), words)
        }
        TriggerSource::Every(ms) | TriggerSource::Poll(ms) => (duration(*ms), None, None),
        TriggerSource::At(at) => (rfc3339(*at), None, None),
        TriggerSource::Event(name) | TriggerSource::Webhook(name) => (name.clone(), None, None),
        TriggerSource::Workflow { name, namespace, .. } => {
            let within = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            (format!("{within}{name}"), None, None)
        }
        TriggerSource::Manual => (String::new(), None, None),
    };
    let status = match (&row.problem, row.next) {
        _ if !row.present => ScheduleStatus::Removed,
        (Some(_), None) => ScheduleStatus::Failed,
        _ if row.paused => ScheduleStatus::Paused,
        _ if !row.active => ScheduleStatus::Inactive,
        (None, None) if trigger.source.is_scheduled() => ScheduleStatus::Completed,
        _ => ScheduleStatus::Active,
    };
    // What is paused keeps the time it stopped at; it does not fire then.
    let next = row.next.filter(|_| status == ScheduleStatus::Active);
    Schedule {
        id: row.id,
        workflow_id: row.workflow_id,
        workflow: row.workflow,
        namespace: row.namespace,
        kind: kind(&trigger.source),
        name: trigger.id,
        schedule,
        description,
        timezone,
        status,
        next_run: next.map(|next| rfc3339(next.nominal)),
        next_fire_at: next.map(|next| rfc3339(next.fire_at)),
        last_fire_at: row.last_fire_at.map(rfc3339),
        fired: row.fired,
        catchup: trigger.catchup.map(|catchup| catchup.policy.word().to_owned()),
        overlap: trigger.overlap.map(|overlap| overlap.word().to_owned()),
        jitter_ms: trigger.jitter_ms,
        calendar: trigger.calendar,
        start_date: trigger.start.map(rfc3339),
        end_date: trigger.end.map(rfc3339),
        max_executions: trigger.max_executions,
        problem: row.problem.or_else(|| row.poll.as_ref().and_then(problem_of)),
        poll: row.poll.map(poll_shown),
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
    }
}

/// A failing poll goes on, but its problem is shown with the schedule.
fn problem_of(poll: &PollRow) -> Option<String> {
    let error = poll.error.as_ref()?;
    Some(match poll.failures {
        1 => format!("the last check failed: {error}"),
        failures => format!("the last {failures} checks failed: {error}"),
    })
}

fn poll_shown(poll: PollRow) -> PollShown {
    PollShown {
        checks: poll.checks,
        last_check_at: poll.checked_at.map(rfc3339),
        last_check_run: poll.check_run,
        started: poll.started,
        last_key: poll.last_key,
        last_run: poll.last_run,
        failures: poll.failures,
        last_error: poll.error,
    }
}

fn kind(source: &TriggerSource) -> TriggerKind {
    match source {
        TriggerSource::Cron(_) => TriggerKind::Cron,
        TriggerSource::Every(_) => TriggerKind::Every,
        TriggerSource::At(_) => TriggerKind::At,
        TriggerSource::Event(_) => TriggerKind::Event,
        TriggerSource::Webhook(_) => TriggerKind::Webhook,
        TriggerSource::Workflow { .. } => TriggerKind::Workflow,
        TriggerSource::Poll(_) => TriggerKind::Poll,
        TriggerSource::Manual => TriggerKind::Manual,
    }
}

fn fire_shown(row: FireRow) -> Result<FireShown, Problem> {
    Ok(FireShown {
        scheduled_for: rfc3339(row.nominal_at),
        until: row.until_at.map(rfc3339),
        count: row.count,
        outcome: known(row.outcome)?,
        run_id: row.run_id,
        backfill: row.backfill,
        reason: row.reason,
        fired_at: rfc3339(row.fired_at),
    })
}

/// List schedules
#[utoipa::path(get, path = "/schedules", tag = "schedules", params(PageParams, ScheduleQuery),
    responses((status = 200, body = List<Schedule>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(query): Query<ScheduleQuery>,
) -> Result<Json<List<Schedule>>, Problem> {
    let seen = caller.sees_of(query.namespace.as_ref().map(Name::as_str))?;
    let kind = query.kind.as_deref().map(one_of::<TriggerKind>).transpose()?;
    let mut filter = TriggerFilter {
        namespace: query.namespace.map(|name| name.as_str().to_owned()),
        workflow: query.workflow,
        kind: kind.map(|kind| kind.word().to_owned()),
        paused: query.paused,
        gone: false,
        after: page.after("schedules")?,
    };
    let enough = usize::try_from(page.offset + page.fetch()).unwrap_or(usize::MAX);
    let mut rows: Vec<TriggerRow> = Vec::new();
    loop {
        let part = state.client().store().triggers(&filter, ROWS_PER_LOOK).await?;
        let last = part.len() < ROWS_PER_LOOK as usize;
        filter.after = part.last().map(|row| row.id);
        rows.extend(part.into_iter().filter(|row| seen.as_ref().is_none_or(|seen| seen.contains(&row.namespace))));
        if last || rows.len() >= enough {
            break;
        }
    }
    page.skip(&mut rows);
    rows.truncate(usize::try_from(page.fetch()).unwrap_or(0));
    Ok(Json(page.list("schedules", rows, |row| row.id, shown)))
}

/// Show a schedule
#[utoipa::path(get, path = "/schedules/{id}", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = 200, body = Schedule)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Schedule>, Problem> {
    Ok(Json(shown(entered(&state, &caller, id).await?)))
}

/// When a schedule fires next
#[utoipa::path(get, path = "/schedules/{id}/next", tag = "schedules", params(("id" = Uuid, Path), NextParams),
    responses((status = 200, body = List<NextFire>)))]
pub(crate) async fn next(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(ahead): Query<NextParams>,
) -> Result<Json<List<NextFire>>, Problem> {
    let row = entered(&state, &caller, id).await?;
    let n = ahead.n.unwrap_or(10);
    if !(1..=MOST_AHEAD).contains(&n) {
        return Err(Problem::malformed(format!("n is {n}, but must be from 1 to {MOST_AHEAD}")));
    }
    let fires = state.client().next_fires(&row, n).await?;
    let ahead = |fire: &mainspring_core::schedule::Fire| NextFire {
        scheduled_for: rfc3339(fire.nominal),
        fire_at: rfc3339(fire.fire_at),
    };
    Ok(Json(List { items: fires.iter().map(ahead).collect(), next: None, total: None }))
}

/// What became of the fires of a schedule, the latest first
#[utoipa::path(get, path = "/schedules/{id}/fires", tag = "schedules", params(("id" = Uuid, Path), PageParams),
    responses((status = 200, body = List<FireShown>)))]
pub(crate) async fn fires(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    page: Page,
) -> Result<Json<List<FireShown>>, Problem> {
    entered(&state, &caller, id).await?;
    let before: Micros = page.after("fires")?.unwrap_or(Micros::MAX);
    let mut rows = state.client().store().fires_of(id, before, page.offset + page.fetch()).await?;
    page.skip(&mut rows);
    Ok(Json(all_of(page.list("fires", rows, |row| row.nominal_at, fire_shown))?))
}

/// Pause or resume a schedule
#[utoipa::path(patch, path = "/schedules/{id}", tag = "schedules", params(("id" = Uuid, Path)),
    request_body = ChangeSchedule, responses((status = 200, body = Schedule)))]
pub(crate) async fn change(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    body::Json(change): body::Json<ChangeSchedule>,
) -> Result<Json<Schedule>, Problem> {
    entered(&state, &caller, id).await?;
    let client = state.client();
    let row = if change.paused { client.pause_trigger(id).await? } else { client.resume_trigger(id).await? };
    Ok(Json(shown(row)))
}

/// Let a schedule rest
#[utoipa::path(post, path = "/schedules/{id}/pause", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = 200, body = Schedule)))]
pub(crate) async fn pause(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Schedule>, Problem> {
    entered(&state, &caller, id).await?;
    Ok(Json(shown(state.client().pause_trigger(id).await?)))
}

/// Let a schedule go on; what it missed is up to its catch-up policy
#[utoipa::path(post, path = "/schedules/{id}/resume", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = 200, body = Schedule)))]
pub(crate) async fn resume(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Schedule>, Problem> {
    entered(&state, &caller, id).await?;
    Ok(Json(shown(state.client().resume_trigger(id).await?)))
}

/// The schedule, for a caller who may see it.
async fn entered(state: &ApiState, caller: &Caller, id: Uuid) -> Result<TriggerRow, Problem> {
    let row = state.client().store().trigger(id).await?;
    caller.enter(&row.namespace)?;
    Ok(row)
}
