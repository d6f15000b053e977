//! What the built-in functions ask of the store.

use std::time::{Duration, Instant};

use mainspring_core::Micros;
use mainspring_core::schedule::zone_version;
use mainspring_core::state::RunState;
use mainspring_engine::Client;
use mainspring_worker::{
    ComponentHealth, HealthReport, HealthStatus, Host, HostError, HostFuture, PurgeReport, ReindexReport,
};
use serde_json::{Map, Value, json};

/// A database slower than this is degraded, one that does not answer within [`DEAD_AFTER`] unhealthy.
const SLOW_AFTER: Duration = Duration::from_secs(1);
const DEAD_AFTER: Duration = Duration::from_secs(5);

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

    async fn database(&self) -> ComponentHealth {
        let started = Instant::now();
        let answer = tokio::time::timeout(DEAD_AFTER, self.client.store().require_current_schema()).await;
        let took = started.elapsed();
        let (status, message) = match answer {
            Ok(Ok(())) if took < SLOW_AFTER => (HealthStatus::Healthy, None),
            Ok(Ok(())) => (HealthStatus::Degraded, Some("it answers slowly".to_owned())),
            Ok(Err(error)) => (HealthStatus::Unhealthy, Some(error.to_string())),
            Err(_) => (HealthStatus::Unhealthy, Some("no answer within 5 s".into())),
        };
        component("database", status, took, message, Map::new())
    }

    async fn workers(&self) -> ComponentHealth {
        let started = Instant::now();
        let (status, message, details) = match self.client.store().live_sessions().await {
            Ok(sessions) => {
                let active = sessions.iter().filter(|session| !session.draining).count();
                let details = Map::from_iter([
                    ("total_workers".to_owned(), json!(sessions.len())),
                    ("active_workers".to_owned(), json!(active)),
                ]);
                match (active, sessions.len()) {
                    (0, 0) => (HealthStatus::Unhealthy, Some("No active workers".to_owned()), details),
                    (0, _) => (HealthStatus::Degraded, Some("all workers are draining".to_owned()), details),
                    _ => (HealthStatus::Healthy, None, details),
                }
            }
            Err(error) => (HealthStatus::Unhealthy, Some(error.to_string()), Map::new()),
        };
        component("workers", status, started.elapsed(), message, details)
    }

    /// Whether schedules fire: a clock that was set back is waited for.
    fn schedules(&self) -> ComponentHealth {
        let timekeeping = self.client.timekeeping();
        let (status, message) = match timekeeping.behind {
            None => (HealthStatus::Healthy, None),
            Some(behind) => {
                let message = format!("the clock was set back: schedules wait for {} s", behind.as_secs());
                (HealthStatus::Degraded, Some(message))
            }
        };
        let zones = zone_version();
        let details = Map::from_iter([
            ("leads".to_owned(), json!(timekeeping.leads)),
            ("time_zones".to_owned(), json!(zones.version)),
            ("time_zones_source".to_owned(), json!(zones.source)),
        ]);
        component("schedules", status, Duration::ZERO, message, details)
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
            let components = vec![self.database().await, self.workers().await, self.schedules()];
            let is = |wanted: HealthStatus| components.iter().any(|component| component.status == wanted);
            let status = if is(HealthStatus::Unhealthy) {
                HealthStatus::Unhealthy
            } else if is(HealthStatus::Degraded) {
                HealthStatus::Degraded
            } else {
                HealthStatus::Healthy
            };
            Ok(HealthReport { status, components })
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

fn component(
    name: &str,
    status: HealthStatus,
    took: Duration,
    message: Option<String>,
    details: Map<String, Value>,
) -> ComponentHealth {
    ComponentHealth { name: name.to_owned(), status, latency_ms: took.as_millis() as u64, message, details }
}

fn away(error: mainspring_store::Error) -> HostError {
    HostError { message: error.to_string(), permanent: false }
}
