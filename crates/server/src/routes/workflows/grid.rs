//! `/workflows/{workflow}/grid`: tasks × runs, one character each.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::State;
use mainspring_api::packed::{Grid, GridRun, GridVersion};
use mainspring_core::time::rfc3339;
use mainspring_store::{RunFilter, TaskMoment};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::find;
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{InNamespace, Name, Path, Query};
use crate::problem::Problem;
use crate::routes::runs::letters;
use crate::state::ApiState;

const USUAL_RUNS: i64 = 50;
const MOST_RUNS: i64 = 200;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(grid));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GridParams {
    /// The namespace of a workflow that is named
    #[param(default = "default")]
    namespace: Option<Name>,
    /// How many runs, at most 200
    #[param(default = 50, maximum = 200, minimum = 1)]
    runs: Option<i64>,
    /// Only runs older than this one
    #[param(value_type = Option<String>, format = "uuid")]
    before: Option<Uuid>,
}

/// Show the last runs of a workflow as a grid of tasks and runs
#[utoipa::path(get, path = "/workflows/{workflow}/grid", tag = "interface", params(("workflow" = Name, Path), GridParams),
    responses((status = 200, body = Grid)))]
pub(crate) async fn grid(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(params): Query<GridParams>,
) -> Result<Json<Grid>, Problem> {
    let wanted = params.runs.unwrap_or(USUAL_RUNS);
    if !(1..=MOST_RUNS).contains(&wanted) {
        return Err(Problem::malformed(format!("runs is {wanted}, but must be from 1 to {MOST_RUNS}")));
    }
    let row = find(&state, &caller, &workflow, &InNamespace { namespace: params.namespace }).await?;
    let client = state.client();
    let filter =
        RunFilter { workflow_id: Some(row.id), before: params.before, limit: wanted + 1, ..RunFilter::default() };
    let mut runs = client.store().list_runs(&filter).await?;
    let has_more = runs.len() as i64 > wanted;
    runs.truncate(usize::try_from(wanted).unwrap_or(0));
    let ids: Vec<Uuid> = runs.iter().map(|run| run.id).collect();
    let mut by_run: HashMap<Uuid, Vec<TaskMoment>> = HashMap::new();
    for moment in client.store().task_moments(&ids).await? {
        by_run.entry(moment.run).or_default().push(moment);
    }
    let mut versions = BTreeMap::new();
    for run in &runs {
        if let Entry::Vacant(entry) = versions.entry(run.version_number) {
            let spec = client.spec(run.version).await?;
            let tasks: Vec<String> = spec.workflow.tasks.iter().map(|task| task.name.clone()).collect();
            entry.insert(tasks);
        }
    }
    let next = runs.last().filter(|_| has_more).map(|run| run.id.to_string());
    let runs = runs.into_iter().map(|run| GridRun {
        states: letters(
            versions.get(&run.version_number).map_or(0, Vec::len),
            by_run.get(&run.id).map_or(&[][..], Vec::as_slice),
        )
        .into_iter()
        .collect(),
        id: run.id,
        version: run.version_number,
        status: run.state.word().to_owned(),
        created_at: rfc3339(run.created_at),
        duration_ms: run.started_at.zip(run.finished_at).map(|(from, to)| (to - from).max(0) / 1_000),
    });
    let runs = runs.collect();
    let versions = versions.into_iter().map(|(version, tasks)| GridVersion { version, tasks }).collect();
    Ok(Json(Grid { workflow: row.name, namespace: row.namespace, versions, runs, next }))
}
