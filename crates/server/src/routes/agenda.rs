//! `/schedules/agenda`: the fires of all schedules within a window, past and to come.

use std::collections::{BTreeSet, HashMap};

use axum::Json;
use axum::extract::State;
use mainspring_api::agenda::{Agenda, AgendaEntry, AgendaSchedule};
use mainspring_core::Micros;
use mainspring_core::schedule::Next;
use mainspring_core::time::rfc3339;
use mainspring_store::TriggerRow;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::runs::instant;
use super::schedules;
use super::workflows::usual_durations;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, Query};
use crate::problem::Problem;
use crate::state::ApiState;

const HOUR: Micros = 3_600 * 1_000_000;
const DAY: Micros = 24 * HOUR;
const LONGEST: Micros = 35 * DAY;
/// More fires than this are counted by the hour, not listed.
const MOST_LISTED: usize = 2_000;
/// Further fires are not searched.
const MOST_COUNTED: usize = 100_000;
const MOST_SCHEDULES: i64 = 10_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(agenda));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Window {
    /// RFC 3339; a day ago unless given
    #[param(format = "date-time")]
    from: Option<String>,
    /// RFC 3339, at most 35 days later; six days ahead unless given
    #[param(format = "date-time")]
    to: Option<String>,
    /// Only of this namespace
    namespace: Option<Name>,
}

/// Show when schedules fired and will fire, over all workflows
#[utoipa::path(get, path = "/schedules/agenda", tag = "interface", params(Window), 
    responses((status = 200, body = Agenda), (status = 422, description = "The window is empty or too long")))]
pub(crate) async fn agenda(
    State(state): State<ApiState>,
    caller: Caller,
    Query(window): Query<Window>,
) -> Result<Json<Agenda>, Problem> {
    let seen = caller.sees_of(window.namespace.as_ref().map(Name::as_str))?;
    let client = state.client();
    let now = client.clock().wall();
    let from = instant("from", window.from.as_deref())?.unwrap_or(now - DAY);
    let to = instant("to", window.to.as_deref())?.unwrap_or(from.saturating_add(7 * DAY));
    if to <= from || to - from > LONGEST {
        return Err(Problem::invalid("to", "must be later than `from`, by at most 35 days"));
    }
    let store = client.store();
    let rows = store.clock_triggers(seen.as_deref(), MOST_SCHEDULES).await?;
    let calendars: HashMap<(String, String), _> = store
        .calendars_of(seen.as_deref(), MOST_SCHEDULES)
        .await?
        .into_iter()
        .map(|row| ((row.namespace, row.name), row.spec))
        .collect();
    let past = store.fires_between(seen.as_deref(), from, to, MOST_COUNTED as i64).await?;
    let places: HashMap<Uuid, usize> = rows.iter().enumerate().map(|(place, row)| (row.id, place)).collect();
    let mut gathered = Gathered::new(from, to);
    for fire in past {
        let Some(place) = places.get(&fire.trigger) else { continue };
        let entry = AgendaEntry {
            schedule: *place,
            at: rfc3339(fire.nominal_at),
            until: fire.until_at.map(rfc3339),
            count: fire.count,
            outcome: fire.outcome.to_owned(),
            run_id: fire.run_id,
            reason: fire.reason,
        };
        gathered.add(fire.nominal_at, entry);
    }
    for (place, row) in rows.iter().enumerate() {
        let calendar =
            row.trigger.calendar.as_ref().and_then(|name| calendars.get(&(row.namespace.clone(), name.clone())));
        let Ok(schedule) = row.schedule(calendar) else { continue };
        let (mut after, mut fired) = (row.covered_at.max(from - 1), row.fired);
        let outcome = if row.paused || !row.active { "paused" } else { "future" };
        while gathered.has_room()
            && let Next::Fire { fire, .. } = schedule.next(after, fired)
            && fire.fire_at < to
        {
            (after, fired) = (fire.nominal, fired + 1);
            if fire.fire_at < from {
                continue;
            }
            let entry = AgendaEntry {
                schedule: place,
                at: rfc3339(fire.fire_at),
                until: None,
                count: 1,
                outcome: outcome.to_owned(),
                run_id: None,
                reason: None,
            };
            gathered.add(fire.fire_at, entry);
        }
    }
    let workflows: Vec<Uuid> = rows.iter().map(|row| row.workflow_id).collect::<BTreeSet<_>>().into_iter().collect();
    let usual = usual_durations(&state, &workflows).await?;
    let schedules = rows.into_iter().map(|row| shown(row, &usual)).collect();
    Ok(Json(gathered.into_agenda(schedules, now)))
}

fn shown(row: TriggerRow, usual: &HashMap<Uuid, i64>) -> AgendaSchedule {
    let expected_ms = usual.get(&row.workflow_id).copied();
    let is_paused = row.paused || !row.active;
    let known = schedules::shown(row);
    AgendaSchedule {
        id: known.id,
        namespace: known.namespace,
        workflow: known.workflow,
        name: known.name,
        schedule: known.schedule,
        description: known.description,
        timezone: known.timezone,
        is_paused,
        expected_ms,
    }
}

struct Gathered {
    from: Micros,
    to: Micros,
    entries: Vec<(Micros, AgendaEntry)>,
    hours: Vec<u64>,
    count: usize,
}

impl Gathered {
    fn new(from: Micros, to: Micros) -> Self {
        let hours = usize::try_from((to - from + HOUR - 1) / HOUR).unwrap_or(0);
        Self { from, to, entries: Vec::new(), hours: vec![0; hours], count: 0 }
    }

    fn has_room(&self) -> bool {
        self.count < MOST_COUNTED
    }

    fn add(&mut self, at: Micros, entry: AgendaEntry) {
        self.count += 1;
        let hour = usize::try_from((at - self.from) / HOUR).ok();
        if let Some(hour) = hour.and_then(|hour| self.hours.get_mut(hour)) {
            *hour += u64::try_from(entry.count).unwrap_or(1);
        }
        if self.entries.len() <= MOST_LISTED {
            self.entries.push((at, entry));
        }
    }

    fn into_agenda(mut self, schedules: Vec<AgendaSchedule>, now: Micros) -> Agenda {
        let is_bucketed = self.entries.len() > MOST_LISTED;
        self.entries.sort_by_key(|(at, _)| *at);
        let fires = if is_bucketed { Vec::new() } else { self.entries.into_iter().map(|(_, entry)| entry).collect() };
        Agenda {
            from: rfc3339(self.from),
            to: rfc3339(self.to),
            now: rfc3339(now),
            schedules,
            fires,
            hours: self.hours,
            is_bucketed,
        }
    }
}
