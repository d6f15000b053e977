//! `/notifications`: messages that went out or could not, and who is notified in a namespace.

use axum::Json;
use axum::extract::State;
use mainspring_api::notifications::{NotificationEntry, NotificationTargets};
use mainspring_core::time::rfc3339;
use mainspring_core::workflow::{Channel, MAX_NOTIFICATIONS, Notification};
use mainspring_store::{NotificationRow, NotificationState};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{Json as Body, Name, Path, Query};
use crate::openapi::words::NotificationWord;
use crate::page::{List, Page, PageParams};
use crate::problem::{Fault, Problem};
use crate::state::ApiState;

const NEWEST: i64 = 5_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Viewer), routes!(list));
    routes.at(Access::InNamespace(Role::Author), routes!(targets));
    routes.at(Access::InNamespace(Role::Author), routes!(set_targets));
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only of this namespace
    namespace: Option<Name>,
    /// `waiting`, `sent`, `given_up` or `in_digest`
    #[param(inline, value_type = Option<NotificationWord>)]
    status: Option<String>,
}

/// List notifications, newest first
#[utoipa::path(get, path = "/notifications", tag = "notifications", params(PageParams, ListParams),
    responses((status = 200, body = List<NotificationEntry>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(params): Query<ListParams>,
) -> Result<Json<List<NotificationEntry>>, Problem> {
    let namespaces = caller.sees_of(params.namespace.as_ref().map(Name::as_str))?;
    let status = match params.status.as_deref() {
        None => None,
        Some(word) => {
            let found = NotificationState::ALL.into_iter().find(|state| state.word() == word);
            let said = "the query does not fit: status is waiting, sent, given_up or in_digest";
            Some(found.ok_or_else(|| Problem::malformed(said))?)
        }
    };
    let rows = state.client().store().notifications(namespaces.as_deref(), status, NEWEST).await?;
    Ok(Json(page.slice("notifications", rows, shown)?))
}

/// Addresses are left out, because some contain secrets.
fn shown(row: NotificationRow) -> NotificationEntry {
    let channel = match serde_json::from_str::<Notification>(&row.target).map(|target| target.channel) {
        Ok(Channel::Webhook { .. }) => "webhook",
        Ok(Channel::Slack { .. }) => "slack",
        Ok(Channel::Email { .. }) => "email",
        Err(_) => "unknown",
    };
    let is_waiting = row.state == NotificationState::Waiting;
    NotificationEntry {
        id: row.id,
        namespace: row.namespace,
        workflow: row.workflow,
        event: row.notice.word().to_owned(),
        run_id: row.run,
        channel: channel.to_owned(),
        status: row.state.word().to_owned(),
        attempts: row.attempts,
        error: row.error,
        body: serde_json::from_str(&row.body).unwrap_or_default(),
        created_at: rfc3339(row.created_at),
        next_attempt_at: is_waiting.then(|| rfc3339(row.due_at)),
        sent_at: row.sent_at.map(rfc3339),
    }
}

/// Show who is notified when something goes wrong in a namespace
#[utoipa::path(get, path = "/namespaces/{name}/notifications", tag = "notifications", params(("name" = Name, Path)),
    responses((status = 200, body = NotificationTargets)))]
pub(crate) async fn targets(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
) -> Result<Json<NotificationTargets>, Problem> {
    caller.enter(name.as_str())?;
    let all = state.client().store().namespace_notifications(name.as_str()).await?;
    let notifications = all.iter().filter_map(|one| serde_json::to_value(one).ok()).collect();
    Ok(Json(NotificationTargets { notifications }))
}

/// Set who is notified when something goes wrong in a namespace
#[utoipa::path(put, path = "/namespaces/{name}/notifications", tag = "notifications", params(("name" = Name, Path)),
    request_body = NotificationTargets, responses((status = 200, body = NotificationTargets)))]
pub(crate) async fn set_targets(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<Name>,
    Body(body): Body<NotificationTargets>,
) -> Result<Json<NotificationTargets>, Problem> {
    caller.enter(name.as_str())?;
    if body.notifications.len() > MAX_NOTIFICATIONS {
        return Err(Problem::invalid("/notifications", format!("at most {MAX_NOTIFICATIONS}")));
    }
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    for (index, one) in body.notifications.iter().enumerate() {
        match serde_json::from_value::<Notification>(one.clone()) {
            Ok(one) => all.push(one),
            Err(error) => faults.push(Fault::at(format!("/notifications/{index}"), error.to_string())),
        }
    }
    if !faults.is_empty() {
        return Err(Problem::faults("the notifications do not fit", faults));
    }
    let client = state.client();
    client.store().set_namespace_notifications(client.now(), name.as_str(), &all).await?;
    targets(State(state), caller, Path(name)).await
}
