//! `/health`: what the parts of the installation say, always with 200.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use mainspring_api::health::{Component, HealthReport, HealthStatus};
use mainspring_core::Micros;
use mainspring_core::time::rfc3339;
use mainspring_engine::{CoordinationHealth, LEADERSHIP};
use serde_json::{Value, json};
use utoipa_axum::routes;

use crate::auth::access::{Access, Routes};
use crate::auth::identity::Role;
use crate::state::ApiState;

/// What does not answer for so long is unhealthy.
const PATIENCE: Duration = Duration::from_secs(5);
/// A database that takes longer is degraded.
const SLOW: Duration = Duration::from_secs(1);

/// Schedules that are later are degraded.
const LATE: Micros = 60_000_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at_root(Access::Anywhere(Role::Viewer), routes!(health));
}

fn component(status: HealthStatus, since: Instant, message: impl Into<String>, details: Value) -> Component {
    let latency_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    Component { status, latency_ms, message: message.into(), details }
}

/// How the database, the coordination, the schedules and the workers are
#[utoipa::path(get, path = "/health", tag = "about", responses((status = 200, body = HealthReport)))]
pub(crate) async fn health(State(state): State<ApiState>) -> Json<HealthReport> {
    let (database, coordination, schedules, workers) =
        tokio::join!(database(&state), coordination(&state), schedules(&state), workers(&state));
    let redis = redis(&state).map(|component| ("redis", component));
    let components: BTreeMap<String, Component> =
        [("database", database), ("coordination", coordination), ("schedules", schedules), ("workers", workers)]
            .into_iter()
            .chain(redis)
            .map(|(name, component)| (name.to_owned(), component))
            .collect();
    let status = components.values().map(|component| component.status).max().unwrap_or(HealthStatus::Healthy);
    Json(HealthReport { status, timestamp: rfc3339(state.client().now()), components })
}

async fn database(state: &ApiState) -> Component {
    let since = Instant::now();
    match tokio::time::timeout(PATIENCE, state.client().store().require_current_schema()).await {
        Ok(Ok(())) if since.elapsed() > SLOW => {
            component(HealthStatus::Degraded, since, "it answers slowly", json!({}))
        }
        Ok(Ok(())) => component(HealthStatus::Healthy, since, "it answers", json!({})),
        Ok(Err(_)) => component(HealthStatus::Unhealthy, since, "it does not answer, or has another schema", json!({})),
        Err(_) => component(HealthStatus::Unhealthy, since, "it does not answer within 5 s", json!({})),
    }
}

async fn coordination(state: &ApiState) -> Component {
    let since = Instant::now();
    let store = state.client().store();
    let look = async { tokio::try_join!(store.term(LEADERSHIP), store.live_sessions()) };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(Ok((term, sessions))) => {
            let leader = term.filter(|term| !term.released).map(|term| term.node.to_string());
            let details = json!({
                "leader": leader, "workers": sessions.len(), "coordinator": state.client().coordination(),
            });
            match (leader, state.client().coordination_health()) {
                (Some(_), CoordinationHealth::Healthy) => {
                    component(HealthStatus::Healthy, since, "a node leads", details)
                }
                (Some(_), CoordinationHealth::Degraded(cause)) => {
                    let message = format!("the database coordinates alone: {cause}");
                    component(HealthStatus::Degraded, since, message, details)
                }
                (None, _) => component(HealthStatus::Degraded, since, "no node leads", details),
            }
        }
        _ => component(HealthStatus::Unhealthy, since, "the database does not answer", json!({})),
    }
}

/// Redis, if it is configured: nothing waits for it, so it is never worse than degraded.
fn redis(state: &ApiState) -> Option<Component> {
    let since = Instant::now();
    Some(match state.client().redis_health()? {
        CoordinationHealth::Healthy => component(HealthStatus::Healthy, since, "it answers", json!({})),
        CoordinationHealth::Degraded(cause) => {
            component(HealthStatus::Degraded, since, format!("nodes poll instead: {cause}"), json!({}))
        }
    })
}

/// How late the next fire is says more than what this node did: another may lead.
async fn schedules(state: &ApiState) -> Component {
    let since = Instant::now();
    let client = state.client();
    let Ok(Ok(next)) = tokio::time::timeout(PATIENCE, client.store().next_fire()).await else {
        return component(HealthStatus::Unhealthy, since, "the database does not answer", json!({}));
    };
    let timekeeping = client.timekeeping();
    let next = next.map(|(next, _)| next);
    let (status, message) = judge(timekeeping.behind, next, client.now());
    let details = json!({
        "leads": timekeeping.leads,
        "behind_ms": timekeeping.behind.map_or(0, |behind| u64::try_from(behind.as_millis()).unwrap_or(u64::MAX)),
        "lag_ms": lag(next, client.now()) / 1_000,
        "next_fire_at": next.map(rfc3339),
    });
    component(status, since, message, details)
}

fn lag(next: Option<Micros>, now: Micros) -> Micros {
    next.map_or(0, |next| now.saturating_sub(next).max(0))
}

fn judge(behind: Option<Duration>, next: Option<Micros>, now: Micros) -> (HealthStatus, &'static str) {
    if behind.is_some() {
        return (HealthStatus::Degraded, "the clock was set back: nothing fires until it has caught up");
    }
    match lag(next, now) > LATE {
        true => (HealthStatus::Degraded, "what is due does not fire"),
        false => (HealthStatus::Healthy, "they fire in time"),
    }
}

async fn workers(state: &ApiState) -> Component {
    let since = Instant::now();
    let look = state.client().store().sessions(true, 1_000);
    let Ok(Ok(sessions)) = tokio::time::timeout(PATIENCE, look).await else {
        return component(HealthStatus::Unhealthy, since, "the database does not answer", json!({}));
    };
    let active = sessions.iter().filter(|session| !session.dead && !session.draining).count();
    let details = json!({"total_workers": sessions.len(), "active_workers": active});
    match (active, sessions.len()) {
        (0, 0) => component(HealthStatus::Unhealthy, since, "No active workers", details),
        (0, _) => component(HealthStatus::Degraded, since, "No active workers", details),
        _ => component(HealthStatus::Healthy, since, "workers are active", details),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_judged_by_how_late_they_are() {
        let now = 1_000_000_000;
        for (behind, next, status) in [
            (None, None, "healthy"),
            (None, Some(now + 5), "healthy"),
            (None, Some(now - LATE), "healthy"),
            (None, Some(now - LATE - 1), "degraded"),
            (Some(Duration::from_secs(9)), Some(now + 5), "degraded"),
        ] {
            assert_eq!(judge(behind, next, now).0.word(), status, "{behind:?} {next:?}");
        }
        assert_eq!((lag(None, now), lag(Some(now + 5), now), lag(Some(now - 5), now)), (0, 0, 5));
    }
}
