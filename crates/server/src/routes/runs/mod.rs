//! `/workflow-runs`: executions of workflows.

mod act;
mod approvals;
mod artifacts;
mod bulk;
mod cancel_many;
mod log_search;
pub(crate) mod logs;
mod overview;
mod retry_many;
pub(crate) mod shapes;
mod steps;
mod task_actions;
pub(crate) mod tasks;

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::runs::{Progress, Run};
use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId, time};
use mainspring_store::{InputValue, RunFilter, RunSummary, Store};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

pub(crate) use self::overview::letters;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, Path, Query};
use crate::openapi::words::RunWord;
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const LIST: &str = "workflow-runs";

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    act::register(routes);
    approvals::register(routes);
    artifacts::register(routes);
    bulk::register(routes);
    cancel_many::register(routes);
    logs::register(routes);
    overview::register(routes);
    retry_many::register(routes);
    steps::register(routes);
    task_actions::register(routes);
    tasks::register(routes);
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// `pending`, `running`, `paused`, `success`, `failed`, `cancelled`, or several of them separated by commas
    #[param(inline, value_type = Option<RunWord>)]
    status: Option<String>,
    /// The id or name of their workflow
    workflow: Option<String>,
    /// Only of this namespace
    namespace: Option<Name>,
    /// What started them: `manual`, `cron`, `event`, …
    trigger: Option<String>,
    /// Made at this time or later, RFC 3339
    #[param(format = "date-time")]
    since: Option<String>,
    /// Made before this time, RFC 3339
    #[param(format = "date-time")]
    until: Option<String>,
    /// That took longer than this many seconds, those that are open until now
    #[param(minimum = 0, maximum = 31_536_000)]
    longer_than: Option<u32>,
    /// `-created` for the newest first, as it is unless given, or `created` for the oldest first
    #[param(pattern = "^-?created$")]
    sort: Option<String>,
    /// With this correlation id
    correlation_id: Option<String>,
    /// Of versions with this tag
    tag: Option<String>,
    /// With this value of an input, `name=value`: the same text, or the same value in JSON. Together with `workflow` or `since`
    #[param(example = "region=eu", pattern = "^[^=]+=.*$")]
    input: Option<String>,
    /// `progress` for how many of their task runs have ended, `trigger` for what started them; both with a comma between
    #[param(example = "progress,trigger", pattern = "^(progress|trigger)(,(progress|trigger))*$")]
    include: Option<String>,
    /// The beginning of their id, at least 4 characters
    #[param(pattern = "^[0-9a-fA-F-]{4,36}$")]
    id: Option<String>,
}

/// The most seconds of `longer_than`, as its description says.
const LONGEST: u32 = 31_536_000;

/// A time of the query.
pub(crate) fn instant(name: &str, text: Option<&str>) -> Result<Option<Micros>, Problem> {
    let read = |text| {
        time::parse(text).ok_or_else(|| {
            Problem::malformed(format!("the query does not fit: {name} is not a time like 2026-01-31T08:00:00Z"))
        })
    };
    text.map(read).transpose()
}

pub(crate) fn run_state(text: Option<&str>) -> Result<Option<RunState>, Problem> {
    let words = || RunState::ALL.iter().map(|state| state.word()).collect::<Vec<_>>().join(", ");
    let read = |text: &str| {
        text.parse().map_err(|_| Problem::malformed(format!("the query does not fit: status is one of {}", words())))
    };
    text.map(read).transpose()
}

/// The states that a comma-separated list names; `[None]` without one.
fn run_states(text: Option<&str>) -> Result<Vec<Option<RunState>>, Problem> {
    let Some(text) = text else { return Ok(vec![None]) };
    let mut states: Vec<Option<RunState>> =
        text.split(',').map(|word| run_state(Some(word.trim()))).collect::<Result<_, _>>()?;
    states.sort_unstable();
    states.dedup();
    Ok(states)
}

/// The newest runs in any of these states. Each state has an index of its own, so there is a statement for each.
async fn runs_in(store: &Store, filter: &RunFilter, states: &[Option<RunState>]) -> Result<Vec<RunSummary>, Problem> {
    if let [state] = states {
        return Ok(store.list_runs(&RunFilter { state: *state, ..filter.clone() }).await?);
    }
    let mut found: Vec<RunSummary> = Vec::new();
    for state in states {
        let limit = filter.limit.saturating_add(filter.offset);
        found.extend(store.list_runs(&RunFilter { state: *state, offset: 0, limit, ..filter.clone() }).await?);
    }
    found.sort_by_key(|run| run.id);
    if !filter.oldest_first {
        found.reverse();
    }
    found.dedup_by_key(|run| run.id);
    let mut found = found.split_off(usize::try_from(filter.offset).unwrap_or(0).min(found.len()));
    found.truncate(usize::try_from(filter.limit).unwrap_or(0));
    Ok(found)
}

/// How many runs are in one of these states, counted by the database up to what is shown.
async fn count_in(store: &Store, filter: &RunFilter, states: &[Option<RunState>]) -> Result<i64, Problem> {
    let mut total = 0;
    for state in states {
        let filter = RunFilter { state: *state, ..filter.clone() };
        total += store.count_runs(&filter, crate::page::MOST_COUNTED).await?;
    }
    Ok(total)
}

impl ListParams {
    fn oldest_first(&self) -> Result<bool, Problem> {
        match self.sort.as_deref() {
            None | Some("-created") => Ok(false),
            Some("created") if self.id.is_none() => Ok(true),
            Some("created") => Err(Problem::malformed("the query does not fit: `id` lists the newest first only")
                .with_status(StatusCode::UNPROCESSABLE_ENTITY)),
            Some(_) => Err(Problem::malformed("the query does not fit: sort is `created` or `-created`")),
        }
    }

    /// Nothing indexes inputs: what is looked through must be bounded by something else.
    fn input_value(&self) -> Result<Option<InputValue>, Problem> {
        let Some(text) = &self.input else { return Ok(None) };
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Problem::malformed(
                "the query does not fit: input is the name of an input and its value, like region=eu",
            ));
        };
        if self.workflow.is_none() && self.since.is_none() {
            return Err(Problem::malformed(
                "the query does not fit: input looks into every run that the rest of the query finds: name a workflow or since, too",
            )
            .with_status(StatusCode::UNPROCESSABLE_ENTITY));
        }
        Ok(Some(InputValue::new(name, value)))
    }

    fn filter(&self, caller: &Caller) -> Result<RunFilter, Problem> {
        let namespaces = caller.sees_of(self.namespace.as_ref().map(Name::as_str))?;
        let id = self.workflow.as_deref().and_then(|text| text.parse::<Uuid>().ok());
        Ok(RunFilter {
            state: None,
            workflow_id: id,
            workflow: self.workflow.clone().filter(|_| id.is_none()),
            namespaces,
            trigger: self.trigger.clone(),
            tag: self.tag.clone(),
            correlation_id: self.correlation_id.clone(),
            input: self.input_value()?,
            since: instant("since", self.since.as_deref())?,
            until: instant("until", self.until.as_deref())?,
            oldest_first: self.oldest_first()?,
            ..RunFilter::default()
        })
    }
}

/// List runs, newest first unless asked otherwise
#[utoipa::path(get, path = "/workflow-runs", tag = "runs", params(PageParams, ListParams),
    responses((status = 200, body = List<Run>), (status = 422, description = "Oldest first was asked for together with `id`")))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(params): Query<ListParams>,
) -> Result<Json<List<Run>>, Problem> {
    let (with_progress, with_trigger) = include_flags(params.include.as_deref())?;
    let mut filter = params.filter(&caller)?;
    if params.longer_than.is_some_and(|seconds| seconds > LONGEST) {
        return Err(Problem::malformed(format!(
            "the query does not fit: longer_than is at most {LONGEST} seconds, a year"
        )));
    }
    let least = params.longer_than.map(|seconds| Micros::from(seconds) * 1_000_000);
    filter.longer_than = least.map(|least| (least, state.client().now()));
    (filter.before, filter.offset, filter.limit) = (page.after(LIST)?, page.offset, page.fetch());
    let prefix = params.id.as_deref().map(Prefix::read).transpose()?;
    if let Some(prefix) = &prefix {
        filter.before = Some(filter.before.map_or(prefix.behind, |before| before.min(prefix.behind)));
    }
    let store = state.client().store();
    let states = run_states(params.status.as_deref())?;
    let mut rows = runs_in(store, &filter, &states).await?;
    rows.retain(|run| prefix.as_ref().is_none_or(|prefix| prefix.fits(run.id)));
    let total = match page.count {
        true => Some(count_in(store, &filter, &states).await?),
        false => None,
    };
    let open: Vec<RunId> = rows.iter().filter(|run| !run.state.is_terminal()).map(|run| run.id).collect();
    let phases = store.phases(&open).await?;
    let ended = match with_progress {
        true => Some(store.ended_counts(&rows.iter().map(|run| run.id).collect::<Vec<_>>()).await?),
        false => None,
    };
    let mut triggers = match with_trigger {
        true => store.run_triggers(&rows.iter().map(|run| run.id).collect::<Vec<_>>()).await?,
        false => HashMap::new(),
    };
    let list = page.list(
        LIST,
        rows,
        |run: &RunSummary| run.id,
        |run| {
            let phase = phases.get(&run.id).copied();
            let progress = ended.as_ref().map(|ended| {
                let ended = ended.get(&run.id).copied().unwrap_or(0);
                Progress { ended, total: ended + i64::from(run.open_tasks) }
            });
            let trigger = triggers.remove(&run.id);
            let trace_id = with_trigger.then(|| shapes::trace_id(run.id, trigger.as_ref()));
            Run { progress, trigger, trace_id, ..shapes::run(run, phase) }
        },
    );
    Ok(Json(list.with_total(total)))
}

/// Whether `include` asks for the progress, and for what started them.
fn include_flags(include: Option<&str>) -> Result<(bool, bool), Problem> {
    let (mut progress, mut trigger) = (false, false);
    for word in include.into_iter().flat_map(|text| text.split(',')) {
        match word.trim() {
            "progress" => progress = true,
            "trigger" => trigger = true,
            _ => return Err(Problem::malformed("the query does not fit: include may be `progress` and `trigger`")),
        }
    }
    Ok((progress, trigger))
}

/// The beginning of an id. Ids grow with time, so those that begin with it lie side by side.
struct Prefix {
    text: String,
    /// The first id behind all that begin with it.
    behind: Uuid,
}

impl Prefix {
    fn read(text: &str) -> Result<Self, Problem> {
        let digits: String = text.chars().filter(|digit| *digit != '-').collect::<String>().to_lowercase();
        let fits = (4..=32).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let last = u128::from_str_radix(&format!("{digits:f<32}"), 16).ok().filter(|_| fits).ok_or_else(|| {
            Problem::malformed("the query does not fit: id is the beginning of an id, at least 4 of its digits")
        })?;
        Ok(Self { text: digits, behind: Uuid::from_u128(last.saturating_add(1)) })
    }

    fn fits(&self, id: Uuid) -> bool {
        id.simple().to_string().starts_with(&self.text)
    }
}

/// Show a run
#[utoipa::path(get, path = "/workflow-runs/{id}", tag = "runs", params(("id" = Uuid, Path)),
    responses((status = 200, body = Run)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Run>, Problem> {
    shapes::find(&state, &caller, id).await?;
    Ok(Json(shapes::shown(&state, id).await?))
}
