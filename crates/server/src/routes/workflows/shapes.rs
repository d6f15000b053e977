//! Workflows as they are shown.

use axum::http::HeaderMap;
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::response::{IntoResponse, Response};
use mainspring_api::workflows::{Version, Workflow};
use mainspring_core::time::rfc3339;
use mainspring_store::{Edition, VersionSummary, WorkflowRow};
use serde_json::Value;
use uuid::Uuid;

use crate::auth::caller::Caller;
use crate::body::{InNamespace, Name};
use crate::problem::Problem;
use crate::state::ApiState;

pub(crate) fn shown(row: WorkflowRow) -> Workflow {
    let schedule_cron = row.about.schedule_cron().map(str::to_owned);
    let said = row.about.metadata.get("created_by").and_then(Value::as_str).map(str::to_owned);
    Workflow {
        id: row.id,
        name: row.name,
        title: row.about.title,
        description: row.about.description,
        namespace: row.namespace,
        version: row.number,
        schedule_cron,
        is_active: row.active,
        tags: row.about.tags,
        metadata: row.about.metadata,
        created_by: said.or(row.created_by),
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
        glance: None,
        warnings: Vec::new(),
    }
}

pub(crate) fn version_shown(row: VersionSummary) -> Version {
    Version { version: row.number, hash: row.hash, created_at: rfc3339(row.created_at), source: None }
}

/// The workflow that is meant by an id or a name, once the caller may enter its namespace.
pub(crate) async fn find(
    state: &ApiState,
    caller: &Caller,
    workflow: &str,
    within: &InNamespace,
) -> Result<WorkflowRow, Problem> {
    let store = state.client().store();
    if let Ok(id) = workflow.parse::<Uuid>() {
        match store.workflow_by_id(id).await {
            Ok(row) => {
                caller.enter(&row.namespace)?;
                return Ok(row);
            }
            Err(mainspring_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let name = Name::try_from(workflow.to_owned())
        .map_err(|said| Problem::malformed(format!("the path does not fit: {said}, and it is no id")))?;
    caller.enter(within.or_default())?;
    Ok(store.workflow(within.or_default(), name.as_str()).await?)
}

/// What `If-Match` compares with.
pub(crate) fn etag(edition: Edition) -> String {
    format!("\"{:x}-{:x}\"", edition.latest, edition.updated_at)
}

pub(crate) fn with_etag(edition: Edition, answer: impl IntoResponse) -> Response {
    ([(ETAG, etag(edition))], answer).into_response()
}

/// Refuses with 412 unless `If-Match` and `If-None-Match` hold for what there is. The edition that the change must be
/// made over, if the request says so.
pub(crate) fn precondition(headers: &HeaderMap, found: Option<Edition>) -> Result<Option<Option<Edition>>, Problem> {
    let tags = |name| -> Option<Vec<String>> {
        let all: Vec<String> = headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(','))
            .map(|tag| tag.trim().to_owned())
            .collect();
        (!all.is_empty()).then_some(all)
    };
    let holds = |all: &[String]| match found {
        None => false,
        Some(edition) => all.iter().any(|tag| tag == "*" || *tag == etag(edition)),
    };
    if tags(IF_MATCH).is_some_and(|all| !holds(&all)) || tags(IF_NONE_MATCH).is_some_and(|all| holds(&all)) {
        return Err(changed_meanwhile());
    }
    let is_said = headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH);
    Ok(is_said.then_some(found))
}

pub(crate) fn changed_meanwhile() -> Problem {
    Problem::new(
        axum::http::StatusCode::PRECONDITION_FAILED,
        "the workflow is not the one that the request expects: read it again, and send its ETag as If-Match",
    )
}
