//! Handlers that look after the system itself: `cleanup:old_traces`, `health:check`, `metrics:collect`, `kb:reindex`.
//! They work through the [`Host`]; on a worker without one they say so.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::builtin::builtin_function;
use mainspring_core::time::rfc3339;
use mainspring_core::work::Failure;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::call::{FunctionCall, FunctionFuture, FunctionResult, Handler};
use super::payload::Payload;
use crate::host::{HealthStatus, Host};

const DAY_MICROS: i64 = 86_400_000_000;
const DEFAULT_RETENTION_DAYS: u64 = 30;

/// Which duty a handler has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duty {
    CleanUp,
    CheckHealth,
    CollectMetrics,
    Reindex,
}

impl Duty {
    pub(super) const ALL: [Self; 4] = [Self::CleanUp, Self::CheckHealth, Self::CollectMetrics, Self::Reindex];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CleanUp => "cleanup:old_traces",
            Self::CheckHealth => "health:check",
            Self::CollectMetrics => "metrics:collect",
            Self::Reindex => "kb:reindex",
        }
    }

    fn timeout(self) -> Option<Duration> {
        builtin_function(self.name()).map(|function| Duration::from_millis(function.timeout_ms))
    }
}

#[derive(Debug)]
pub(super) struct Upkeep {
    pub(super) duty: Duty,
    pub(super) host: Option<Arc<dyn Host>>,
}

impl Handler for Upkeep {
    fn call(&self, call: FunctionCall) -> FunctionFuture<'_> {
        Box::pin(async move {
            let Some(host) = self.host.as_deref() else {
                let message = format!(
                    "`{}` works on the store, and this worker has none; send the task to a queue of a server",
                    self.duty.name()
                );
                return Err(Failure { kind: "handler".into(), message, permanent: true, ..Failure::default() });
            };
            let payload = Payload::of(self.duty.name(), call.payload())?;
            match self.duty {
                Duty::CleanUp => unless_cancelled(&call, clean_up(host, &call, &payload)).await,
                Duty::CheckHealth => unless_cancelled(&call, check_health(host, &payload)).await,
                Duty::CollectMetrics => unless_cancelled(&call, collect_metrics(host, &call, &payload)).await,
                Duty::Reindex => unless_cancelled(&call, reindex(host, &call, &payload)).await,
            }
        })
    }

    fn timeout(&self) -> Option<Duration> {
        self.duty.timeout()
    }
}

/// Ends the work of the host at its next `await` when the task should end.
async fn unless_cancelled(call: &FunctionCall, work: impl Future<Output = FunctionResult>) -> FunctionResult {
    tokio::select! {
        () = call.cancel.cancelled() => Ok(None),
        result = work => result,
    }
}

/// `{retention_days: 30}`
async fn clean_up(host: &dyn Host, call: &FunctionCall, payload: &Payload<'_>) -> FunctionResult {
    payload.only_known()?;
    let days = payload.number("retention_days", 1..=36_500)?.unwrap_or(DEFAULT_RETENTION_DAYS);
    let before = call.log.clock.now() - days as i64 * DAY_MICROS;
    let report = host.purge(&call.order.namespace, before).await?;
    call.log.info(&format!("deleted {} runs that ended more than {days} days ago", report.runs)).await;
    let mut output = fields(report);
    output.insert("retention_days".into(), json!(days));
    Ok(Some(Value::Object(output)))
}

/// No payload. An unhealthy component fails the task; a degraded one only shows.
async fn check_health(host: &dyn Host, payload: &Payload<'_>) -> FunctionResult {
    payload.only_known()?;
    let report = host.health().await?;
    if report.status != HealthStatus::Unhealthy {
        return Ok(Some(Value::Object(fields(report))));
    }
    let unhealthy = report.components.iter().filter(|component| component.status == HealthStatus::Unhealthy);
    let named: Vec<String> = unhealthy
        .map(|component| match &component.message {
            Some(message) => format!("{} ({message})", component.name),
            None => component.name.clone(),
        })
        .collect();
    let message = format!("unhealthy: {}", if named.is_empty() { "the system".into() } else { named.join(", ") });
    let detail = serde_json::to_string_pretty(&report).ok();
    Err(Failure { kind: "unhealthy".into(), message, detail, ..Failure::default() })
}

/// `{metric_type: runs}`; all types without it.
async fn collect_metrics(host: &dyn Host, call: &FunctionCall, payload: &Payload<'_>) -> FunctionResult {
    payload.only_known()?;
    let wanted = payload.text("metric_type")?.filter(|wanted| *wanted != "all");
    let known = host.metric_types();
    if let Some(wanted) = wanted
        && !known.contains(&wanted)
    {
        return Err(payload.bad(&format!("there is no metric_type `{wanted}`; there are all, {}", known.join(", "))));
    }
    let metrics = host.metrics(&call.order.namespace, wanted).await?;
    let collected_at = rfc3339(call.log.clock.now());
    let shown = wanted.unwrap_or("all");
    Ok(Some(json!({"metric_type": shown, "collected_at": collected_at, "metrics": metrics})))
}

/// `{document_count: 10000}`; all documents without it.
async fn reindex(host: &dyn Host, call: &FunctionCall, payload: &Payload<'_>) -> FunctionResult {
    payload.only_known()?;
    let limit = payload.number("document_count", 1..=u64::MAX)?;
    let report = host.reindex(&call.order.namespace, limit).await?;
    let documents = report.workflows + report.runs + report.errors;
    call.log.info(&format!("indexed {documents} documents")).await;
    let mut output = fields(report);
    output.insert("documents".into(), json!(documents));
    Ok(Some(Value::Object(output)))
}

fn fields(report: impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(report) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
