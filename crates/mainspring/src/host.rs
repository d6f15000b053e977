//! What the built-in functions ask of the store.

use std::time::Duration;

use mainspring_core::Micros;
use mainspring_core::state::RunState;
use mainspring_engine::Client;
use mainspring_worker::{
    ComponentHealth, HealthReport, HealthStatus, Host, HostError, HostFuture, PurgeReport, ReindexReport,
};
use serde_json::{Map, Value, json};

/// What `metrics:collect` can be asked for.
const METRIC_TYPES: &[&str] = &["runs", "workers", "pools", "performance"];

/// What `performance` looks back on.
const PERFORMANCE_WINDOW: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub(crate) struct StoreHost {
    client: Client,
}

impl StoreHost {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    async fn metric(&self, namespace: &str, kind: &str) -> mainspring_store::Result<Value> {
        let store = self.client.store();
        Ok(match kind {
            "runs" => {
                let mut counts: Map<String, Value> =
                    RunState::ALL.iter().map(|state| (state.word().to_owned(), json!(0))).collect();
                for count in store.run_counts_in(namespace).await? {
                    counts.insert(count.state.word().to_owned(), json!(count.runs));
                }
                Value::Object(counts)
            }
            "workers" => {
                let sessions = store.live_sessions().await?;
                let slots: i64 = sessions.iter().map(|session| i64::from(session.slots)).sum();
                let draining = sessions.iter().filter(|session| session.draining).count();
                json!({"total": sessions.len(), "draining": draining, "slots": slots})
            }
            "performance" => {
                let since = self.client.now() - PERFORMANCE_WINDOW.as_micros() as i64;
                let ended = store.run_durations(namespace, since).await?;
                let hours = PERFORMANCE_WINDOW.as_secs_f64() / 3_600.0;
                json!({
                    "window_seconds": PERFORMANCE_WINDOW.as_secs(),
                    "runs_ended": ended.runs,
                    "runs_per_hour": ended.runs as f64 / hours,
                    "avg_duration_ms": ended.average_ms,
                    "max_duration_ms": ended.longest_ms,
                })
            }
            _ => {
                let pools = store.pools().await?.into_iter().filter(|pool| pool.namespace == namespace);
                pools
                    .map(|pool| (pool.name, json!({"slots": pool.slots, "held": pool.held})))
                    .collect::<Map<_, _>>()
                    .into()
            }
        })
    }
}

impl Host for StoreHost {
    fn purge<'a>(&'a self, namespace: &'a str, before: Micros) -> HostFuture<'a, PurgeReport> {
        Box::pin(async move {
            let mut report = PurgeReport::default();
            loop {
                let purged = self.client.store().purge_runs(before, Some(namespace)).await.map_err(away)?;
                report.runs += purged.runs;
                report.task_runs += purged.task_runs;
                report.logs += purged.log_chunks;
                if purged.runs == 0 {
                    return Ok(report);
                }
            }
        })
    }

    fn health(&self) -> HostFuture<'_, HealthReport> {
        Box::pin(async move {
            let health = self.client.health().await;
            let components = health.components.iter().map(component).collect();
            Ok(HealthReport { status: status(health.status()), components })
        })
    }

    fn metric_types(&self) -> Vec<&'static str> {
        METRIC_TYPES.to_vec()
    }

    fn metrics<'a>(&'a self, namespace: &'a str, metric_type: Option<&'a str>) -> HostFuture<'a, Map<String, Value>> {
        Box::pin(async move {
            let mut metrics = Map::new();
            for kind in METRIC_TYPES.iter().filter(|kind| metric_type.is_none_or(|wanted| wanted == **kind)) {
                metrics.insert((*kind).to_owned(), self.metric(namespace, kind).await.map_err(away)?);
            }
            Ok(metrics)
        })
    }

    fn reindex<'a>(&'a self, namespace: &'a str, limit: Option<u64>) -> HostFuture<'a, ReindexReport> {
        Box::pin(async move {
            let indexed = self.client.store().reindex(namespace, limit).await.map_err(away)?;
            Ok(ReindexReport { workflows: indexed.workflows, runs: indexed.runs, errors: indexed.errors })
        })
    }
}

fn component(part: &mainspring_engine::ComponentHealth) -> ComponentHealth {
    ComponentHealth {
        name: part.name.to_owned(),
        status: status(part.status),
        latency_ms: u64::try_from(part.latency.as_millis()).unwrap_or(u64::MAX),
        message: Some(part.message.clone()),
        details: part.details.as_object().cloned().unwrap_or_default(),
    }
}

fn status(status: mainspring_engine::HealthStatus) -> HealthStatus {
    match status {
        mainspring_engine::HealthStatus::Healthy => HealthStatus::Healthy,
        mainspring_engine::HealthStatus::Degraded => HealthStatus::Degraded,
        mainspring_engine::HealthStatus::Unhealthy => HealthStatus::Unhealthy,
    }
}

fn away(error: mainspring_store::Error) -> HostError {
    HostError { message: error.to_string(), permanent: false }
}
