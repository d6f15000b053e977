//! Actions on an entry that change its run.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::dlq::DlqAct;
use mainspring_api::runs::Run;
use mainspring_engine::LetterAction;
use mainspring_store::Operator;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use super::shapes::{find, metadata};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{MaybeJson, Path, Query};
use crate::openapi::words::RetryForm;
use crate::problem::Problem;
use crate::routes::runs::shapes::shown;
use crate::state::ApiState;

pub(super) fn register(routes: &mut Routes) {
    let operator = Access::InNamespace(Role::Operator);
    routes.at(operator, routes!(retry));
    routes.at(operator, routes!(skip));
    routes.at(operator, routes!(resolve));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RetryParams {
    /// `new_run` for a new run of that task alone, with the same inputs, instead of the same run; of the workflow for an entry of a whole run
    #[serde(rename = "as")]
    #[param(inline, value_type = Option<RetryForm>)]
    form: Option<String>,
}

fn operator(caller: &Caller, act: Option<DlqAct>) -> Result<Operator, Problem> {
    let act = act.unwrap_or_default();
    let metadata = metadata(act.metadata)?;
    Ok(Operator { metadata, ..caller.operator(act.by, act.reason) })
}

/// Do it again: the failed task with fresh attempts and then what depends on it, or everything of a run that did not finish
#[utoipa::path(post, path = "/dlq/{id}/retry", tag = "dead letters", params(("id" = Uuid, Path), RetryParams),
    request_body(content = Option<DlqAct>),
    responses((status = 200, body = Run), (status = 409, description = "It is closed, or the run goes on"),
        (status = 410, description = "The run was purged")))]
pub(super) async fn retry(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(params): Query<RetryParams>,
    MaybeJson(act): MaybeJson<DlqAct>,
) -> Result<Json<Run>, Problem> {
    let action = match params.form.as_deref() {
        None | Some("same_run") => LetterAction::Retry,
        Some("new_run") => LetterAction::RetryAsNewRun,
        Some(_) => return Err(Problem::malformed("the query does not fit: as may be `new_run` or `same_run`")),
    };
    find(&state, &caller, id).await?;
    let outcome = state.client().act_on_letter(id, action, &operator(&caller, act)?).await?;
    Ok(Json(shown(&state, outcome.run).await?))
}

/// Leave the task out; its run goes on as if it had succeeded
#[utoipa::path(post, path = "/dlq/{id}/skip", tag = "dead letters", params(("id" = Uuid, Path)),
    request_body(content = Option<DlqAct>),
    responses((status = 204, description = "Its run goes on"), (status = 409, description = "It is closed, or about a whole run"),
        (status = 410, description = "The run was purged")))]
pub(super) async fn skip(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(act): MaybeJson<DlqAct>,
) -> Result<StatusCode, Problem> {
    find(&state, &caller, id).await?;
    state.client().act_on_letter(id, LetterAction::Skip, &operator(&caller, act)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Count the task as done by hand; its run goes on. An entry of a whole run is only closed
#[utoipa::path(post, path = "/dlq/{id}/resolve", tag = "dead letters", params(("id" = Uuid, Path)),
    request_body(content = Option<DlqAct>),
    responses((status = 204, description = "Its run goes on"), (status = 409, description = "It is closed"),
        (status = 410, description = "The run was purged")))]
pub(super) async fn resolve(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    MaybeJson(act): MaybeJson<DlqAct>,
) -> Result<StatusCode, Problem> {
    find(&state, &caller, id).await?;
    state.client().act_on_letter(id, LetterAction::Resolve, &operator(&caller, act)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
