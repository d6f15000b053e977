//! `/workflow-runs`: executions of workflows.

mod act;
mod artifacts;
mod cancel_many;
pub(crate) mod logs;
pub(crate) mod shapes;
mod task_actions;
pub(crate) mod tasks;

use axum::Json;
use axum::extract::State;
use mainspring_core::state::RunState;
use mainspring_core::{Micros, RunId, time};
use mainspring_store::{RunFilter, RunSummary};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use self::shapes::{Progress, Run};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Name, Path, Query};
use crate::openapi::words::{BesidesRuns, RunWord};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const LIST: &str = "workflow-runs";

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    act::register(routes);
    artifacts::register(routes);
    cancel_many::register(routes);
    logs::register(routes);
    task_actions::register(routes);
    tasks::register(routes);
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// `pending`, `running`, `paused`, `success`, `failed` or `cancelled`
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
    /// With this correlation id
    correlation_id: Option<String>,
    /// Of versions with this tag
    tag: Option<String>,
    /// `progress` for how many of their task runs have ended
    #[param(inline, value_type = Option<BesidesRuns>)]
    include: Option<String>,
}

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

impl ListParams {
    fn filter(&self, caller: &Caller) -> Result<RunFilter, Problem> {
        let namespaces = caller.sees_of(self.namespace.as_ref().map(Name::as_str))?;
        let id = self.workflow.as_deref().and_then(|text| text.parse::<Uuid>().ok());
        Ok(RunFilter {
            state: run_state(self.status.as_deref())?,
            workflow_id: id,
            workflow: self.workflow.clone().filter(|_| id.is_none()),
            namespaces,
            trigger: self.trigger.clone(),
            tag: self.tag.clone(),
            correlation_id: self.correlation_id.clone(),
            since: instant("since", self.since.as_deref())?,
            until: instant("until", self.until.as_deref())?,
            ..RunFilter::default()
        })
    }
}

/// List runs, newest first
#[utoipa::path(get, path = "/workflow-runs", tag = "runs", params(PageParams, ListParams),
    responses((status = 200, body = List<Run>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(params): Query<ListParams>,
) -> Result<Json<List<Run>>, Problem> {
    let with_progress = match params.include.as_deref() {
        None => false,
        Some("progress") => true,
        Some(_) => return Err(Problem::malformed("the query does not fit: include may be `progress`")),
    };
    let mut filter = params.filter(&caller)?;
    (filter.before, filter.offset, filter.limit) = (page.after(LIST)?, page.offset, page.fetch());
    let store = state.client().store();
    let rows = store.list_runs(&filter).await?;
    let total = match page.count {
        true => {
            (filter.before, filter.offset, filter.limit) = (None, 0, crate::page::MOST_COUNTED);
            Some(store.list_runs(&filter).await?.len() as i64)
        }
        false => None,
    };
    let open: Vec<RunId> = rows.iter().filter(|run| !run.state.is_terminal()).map(|run| run.id).collect();
    let phases = store.phases(&open).await?;
    let ended = match with_progress {
        true => Some(store.ended_counts(&rows.iter().map(|run| run.id).collect::<Vec<_>>()).await?),
        false => None,
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
            Run { progress, ..Run::new(run, phase) }
        },
    );
    Ok(Json(list.with_total(total)))
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
