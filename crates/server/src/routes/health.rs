//! `/health`: what the parts of the installation say, always with 200 and soon, whatever the database does.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use mainspring_api::health::{Component, HealthReport, HealthStatus};
use mainspring_core::time::rfc3339;
use mainspring_engine::ComponentHealth;
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::address::{self, Peer};
use crate::auth::credentials;
use crate::auth::guard::Local;
use crate::auth::identity::Role;
use crate::state::ApiState;

/// How long the look-up of a token may take. While the database is silent, a caller with a token gets the answer of one
/// without.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn register(routes: &mut Routes) {
    routes.at_root(Access::Open, routes!(health));
}

/// How the database, the coordination, the schedules, the bus and the workers are
///
/// Without a token only the status of each; with the role viewer also how long it took, a message and details.
#[utoipa::path(get, path = "/health", tag = "about", responses((status = 200, body = HealthReport)))]
pub(crate) async fn health(State(state): State<ApiState>, request: Request) -> Json<HealthReport> {
    let caller = Credentials {
        is_local: request.extensions().get::<Local>().is_some(),
        method: request.method().clone(),
        headers: request.headers().clone(),
        peer: request.extensions().get::<Peer>().copied(),
    };
    let (is_viewer, health) = tokio::join!(caller.is_viewer(&state), state.client().health());
    let components = health.components.iter().map(|part| (part.name.to_owned(), shown(part, is_viewer))).collect();
    Json(HealthReport { status: word(health.status()), timestamp: rfc3339(health.at), components })
}

fn shown(part: &ComponentHealth, in_full: bool) -> Component {
    Component {
        status: word(part.status),
        latency_ms: in_full.then(|| u64::try_from(part.latency.as_millis()).unwrap_or(u64::MAX)),
        message: in_full.then(|| part.message.clone()),
        details: in_full.then(|| part.details.clone()),
    }
}

fn word(status: mainspring_engine::HealthStatus) -> HealthStatus {
    match status {
        mainspring_engine::HealthStatus::Healthy => HealthStatus::Healthy,
        mainspring_engine::HealthStatus::Degraded => HealthStatus::Degraded,
        mainspring_engine::HealthStatus::Unhealthy => HealthStatus::Unhealthy,
    }
}

/// The caller's credentials, without the body of the request.
struct Credentials {
    is_local: bool,
    method: Method,
    headers: HeaderMap,
    peer: Option<Peer>,
}

impl Credentials {
    /// Wrong tokens are counted as everywhere, and get the short answer.
    async fn is_viewer(&self, state: &ApiState) -> bool {
        if self.is_local {
            return true;
        }
        let looking = credentials::identify(state, &self.method, &self.headers);
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(Ok(Some(identity))) => identity.has_anywhere(Role::Viewer),
            Ok(Err(problem)) if problem.status() == StatusCode::UNAUTHORIZED => {
                let address = address::client(self.peer, &self.headers, &state.settings().proxies);
                let _ = address.map(|address| state.limits().failure(address));
                false
            }
            Ok(Ok(None) | Err(_)) | Err(_) => false,
        }
    }
}
