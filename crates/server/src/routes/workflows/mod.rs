//! `/workflows`: what there is to run.

pub(crate) mod crossings;
mod form;
mod glance;
mod grid;
mod intake;
mod known_forms;
pub(crate) mod known_latest;
mod look;
pub(crate) mod shapes;
pub(crate) mod trigger;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use mainspring_api::workflows::{DryRun, Switch, Workflow, WorkflowBundle, WorkflowDocument};
use mainspring_core::difference::difference;
use mainspring_engine::DeleteWorkflowError;
use mainspring_store::{Error, PutOptions, WorkflowFilter, WorkflowRow};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

pub(crate) use self::glance::usual_durations;
use self::intake::Intake;
use self::shapes::{changed_meanwhile, find, precondition, shown, with_etag};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, Document, InNamespace, LARGE_LIMIT, Name, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::state::ApiState;

const LIST: &str = "workflows";
/// Where texts are checked. A workflow may have that name.
const FIXED: &[&str] = &["validate"];

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Author), routes!(put)).body_limit(LARGE_LIMIT);
    routes.at(Access::InNamespace(Role::Viewer), routes!(show)).also_named(FIXED);
    routes.at(Access::InNamespace(Role::Operator), routes!(switch)).also_named(FIXED);
    routes.at(Access::InNamespace(Role::Author), routes!(delete)).in_pieces().also_named(FIXED);
    form::register(routes);
    grid::register(routes);
    look::register(routes);
    trigger::register(routes);
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only of this namespace
    namespace: Option<Name>,
    /// Only active ones, or only paused ones
    active: Option<bool>,
    /// Only with this tag
    tag: Option<String>,
    /// Only those with this in their name, title or description
    q: Option<String>,
    /// `strip,stats,next` for the last runs of each, how they went, and when it fires next
    #[param(pattern = "^(strip|stats|next)(,(strip|stats|next))*$")]
    include: Option<String>,
}

/// List workflows, by namespace and name
#[utoipa::path(get, path = "/workflows", tag = "workflows", params(PageParams, ListParams),
    responses((status = 200, body = List<Workflow>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(params): Query<ListParams>,
) -> Result<Json<List<Workflow>>, Problem> {
    let with_glance = match &params.include {
        None => false,
        Some(words) if words.split(',').all(|word| glance::WORDS.contains(&word.trim())) => true,
        Some(_) => {
            let said = format!("the query does not fit: include may hold {}", glance::WORDS.join(", "));
            return Err(Problem::malformed(said));
        }
    };
    let filter = WorkflowFilter {
        namespaces: caller.sees_of(params.namespace.as_ref().map(Name::as_str))?,
        active: params.active,
        tag: params.tag,
        text: params.q,
        after: page.after(LIST)?,
        offset: page.offset,
        limit: page.fetch(),
    };
    let store = state.client().store();
    let rows = store.list_workflows(&filter).await?;
    let total = page.total(store.count_listed_workflows(&filter, crate::page::MOST_COUNTED)).await?;
    let mut list = page.list(LIST, rows, |row: &WorkflowRow| (row.namespace.clone(), row.name.clone()), shown);
    if with_glance {
        let ids: Vec<uuid::Uuid> = list.items.iter().map(|workflow| workflow.id).collect();
        let mut found = glance::glances(&state, &ids).await?;
        for workflow in &mut list.items {
            workflow.glance = found.remove(&workflow.id);
        }
    }
    Ok(Json(list.with_total(total)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PutParams {
    /// The namespace, where the workflow does not say one
    namespace: Option<Name>,
    /// Check it and store nothing
    dry_run: Option<bool>,
}

/// Store a workflow: a new one, or a new version
///
/// YAML or JSON of the dialect, or the short form `{name, description, schedule_cron, is_active}`; with what `files` names as
/// a bundle `{source, files: [{path, executable, content}]}`, contents in base64. With `If-Match` only
/// over the edition with that ETag, with `If-None-Match: *` only if there is none of that name.
#[utoipa::path(post, path = "/workflows", tag = "workflows", params(PutParams),
    request_body(content((WorkflowDocument = "application/json"), (String = "application/yaml"), (WorkflowBundle = "application/vnd.mainspring.bundle+json"))),
    responses((status = 201, body = Workflow, description = "It is stored"), (status = 200, body = DryRun, description = "It could be stored"),
        (status = 412, description = "It was changed meanwhile")))]
pub(crate) async fn put(
    State(state): State<ApiState>,
    caller: Caller,
    Query(params): Query<PutParams>,
    headers: HeaderMap,
    document: Document,
) -> Result<Response, Problem> {
    let mut taken = intake::read(document, params.namespace.as_ref().map(Name::as_str))?;
    caller.enter(&taken.workflow.namespace)?;
    crossings::check(&state, &caller, &taken.workflow).await?;
    let known = named(&state, &mut taken).await?;
    let client = state.client();
    if params.dry_run.unwrap_or(false) {
        return Ok(Json(dry_run(&state, &taken, known).await?).into_response());
    }
    let expected = precondition(&headers, known.as_ref().map(WorkflowRow::edition))?;
    let Intake { workflow, source, files, active, warnings, .. } = taken;
    // A conflict of its own, not one with another writer's change.
    client.check_workflow_quota(&workflow).await?;
    let options = PutOptions { expected, created_by: Some(caller.identity().name.clone()) };
    let spec = client
        .put_workflow_over(workflow, &source, &files, &options)
        .await
        .map_err(|error| if matches!(error, Error::Conflict(_)) { changed_meanwhile() } else { error.into() })?;
    let id = spec.version.workflow_id;
    if let Some(active) = active {
        client.set_workflow_active(id, active, None).await?;
    }
    let row = client.store().workflow_by_id(id).await?;
    let edition = row.edition();
    let stored = Workflow { warnings, ..shown(row) };
    Ok(with_etag(edition, (StatusCode::CREATED, Json(stored))))
}

/// The workflow of that name, if there is one. A name that was made of a title gets a suffix where another has it.
async fn named(state: &ApiState, taken: &mut Intake) -> Result<Option<WorkflowRow>, Problem> {
    let store = state.client().store();
    let base = taken.workflow.name.clone();
    for number in 1..=1_000 {
        if number > 1 {
            taken.workflow.name = format!("{base}-{number}");
        }
        match store.workflow(&taken.workflow.namespace, &taken.workflow.name).await {
            Ok(row) if !taken.is_slugged || row.about.title == taken.workflow.title => return Ok(Some(row)),
            Ok(_) => {}
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::conflict(format!("a thousand workflows are named like `{base}`: choose another name")))
}

async fn dry_run(state: &ApiState, taken: &Intake, known: Option<WorkflowRow>) -> Result<DryRun, Problem> {
    let workflow = &taken.workflow;
    let differences = match &known {
        None => None,
        Some(row) => Some(difference(&state.client().spec(row.latest).await?.workflow, workflow)),
    };
    Ok(DryRun {
        dry_run: true,
        name: workflow.name.clone(),
        namespace: workflow.namespace.clone(),
        version: known.map(|row| row.number),
        unchanged: differences.as_ref().is_some_and(mainspring_core::difference::Differences::is_empty),
        differences: differences.map(|found| serde_json::to_value(found).unwrap_or_default()),
        warnings: taken.warnings.clone(),
    })
}

/// Show a workflow, by id or name
#[utoipa::path(get, path = "/workflows/{workflow}", tag = "workflows", params(("workflow" = Name, Path), InNamespace),
    responses((status = 200, body = Workflow)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(within): Query<InNamespace>,
) -> Result<Response, Problem> {
    let row = find(&state, &caller, &workflow, &within).await?;
    Ok(with_etag(row.edition(), Json(shown(row))))
}

/// Activate or pause a workflow
#[utoipa::path(patch, path = "/workflows/{workflow}", tag = "workflows", params(("workflow" = Name, Path), InNamespace),
    request_body = Switch, responses((status = 200, body = Workflow), (status = 412, description = "It was changed meanwhile")))]
pub(crate) async fn switch(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(within): Query<InNamespace>,
    headers: HeaderMap,
    body::Json(wanted): body::Json<Switch>,
) -> Result<Response, Problem> {
    let row = find(&state, &caller, &workflow, &within).await?;
    let expected = precondition(&headers, Some(row.edition()))?.flatten();
    let client = state.client();
    client
        .set_workflow_active(row.id, wanted.is_active, expected)
        .await
        .map_err(|error| if matches!(error, Error::Conflict(_)) { changed_meanwhile() } else { error.into() })?;
    let row = client.store().workflow_by_id(row.id).await?;
    Ok(with_etag(row.edition(), Json(shown(row))))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteParams {
    /// The namespace of a workflow that is named
    #[param(default = "default")]
    namespace: Option<Name>,
    /// Cancel its open runs first
    cancel: Option<bool>,
}

/// Delete a workflow with its versions and ended runs
#[utoipa::path(delete, path = "/workflows/{workflow}", tag = "workflows", params(("workflow" = Name, Path), DeleteParams),
    responses((status = 204, description = "It is gone"), (status = 409, description = "Runs of it go on")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(workflow): Path<String>,
    Query(params): Query<DeleteParams>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let within = InNamespace { namespace: params.namespace };
    let row = find(&state, &caller, &workflow, &within).await?;
    precondition(&headers, Some(row.edition()))?;
    let operator = caller.operator(None, Some(format!("workflow `{}` is deleted", row.name)));
    let cancels = params.cancel.unwrap_or(false).then_some(&operator);
    state.client().delete_workflow(&row, cancels).await.map_err(|error| match error {
        DeleteWorkflowError::RunsEnding => {
            Problem::conflict("its runs are being cancelled, and some of their tasks still run: repeat in a moment")
        }
        DeleteWorkflowError::Store(error) => error.into(),
    })?;
    Ok(StatusCode::NO_CONTENT)
}
