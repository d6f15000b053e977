//! The record alone: made by hand, edited.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::dlq::{DlqEntry, DlqPatch, DlqSend};
use mainspring_core::TaskKey;
use mainspring_core::dead_letter::{Reason, Resolution};
use mainspring_store::{LetterPatch, NewLetter};
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{Form, find, metadata, refresh};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Json as Body, Path};
use crate::problem::Problem;
use crate::routes::runs::shapes::{find as find_run, task_key};
use crate::state::ApiState;

pub(super) fn register(routes: &mut Routes) {
    let operator = Access::InNamespace(Role::Operator);
    routes.at(operator, routes!(send));
    routes.at(operator, routes!(patch)).also_at("/api/v1/dlq/entry/{id}").also_at("/v1/dlq/entry/{id}");
}

/// Edit the record of a dead letter, closed or not; its run is not touched
#[utoipa::path(patch, path = "/dlq/{id}", tag = "dead letters", params(("id" = Uuid, Path)), request_body = DlqPatch,
    responses((status = 200, body = DlqEntry)))]
pub(super) async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    Path(id): Path<Uuid>,
    Body(body): Body<DlqPatch>,
) -> Result<Json<DlqEntry>, Problem> {
    let letter = find(&state, &caller, id).await?;
    let status = match body.resolution_status.as_deref() {
        None => None,
        Some(word) => Some(Resolution::parse(word).map_err(|_| {
            let words: Vec<&str> = Resolution::ALL.iter().map(|status| status.word()).collect();
            Problem::invalid("/resolution_status", format!("must be one of {}", words.join(", ")))
        })?),
    };
    let operator = caller.operator(body.resolved_by.clone(), None);
    let patch = LetterPatch {
        status,
        notes: body.resolution_notes,
        resolved_by: body.resolved_by,
        acted_by: operator.token.unwrap_or(operator.by),
        metadata: metadata(body.metadata)?,
    };
    state.client().patch_letter(&letter, &patch).await.map_err(|error| match error {
        mainspring_store::Error::Rejected(_) if status == Some(Resolution::Pending) => {
            Problem::conflict("another entry of it is pending already: edit that one")
        }
        error => error.into(),
    })?;
    Ok(Json(form.entry(find(&state, &caller, id).await?)))
}

/// Send a task run, or a whole run, to the dead letters by hand; the run is not touched
#[utoipa::path(post, path = "/dlq", tag = "dead letters", request_body = DlqSend,
    responses((status = 201, body = DlqEntry), (status = 404, description = "There is no such run or task"),
        (status = 409, description = "An entry of it is pending already")))]
pub(super) async fn send(
    State(state): State<ApiState>,
    caller: Caller,
    form: Form,
    Body(body): Body<DlqSend>,
) -> Result<(StatusCode, Json<DlqEntry>), Problem> {
    let named = body.task.as_deref().and_then(|task| task.parse::<TaskKey>().ok());
    let run = match body.run_id.or(named.map(|key| key.run)) {
        Some(run) => run,
        None => {
            caller.sees();
            return Err(Problem::invalid("/run_id", "say which run, or give the id of a task run as `task_run_id`"));
        }
    };
    let summary = find_run(&state, &caller, run).await?;
    let client = state.client();
    let spec = client.spec(summary.version).await?;
    let task = body.task.as_deref().map(|task| task_key(&spec.workflow, run, task)).transpose()?;
    let row = match task {
        None => None,
        Some(key) => {
            let rows = client.store().task_runs(run).await?;
            let found = rows.into_iter().find(|row| row.key == key);
            Some(found.ok_or_else(|| Problem::not_found("the run has no such task run (yet)"))?)
        }
    };
    let operator = caller.operator(body.by, body.reason);
    let said = operator.reason.clone().unwrap_or_else(|| "sent by hand".into());
    let letter = NewLetter {
        id: client.clock().new_id(),
        run,
        task,
        version: summary.version,
        reason: Reason::ManualDlq,
        original_state: match &row {
            None => summary.state.word().to_owned(),
            Some(row) => row.state.shown().word().to_owned(),
        },
        error_type: row.as_ref().and_then(|row| row.error_kind.clone()),
        error_message: Some(format!("{said} (by {})", operator.by)),
        total_attempts: row.as_ref().map_or(0, |row| row.attempt),
        last_attempt_at: row.as_ref().and_then(|row| row.started_at),
        metadata: metadata(body.metadata)?,
        snapshot: None,
    };
    let Some(id) = client.store().add_letter(client.now(), &letter).await? else {
        let pending = client.store().letter_of(run, task).await?;
        let which = pending.map_or(String::new(), |pending| format!(": {}", pending.id));
        return Err(Problem::conflict(format!("a dead letter of it is pending already{which}")));
    };
    refresh(&state).await?;
    Ok((StatusCode::CREATED, Json(form.entry(find(&state, &caller, id).await?))))
}
