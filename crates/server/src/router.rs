//! Which path is answered by what.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

use crate::health::Health;
use crate::problem::Problem;

/// The doors that are open to everybody: three paths, by exact match.
pub(crate) fn router(health: Health) -> Router {
    Router::new()
        .route("/live", get(live))
        .route("/ready", get(ready))
        .route("/healthz", get(healthz))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_this_way)
        .with_state(health)
}

async fn live() -> Response {
    answer(StatusCode::OK, &json!({"status": "ok"}))
}

async fn ready(State(health): State<Health>) -> Response {
    match health.is_ready().await {
        true => answer(StatusCode::OK, &json!({"status": "ready"})),
        false => answer(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not ready"})),
    }
}

async fn healthz() -> Response {
    answer(StatusCode::OK, &json!({"status": "ok", "service": "mainspring-api"}))
}

async fn nothing_here() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing under this path")
}

async fn not_this_way() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path answers GET only")
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, body.to_string()).into_response()
}
