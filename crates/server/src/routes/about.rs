//! Whether this node lives, and what it offers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::identity::Role;
use crate::openapi;
use crate::probe::exposition;
use crate::state::ApiState;

pub(crate) fn register(routes: &mut Routes) {
    routes.at_root(Access::Open, routes!(live));
    routes.at_root(Access::Open, routes!(ready));
    routes.at_root(Access::Open, routes!(healthz));
    routes.at_root(Access::Anywhere(Role::Viewer), routes!(metrics));
    routes.at_root(Access::Anywhere(Role::Viewer), routes!(openapi::openapi_json));
    routes.at_root(Access::Anywhere(Role::Viewer), routes!(openapi::docs));
}

/// Whether the process lives
#[utoipa::path(get, path = "/live", tag = "about", responses((status = 200, description = "It does", body = Object)))]
pub(crate) async fn live() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// Whether it may be sent work
#[utoipa::path(get, path = "/ready", tag = "about",
    responses((status = 200, description = "It may", body = Object), (status = 503, description = "It may not", body = Object)))]
pub(crate) async fn ready(State(state): State<ApiState>) -> Response {
    match state.health().is_ready().await {
        true => Json(json!({"status": "ready"})).into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "not ready"}))).into_response(),
    }
}

/// What it is
#[utoipa::path(get, path = "/healthz", tag = "about", responses((status = 200, description = "Its name", body = Object)))]
pub(crate) async fn healthz() -> Response {
    Json(json!({"status": "ok", "service": "mainspring-api"})).into_response()
}

/// What operators watch, in the Prometheus text format
#[utoipa::path(get, path = "/metrics", tag = "about",
    responses((status = 200, description = "Every metric of this process", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(state): State<ApiState>) -> Response {
    exposition(state.client().metrics()).into_response()
}
