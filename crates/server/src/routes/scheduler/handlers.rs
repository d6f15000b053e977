//! `/scheduler/events/trigger` and `/scheduler/event-handlers`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mainspring_api::events::{self, Announced, Announcement, ChangeHandler, Delivery, EventHandler, NewHandler};
use mainspring_core::time::rfc3339;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_engine::{NewEvent, RequestFault, check_event_name, check_handler};
use mainspring_store::{DeliveryRow, HandlerAction, HandlerFilter, HandlerRow};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::body::{self, Name, Path, Query};
use crate::page::{List, Page, PageParams};
use crate::problem::Problem;
use crate::routes::workflows::crossings::{self, Target};
use crate::state::ApiState;
use crate::words::known;

/// Handlers are few by nature; more than this are not listed at once.
const MOST_HANDLERS: i64 = 10_000;

pub(super) fn register(routes: &mut Routes) {
    routes.at(Access::InNamespace(Role::Operator), routes!(announce)).body_limit(2 << 20);
    routes.at(Access::InNamespace(Role::Viewer), routes!(list)).also_takes(&["platform_id"]);
    routes.at(Access::InNamespace(Role::Author), routes!(create));
    routes.at(Access::InNamespace(Role::Viewer), routes!(show));
    routes.at(Access::InNamespace(Role::Author), routes!(change));
    routes.at(Access::InNamespace(Role::Author), routes!(delete));
}

fn delivery(row: DeliveryRow) -> Result<Delivery, Problem> {
    Ok(Delivery {
        listener: row.listener,
        outcome: known(row.outcome.word())?,
        run_id: row.run,
        job_id: row.job,
        reason: row.reason,
    })
}

/// Announce an event: durable when this answers
#[utoipa::path(post, path = "/scheduler/events/trigger", tag = "events", request_body = Announcement,
    responses((status = 201, body = Announced), (status = 413, description = "More than 1 MiB of data")))]
pub(crate) async fn announce(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(event): body::Json<Announcement>,
) -> Result<(StatusCode, Json<Announced>), Problem> {
    let namespace = event.namespace.as_ref().map_or(DEFAULT_NAMESPACE, Name::as_str).to_owned();
    caller.enter(&namespace)?;
    check_event_name(&event.event_name, false).map_err(invalid)?;
    let announced = NewEvent {
        namespace: namespace.clone(),
        name: event.event_name.clone(),
        key: event.key,
        data: event.data.unwrap_or_else(|| json!({})),
        source: format!("api {}", caller.identity().name),
    };
    let receipt = state.client().emit(announced).await?;
    let deliveries = receipt.deliveries.into_iter().map(delivery).collect::<Result<_, _>>()?;
    Ok((StatusCode::CREATED, Json(Announced { id: receipt.id, event_name: event.event_name, namespace, deliveries })))
}

fn action_shown(action: HandlerAction) -> events::HandlerAction {
    match action {
        HandlerAction::CreateJob => events::HandlerAction::CreateJob,
        HandlerAction::TriggerWorkflow => events::HandlerAction::TriggerWorkflow,
        HandlerAction::DispatchAgent => events::HandlerAction::DispatchAgent,
    }
}

/// The action of a global handler names other namespaces, so a caller who may not see all of them sees only that it
/// exists.
fn shown_to(caller: &Caller, mut row: HandlerRow) -> EventHandler {
    if row.namespace.is_none() && !caller.identity().has_everywhere(Role::Viewer) {
        row.config = json!({});
        "an administrator".clone_into(&mut row.created_by);
        (row.trigger_count, row.success_count, row.failure_count, row.last_triggered) = (0, 0, 0, None);
    }
    shown(row)
}

fn shown(row: HandlerRow) -> EventHandler {
    EventHandler {
        id: row.id,
        event_name: row.event_name,
        handler_name: row.handler_name,
        handler_type: row.handler_type,
        enabled: row.enabled,
        priority: row.priority,
        action_type: action_shown(row.action),
        action_config: row.config,
        namespace: row.namespace,
        trigger_count: row.trigger_count,
        success_count: row.success_count,
        failure_count: row.failure_count,
        last_triggered: row.last_triggered.map(rfc3339),
        created_by: row.created_by,
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
    }
}

/// HandlerQuery handlers to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HandlerQuery {
    /// The namespace; global handlers are listed too
    #[serde(alias = "platform_id")]
    namespace: Option<Name>,
    /// The event, as the handler has it
    event_name: Option<String>,
}

fn action(word: &str) -> Result<HandlerAction, Problem> {
    HandlerAction::from_word(word).ok_or_else(|| {
        let detail = format!("`{word}` is no action: write create_job, trigger_workflow or dispatch_agent");
        Problem::invalid("/action_type", detail)
    })
}

fn invalid(fault: RequestFault) -> Problem {
    Problem::invalid(&fault.pointer, fault.message)
}

/// Refuses a handler that acts in another namespace than its own, unless its author may do that there or the workflow there
/// lets this namespace call it.
async fn check_target(state: &ApiState, caller: &Caller, row: &HandlerRow) -> Result<(), Problem> {
    let target = row.config.get("namespace").and_then(serde_json::Value::as_str);
    let (Some(own), Some(namespace)) = (row.namespace.as_deref(), target) else { return Ok(()) };
    if own == namespace {
        return Ok(());
    }
    let pointer = "/action_config/namespace";
    if row.action != HandlerAction::TriggerWorkflow {
        let said = format!("a handler of namespace `{own}` creates jobs there: leave it out, or make a global handler");
        return Err(Problem::invalid(pointer, said));
    }
    let name = row.config.get("workflow").and_then(serde_json::Value::as_str).unwrap_or(&row.handler_name);
    crossings::check_one(state, caller, own, Role::Operator, &Target { namespace, name, pointer }).await
}

/// Authorises the namespace of a handler. Only administrators of all namespaces make and change global ones.
fn enter(caller: &Caller, namespace: Option<&str>, role: Role) -> Result<(), Problem> {
    match namespace {
        Some(namespace) => caller.enter(namespace),
        None if role == Role::Viewer => {
            caller.sees();
            Ok(())
        }
        None => caller.enter_everywhere(Role::Admin),
    }
}

/// List event handlers
#[utoipa::path(get, path = "/scheduler/event-handlers", tag = "events", params(PageParams, HandlerQuery),
    responses((status = 200, body = List<EventHandler>)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
    Query(query): Query<HandlerQuery>,
) -> Result<Json<List<EventHandler>>, Problem> {
    let seen = caller.sees_of(query.namespace.as_ref().map(Name::as_str))?;
    let filter = HandlerFilter { event_name: query.event_name, limit: MOST_HANDLERS, ..HandlerFilter::default() };
    let mut handlers = state.client().store().handlers(&filter).await?;
    if let Some(seen) = seen {
        handlers.retain(|row| row.namespace.as_ref().is_none_or(|namespace| seen.contains(namespace)));
    }
    Ok(Json(page.slice("event-handlers", handlers, |row| shown_to(&caller, row))?))
}

/// Make an event handler
#[utoipa::path(post, path = "/scheduler/event-handlers", tag = "events", request_body = NewHandler,
    responses((status = 201, body = EventHandler)))]
pub(crate) async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    body::Json(new): body::Json<NewHandler>,
) -> Result<(StatusCode, Json<EventHandler>), Problem> {
    let global = new.global.unwrap_or(false) || new.platform_id == Some(None);
    let given = new.namespace.as_ref().or(new.platform_id.as_ref().and_then(Option::as_ref));
    if global && given.is_some() {
        return Err(Problem::invalid("/global", "a global handler has no namespace: leave one of both out"));
    }
    let namespace = (!global).then(|| given.map_or(DEFAULT_NAMESPACE, Name::as_str).to_owned());
    enter(&caller, namespace.as_deref(), Role::Author)?;
    let client = state.client();
    let (id, now) = (client.clock().new_id(), client.now());
    let action = action(&new.action_type)?;
    let usual = match action {
        HandlerAction::CreateJob => "function",
        HandlerAction::TriggerWorkflow => "workflow",
        HandlerAction::DispatchAgent => "agent",
    };
    let row = HandlerRow {
        id,
        namespace,
        event_name: new.event_name,
        handler_name: new.handler_name,
        handler_type: new.handler_type.unwrap_or_else(|| usual.into()),
        enabled: new.enabled.unwrap_or(true),
        priority: new.priority.unwrap_or(0),
        action,
        config: new.action_config.filter(|config| !config.is_null()).unwrap_or_else(|| json!({})),
        trigger_count: 0,
        success_count: 0,
        failure_count: 0,
        last_triggered: None,
        created_by: caller.signed(new.created_by),
        created_at: now,
        updated_at: now,
    };
    check_handler(&row).map_err(invalid)?;
    check_target(&state, &caller, &row).await?;
    client.create_handler(&row).await?;
    Ok((StatusCode::CREATED, Json(shown(row))))
}

/// Show an event handler with its statistics
#[utoipa::path(get, path = "/scheduler/event-handlers/{id}", tag = "events", params(("id" = Uuid, Path)),
    responses((status = 200, body = EventHandler)))]
pub(crate) async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<EventHandler>, Problem> {
    let row = state.client().store().handler(id).await?;
    enter(&caller, row.namespace.as_deref(), Role::Viewer)?;
    Ok(Json(shown_to(&caller, row)))
}

/// Change an event handler, or switch it on or off
#[utoipa::path(patch, path = "/scheduler/event-handlers/{id}", tag = "events", params(("id" = Uuid, Path)),
    request_body = ChangeHandler, responses((status = 200, body = EventHandler)))]
pub(crate) async fn change(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
    body::Json(change): body::Json<ChangeHandler>,
) -> Result<Json<EventHandler>, Problem> {
    let client = state.client();
    let mut row = client.store().handler(id).await?;
    enter(&caller, row.namespace.as_deref(), Role::Author)?;
    if let Some(word) = &change.action_type {
        row.action = action(word)?;
    }
    row.event_name = change.event_name.unwrap_or(row.event_name);
    row.handler_name = change.handler_name.unwrap_or(row.handler_name);
    row.handler_type = change.handler_type.unwrap_or(row.handler_type);
    row.enabled = change.enabled.unwrap_or(row.enabled);
    row.priority = change.priority.unwrap_or(row.priority);
    row.config = change.action_config.unwrap_or(row.config);
    check_handler(&row).map_err(invalid)?;
    check_target(&state, &caller, &row).await?;
    client.change_handler(&row).await?;
    Ok(Json(shown(client.store().handler(id).await?)))
}

/// Remove an event handler
#[utoipa::path(delete, path = "/scheduler/event-handlers/{id}", tag = "events", params(("id" = Uuid, Path)),
    responses((status = 204, description = "It is gone")))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, Problem> {
    let client = state.client();
    let row = client.store().handler(id).await?;
    enter(&caller, row.namespace.as_deref(), Role::Author)?;
    client.delete_handler(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
