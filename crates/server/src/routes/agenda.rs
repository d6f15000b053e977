//! `/schedules/agenda`: the fires of all schedules within a window, past and to come.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use axum::Json;
use axum::extract::State;
use mainspring_api::agenda::{Agenda, AgendaEntry, AgendaSchedule};
use mainspring_core::Micros;
use mainspring_core::schedule::{CalendarSpec, Next, Schedule};
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
    /// If there are too many fires, list those of schedules that fire seldom, and what did not go as planned
    #[serde(default)]
    seldom: bool,
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
    let mut gathered = Gathered::new(from, to, rows.len(), window.seldom);
    for fire in past {
        let Some(place) = places.get(&fire.trigger) else { continue };
        gathered.add(Found {
            at: fire.nominal_at,
            schedule: *place,
            until: fire.until_at,
            count: fire.count,
            outcome: fire.outcome,
            run_id: fire.run_id,
            reason: fire.reason,
        });
    }
    gather_upcoming(&rows, &calendars, &mut gathered);
    let workflows: Vec<Uuid> = rows.iter().map(|row| row.workflow_id).collect::<BTreeSet<_>>().into_iter().collect();
    let usual = usual_durations(&state, &workflows).await?;
    let schedules = rows.into_iter().map(|row| shown(row, &usual)).collect();
    Ok(Json(gathered.into_agenda(schedules, now)))
}

/// Adds the fires to come, the next one first: where there are too many, those that are left out are the last ones, not those
/// of the last schedules.
fn gather_upcoming(rows: &[TriggerRow], calendars: &HashMap<(String, String), CalendarSpec>, gathered: &mut Gathered) {
    let schedules: Vec<Option<Schedule>> = rows
        .iter()
        .map(|row| {
            let name = row.trigger.calendar.as_ref();
            let calendar = name.and_then(|name| calendars.get(&(row.namespace.clone(), name.clone())));
            row.schedule(calendar).ok()
        })
        .collect();
    let (from, to) = (gathered.from, gathered.to);
    let following = |place: usize, mut after: Micros, mut fired: u64| {
        let schedule = schedules[place].as_ref()?;
        while let Next::Fire { fire, .. } = schedule.next(after, fired)
            && fire.fire_at < to
        {
            (after, fired) = (fire.nominal, fired + 1);
            if fire.fire_at >= from {
                return Some(Reverse((fire.fire_at, place, after, fired)));
            }
        }
        None
    };
    let first = |(place, row): (usize, &TriggerRow)| following(place, row.covered_at.max(from - 1), row.fired);
    let mut waiting: BinaryHeap<_> = rows.iter().enumerate().filter_map(first).collect();
    while gathered.has_room()
        && let Some(Reverse((at, place, after, fired))) = waiting.pop()
    {
        let outcome = if rows[place].paused || !rows[place].active { "paused" } else { "future" };
        gathered.add(Found { at, schedule: place, until: None, count: 1, outcome, run_id: None, reason: None });
        waiting.extend(following(place, after, fired));
    }
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

/// One fire of the window, or a range of them.
struct Found {
    at: Micros,
    schedule: usize,
    until: Option<Micros>,
    count: i64,
    outcome: &'static str,
    run_id: Option<Uuid>,
    reason: Option<String>,
}

impl Found {
    /// Whether it went, or will go, as its schedule says.
    fn is_planned(&self) -> bool {
        matches!(self.outcome, "fired" | "future" | "paused")
    }

    fn into_entry(self) -> AgendaEntry {
        AgendaEntry {
            schedule: self.schedule,
            at: rfc3339(self.at),
            until: self.until.map(rfc3339),
            count: self.count,
            outcome: self.outcome.to_owned(),
            run_id: self.run_id,
            reason: self.reason,
        }
    }
}

struct Gathered {
    from: Micros,
    to: Micros,
    found: Vec<Found>,
    /// How many fires of each schedule went as planned.
    planned: Vec<usize>,
    hours: Vec<u64>,
    count: usize,
    lists_seldom: bool,
}

impl Gathered {
    fn new(from: Micros, to: Micros, schedules: usize, lists_seldom: bool) -> Self {
        let hours = usize::try_from((to - from + HOUR - 1) / HOUR).unwrap_or(0);
        Self { from, to, found: Vec::new(), planned: vec![0; schedules], hours: vec![0; hours], count: 0, lists_seldom }
    }

    fn has_room(&self) -> bool {
        self.count < MOST_COUNTED
    }

    fn add(&mut self, found: Found) {
        self.count += 1;
        let hour = usize::try_from((found.at - self.from) / HOUR).ok();
        if let Some(hour) = hour.and_then(|hour| self.hours.get_mut(hour)) {
            *hour += u64::try_from(found.count).unwrap_or(1);
        }
        if found.is_planned() {
            self.planned[found.schedule] += 1;
        }
        if self.lists_seldom || self.found.len() <= MOST_LISTED {
            self.found.push(found);
        }
    }

    /// Leaves what did not go as planned, and all fires of as many schedules as there is room for, those that fire least first.
    fn keep_seldom(&mut self) {
        let mut room = MOST_LISTED.saturating_sub(self.count - self.planned.iter().sum::<usize>());
        let mut places: Vec<usize> = (0..self.planned.len()).collect();
        places.sort_by_key(|place| self.planned[*place]);
        let mut is_kept = vec![false; places.len()];
        for place in places {
            let Some(left) = room.checked_sub(self.planned[place]) else { break };
            (room, is_kept[place]) = (left, true);
        }
        self.found.retain(|found| !found.is_planned() || is_kept[found.schedule]);
        self.found.truncate(MOST_LISTED);
    }

    fn into_agenda(mut self, schedules: Vec<AgendaSchedule>, now: Micros) -> Agenda {
        let is_bucketed = self.count > MOST_LISTED;
        match (is_bucketed, self.lists_seldom) {
            (true, true) => self.keep_seldom(),
            (true, false) => self.found.clear(),
            (false, _) => {}
        }
        self.found.sort_by_key(|found| found.at);
        let fires = self.found.into_iter().map(Found::into_entry).collect();
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
