//! One action on all entries that a filter finds.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::dlq::{DlqBatch, DlqBatchFilter, DlqBatchRequest};
use mainspring_core::dead_letter::Resolution;
use mainspring_core::time::{self, rfc3339};
use mainspring_engine::{BatchRequest, LetterAction};
use mainspring_store::{BatchRow, LetterFilter};
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{Form, refresh};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{InNamespace, Json as Body, Name, Path};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::routes::workflows::shapes::find as find_workflow;
use crate::state::ApiState;

const SAMPLES: i64 = 10;
const MOST_IDS: usize = 500;
const MOST_BATCHES: i64 = 500;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(start));
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
}

async fn filter(state: &ApiState, caller: &Caller, wanted: DlqBatchFilter) -> Result<LetterFilter, Problem> {
    let invalid = |field: &str, said: String| Problem::invalid(&format!("/filter/{field}"), said);
    let namespace = wanted.namespace.map(Name::try_from).transpose().map_err(|said| invalid("namespace", said))?;
    let namespaces = caller.sees_of(namespace.as_ref().map(Name::as_str))?;
    let is_narrowed = wanted.all
        || namespace.is_some()
        || wanted.workflow.is_some()
        || wanted.task.is_some()
        || wanted.reason.is_some()
        || wanted.fingerprint.is_some()
        || wanted.run_id.is_some()
        || !wanted.ids.is_empty()
        || wanted.since.is_some()
        || wanted.until.is_some();
    if !is_narrowed {
        let said = "say which: one of fingerprint, workflow, task, reason, run_id, ids, namespace, since, until, or `all: true`";
        return Err(Problem::invalid("/filter", said));
    }
    if wanted.ids.len() > MOST_IDS {
        return Err(invalid("ids", format!("name at most {MOST_IDS}; a fingerprint or a workflow finds more")));
    }
    let reason = wanted.reason.as_deref().map(str::parse).transpose();
    let reason = reason.map_err(|error: mainspring_core::state::UnknownState| invalid("reason", error.to_string()))?;
    let instant = |field: &str, text: Option<&str>| {
        let said = "must be a time like 2026-01-31T08:00:00Z".to_owned();
        text.map(|text| time::parse(text).ok_or_else(|| invalid(field, said))).transpose()
    };
    let workflow = match &wanted.workflow {
        None => None,
        Some(text) => Some(find_workflow(state, caller, text, &InNamespace { namespace }).await?.id),
    };
    Ok(LetterFilter {
        status: Some(Resolution::Pending),
        reason,
        workflow,
        task: wanted.task,
        run: wanted.run_id,
        fingerprint: wanted.fingerprint,
        ids: wanted.ids,
        since: instant("since", wanted.since.as_deref())?,
        until: instant("until", wanted.until.as_deref())?,
        namespaces,
        ..LetterFilter::default()
    })
}

/// Act on every pending dead letter that a filter finds. It is worked off in the background, and goes on after a crash
#[utoipa::path(post, path = "/dlq/batch", tag = "dead letters", request_body = DlqBatchRequest,
    responses((status = 202, body = DlqBatch), (status = 200, body = DlqBatch, description = "A dry run, or nothing was found")))]
pub(super) async fn start(
    State(state): State<ApiState>,
    caller: Caller,
    Body(body): Body<DlqBatchRequest>,
) -> Result<(StatusCode, Json<DlqBatch>), Problem> {
    let Some(action) = LetterAction::parse(&body.action) else {
        caller.sees();
        let words: Vec<&str> = LetterAction::ALL.iter().map(|(word, _)| *word).collect();
        return Err(Problem::invalid("/action", format!("must be one of {}", words.join(", "))));
    };
    let filter = filter(&state, &caller, body.filter).await?;
    refresh(&state).await?;
    let client = state.client();
    let blank =
        DlqBatch { dry_run: body.dry_run, action: action.word().into(), status: "would".into(), ..DlqBatch::default() };
    if body.dry_run {
        let samples = client.store().letters(&LetterFilter { limit: SAMPLES, ..filter.clone() }).await?;
        let samples = samples.into_iter().map(|letter| Form::Usual.entry(letter)).collect();
        return Ok((StatusCode::OK, Json(DlqBatch { matched: client.count_batch(&filter).await?, samples, ..blank })));
    }
    let operator = caller.operator(body.by, body.reason);
    match client.start_batch(BatchRequest { filter, action, operator }).await? {
        None => Ok((StatusCode::OK, Json(DlqBatch { status: "done".into(), ..blank }))),
        Some(id) => Ok((StatusCode::ACCEPTED, Json(shown(client.store().batch(id).await?)))),
    }
}

fn shown(row: BatchRow) -> DlqBatch {
    DlqBatch {
        id: Some(row.id),
        dry_run: false,
        action: row.action,
        status: if row.is_done { "done" } else { "running" }.into(),
        matched: row.matched,
        done: row.done,
        failed: row.failed,
        error: row.error,
        created_at: Some(rfc3339(row.created_at)),
        finished_at: row.finished_at.map(rfc3339),
        samples: Vec::new(),
    }
}

/// Whether the caller may see everything that a batch acts on.
fn is_seen(seen: Option<&[String]>, row: &BatchRow) -> bool {
    match (seen, &row.filter.namespaces) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(seen), Some(of)) => of.iter().all(|namespace| seen.contains(namespace)),
    }
}

/// List batches, newest first
#[utoipa::path(get, path = "/dlq/batches", tag = "dead letters", params(PageParams), responses((status = 200, body = List<DlqBatch>)))]
pub(super) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Json<List<DlqBatch>>, Problem> {
    let seen = caller.sees();
    let mut rows = state.client().store().batches(MOST_BATCHES).await?;
    rows.retain(|row| is_seen(seen.as_deref(), row));
    Ok(Json(page.slice("batches", rows, shown)?))
}

/// Show how far a batch has come
#[utoipa::path(get, path = "/dlq/batches/{id}", tag = "dead letters", params(("id" = Uuid, Path)),
    responses((status = 200, body = DlqBatch)))]
pub(super) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<DlqBatch>, Problem> {
    let none = || Problem::not_found(format!("batch {id} was not found"));
    let seen = caller.sees();
    let row = state.client().store().batch(id).await?;
    match is_seen(seen.as_deref(), &row) {
        true => Ok(Json(shown(row))),
        false => Err(none()),
    }
}
