//! `/health`: what the parts of the installation say, always with 200.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use mainspring_core::Micros;
use mainspring_core::time::rfc3339;
use mainspring_engine::LEADERSHIP;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
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

/// How everything is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthReport {
    /// `healthy`, `degraded` or `unhealthy`: the worst of the components.
    status: String,
    timestamp: String,
    components: BTreeMap<String, Component>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Component {
    status: String,
    latency_ms: u64,
    message: String,
    details: Value,
}

impl Component {
    fn new(status: &str, since: Instant, message: impl Into<String>, details: Value) -> Self {
        let latency_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Self { status: status.to_owned(), latency_ms, message: message.into(), details }
    }
}

/// How the database, the coordination, the schedules and the workers are
#[utoipa::path(get, path = "/health", tag = "about", responses((status = 200, body = HealthReport)))]
pub(crate) async fn health(State(state): State<ApiState>) -> Json<HealthReport> {
    let (database, coordination, schedules, workers) =
        tokio::join!(database(&state), coordination(&state), schedules(&state), workers(&state));
    let components: BTreeMap<String, Component> =
        [("database", database), ("coordination", coordination), ("schedules", schedules), ("workers", workers)]
            .into_iter()
            .map(|(name, component)| (name.to_owned(), component))
            .collect();
    let is = |word: &str| components.values().any(|component| component.status == word);
    let status = ["unhealthy", "degraded"].into_iter().find(|word| is(word)).unwrap_or("healthy");
    Json(HealthReport { status: status.to_owned(), timestamp: rfc3339(state.client().now()), components })
}

async fn database(state: &ApiState) -> Component {
    let since = Instant::now();
    match tokio::time::timeout(PATIENCE, state.client().store().require_current_schema()).await {
        Ok(Ok(())) if since.elapsed() > SLOW => Component::new("degraded", since, "it answers slowly", json!({})),
        Ok(Ok(())) => Component::new("healthy", since, "it answers", json!({})),
        Ok(Err(_)) => Component::new("unhealthy", since, "it does not answer, or has another schema", json!({})),
        Err(_) => Component::new("unhealthy", since, "it does not answer within 5 s", json!({})),
    }
}

async fn coordination(state: &ApiState) -> Component {
    let since = Instant::now();
    let store = state.client().store();
    let look = async { tokio::try_join!(store.term(LEADERSHIP), store.live_sessions()) };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(Ok((term, sessions))) => {
            let leader = term.filter(|term| !term.released).map(|term| term.node.to_string());
            let details = json!({"leader": leader, "workers": sessions.len()});
            match leader {
                Some(_) => Component::new("healthy", since, "a node leads", details),
                None => Component::new("degraded", since, "no node leads", details),
            }
        }
        _ => Component::new("unhealthy", since, "the database does not answer", json!({})),
    }
}

/// How late the next fire is says more than what this node did: another may lead.
async fn schedules(state: &ApiState) -> Component {
    let since = Instant::now();
    let client = state.client();
    let Ok(Ok(next)) = tokio::time::timeout(PATIENCE, client.store().next_fire()).await else {
        return Component::new("unhealthy", since, "the database does not answer", json!({}));
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
    Component::new(status, since, message, details)
}

fn lag(next: Option<Micros>, now: Micros) -> Micros {
    next.map_or(0, |next| now.saturating_sub(next).max(0))
}

fn judge(behind: Option<Duration>, next: Option<Micros>, now: Micros) -> (&'static str, &'static str) {
    if behind.is_some() {
        return ("degraded", "the clock was set back: nothing fires until it has caught up");
    }
    match lag(next, now) > LATE {
        true => ("degraded", "what is due does not fire"),
        false => ("healthy", "they fire in time"),
    }
}

async fn workers(state: &ApiState) -> Component {
    let since = Instant::now();
    let look = state.client().store().sessions(true, 1_000);
    let Ok(Ok(sessions)) = tokio::time::timeout(PATIENCE, look).await else {
        return Component::new("unhealthy", since, "the database does not answer", json!({}));
    };
    let active = sessions.iter().filter(|session| !session.dead && !session.draining).count();
    let details = json!({"total_workers": sessions.len(), "active_workers": active});
    match (active, sessions.len()) {
        (0, 0) => Component::new("unhealthy", since, "No active workers", details),
        (0, _) => Component::new("degraded", since, "No active workers", details),
        _ => Component::new("healthy", since, "workers are active", details),
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
            assert_eq!(judge(behind, next, now).0, status, "{behind:?} {next:?}");
        }
        assert_eq!((lag(None, now), lag(Some(now + 5), now), lag(Some(now - 5), now)), (0, 0, 5));
    }
}
