//! Looking closer at workflows: versions, the graph, and whether a text is one.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use mainspring_api::workflows::{Fires, Graph, GraphEdge, GraphLayout, GraphNode, Validation, Version};
use mainspring_core::dag;
use mainspring_core::schedule::{Next, Schedule};
use mainspring_core::time::rfc3339;
use mainspring_core::{Micros, Workflow as Parsed};
use mainspring_store::VersionSummary;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::intake;
use super::shapes::{find, version_shown};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Document, InNamespace, LARGE_LIMIT, Name, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;
use crate::words::{stage, task_kind};

/// How many fire times are shown of each trigger.
const FIRES: usize = 5;
const VERSIONS: &str = "versions";

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(versions));
    routes.at(Access::InNamespace(Role::Viewer), routes!(version));
    routes.at(Access::InNamespace(Role::Viewer), routes!(graph));
    routes.at(Access::Anywhere(Role::Viewer), routes!(validate)).body_limit(LARGE_LIMIT).quiet();
}

/// List the versions of a workflow, newest first
#[utoipa::path(get, path = "/workflows/{workflow}/versions", tag = "workflows",
    params(("workflow" = Name, Path), PageParams, InNamespace), responses((status = 200, body = List<Version>)))]
pub(crate) async fn versions(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Path(workflow): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<Json<List<Version>>, Problem> {
    let row = find(&state, &caller, &workflow, &within).await?;
    let before = match page.after::<i32>(VERSIONS)? {
        None if page.offset > 0 => Some(row.number.saturating_sub(i32::try_from(page.offset).unwrap_or(i32::MAX)) + 1),
        before => before,
    };
    let rows = state.client().store().list_versions(row.id, before, page.fetch()).await?;
    let list = page.list(VERSIONS, rows, |row: &VersionSummary| row.number, version_shown);
    Ok(Json(list.with_total(page.count.then_some(i64::from(row.number)))))
}

/// Show a version with its text
#[utoipa::path(get, path = "/workflows/{workflow}/versions/{version}", tag = "workflows",
    params(("workflow" = Name, Path), ("version" = i32, Path), InNamespace), responses((status = 200, body = Version)))]
pub(crate) async fn version(
    State(state): State<ApiState>,
    caller: Caller,
    Path((workflow, number)): Path<(String, i32)>,
    Query(within): Query<InNamespace>,
) -> Result<Json<Version>, Problem> {
    let row = find(&state, &caller, &workflow, &within).await?;
    let text = state.client().store().version_text(row.id, number).await?;
    Ok(Json(Version {
        version: text.number,
        hash: text.hash,
        created_at: rfc3339(text.created_at),
        source: Some(text.source),
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphParams {
    /// The namespace of a workflow that is named
    #[param(default = "default")]
    namespace: Option<Name>,
    /// Of this version; the newest unless given
    version: Option<i32>,
    /// Also where everything lies in a picture
    layout: Option<bool>,
}

/// The graph of a workflow as JSON
#[utoipa::path(get, path = "/workflows/{workflow}/graph", tag = "workflows", params(("workflow" = Name, Path), GraphParams),
    responses((status = 200, body = Graph)))]
pub(crate) async fn graph(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(params): Query<GraphParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let within = InNamespace { namespace: params.namespace };
    let row = find(&state, &caller, &workflow, &within).await?;
    let client = state.client();
    let (id, number) = match params.version {
        None => (row.latest, row.number),
        Some(number) => (client.store().version_text(row.id, number).await?.id, number),
    };
    let with_layout = params.layout.unwrap_or(false);
    // A version never changes.
    let etag = format!("\"g{id}-{}\"", u8::from(with_layout));
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known == etag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, etag)]).into_response());
    }
    let spec = client.spec(id).await?;
    let order = order(&spec.workflow);
    let nodes = spec.workflow.tasks.iter().enumerate().map(|(index, task)| GraphNode {
        id: index as i32,
        task: task.name.clone(),
        kind: task_kind(&task.action),
        stage: stage(task.stage),
        level: order.levels[index],
        rule: task.rule.word().to_owned(),
        has_condition: task.condition.is_some(),
        is_repeated: task.foreach.is_some(),
        queue: task.queue.clone(),
        pool: task.pool.clone(),
    });
    let edges = spec
        .workflow
        .tasks
        .iter()
        .enumerate()
        .flat_map(|(index, task)| task.needs.iter().map(move |need| GraphEdge { from: *need, to: index as i32 }));
    let edges: Vec<GraphEdge> = edges.collect();
    let layout = with_layout.then(|| graph_layout(&spec.workflow, &edges));
    let graph = Graph { workflow: row.name, version: number, nodes: nodes.collect(), edges, layout };
    Ok(([(ETAG, etag), (CACHE_CONTROL, "private, no-cache".to_owned())], Json(graph)).into_response())
}

/// The layout, with its edges in the order of `edges`.
fn graph_layout(workflow: &Parsed, edges: &[GraphEdge]) -> GraphLayout {
    let picture = mainspring_core::graph::placed(workflow);
    let mut bends: std::collections::HashMap<(usize, usize), Vec<i64>> = picture
        .edges
        .into_iter()
        .map(|edge| ((edge.from, edge.to), edge.bends.into_iter().flat_map(|(x, y)| [x, y]).collect()))
        .collect();
    GraphLayout {
        width: picture.size.0,
        height: picture.size.1,
        box_height: picture.height,
        x: picture.boxes.iter().map(|one| one.0).collect(),
        y: picture.boxes.iter().map(|one| one.1).collect(),
        w: picture.boxes.iter().map(|one| one.2).collect(),
        bends: edges
            .iter()
            .map(|edge| bends.remove(&(edge.from as usize, edge.to as usize)).unwrap_or_default())
            .collect(),
    }
}

fn order(workflow: &Parsed) -> dag::Order {
    let dependents = dag::dependents(workflow.tasks.len(), |index| &workflow.tasks[index].needs);
    dag::order(|index| &workflow.tasks[index].needs, &dependents)
}

/// Check a workflow: all errors at once, the order of its tasks, when it would be started
#[utoipa::path(post, path = "/workflows/validate", tag = "workflows",
    request_body(content((serde_json::Value = "application/json"), (serde_json::Value = "application/yaml"))),
    responses((status = 200, body = Validation)))]
pub(crate) async fn validate(State(state): State<ApiState>, document: Document) -> Json<Validation> {
    Json(match intake::read(document, None) {
        Err(problem) => Validation {
            valid: false,
            errors: problem.into_faults(),
            warnings: Vec::new(),
            name: None,
            namespace: None,
            topological_order: Vec::new(),
            next_fire_times: Vec::new(),
        },
        Ok(taken) => {
            let workflow = taken.workflow;
            let sorted = order(&workflow).sorted;
            Validation {
                valid: true,
                errors: Vec::new(),
                warnings: taken.warnings,
                topological_order: sorted.iter().map(|index| workflow.tasks[*index as usize].name.clone()).collect(),
                next_fire_times: fires(&workflow, state.client().now()),
                name: Some(workflow.name),
                namespace: Some(workflow.namespace),
            }
        }
    })
}

fn fires(workflow: &Parsed, now: Micros) -> Vec<Fires> {
    let mut all = Vec::new();
    for trigger in workflow.triggers.iter().filter(|trigger| trigger.source.is_scheduled()) {
        let Ok(schedule) = Schedule::new(trigger, now, None) else { continue };
        let (mut times, mut after) = (Vec::new(), now);
        while times.len() < FIRES
            && let Next::Fire { fire, .. } = schedule.next(after, times.len() as u64)
        {
            times.push(rfc3339(fire.fire_at));
            after = fire.nominal;
        }
        all.push(Fires { trigger: trigger.id.clone(), kind: trigger.source.kind().to_owned(), times });
    }
    all
}
