//! The stored request for a job, and the workflow that is made from it.

use mainspring_core::Micros;
use mainspring_core::time::rfc3339;
use mainspring_store::{JOB_TRIGGER, JobKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The name of the one task.
const TASK: &str = "job";

pub(crate) const DEFAULT_RETRIES: u32 = 3;
pub(crate) const DEFAULT_RETRY_DELAY_MS: u64 = 60_000;
pub(crate) const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// Everything that was asked for, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    pub title: String,
    #[serde(default)]
    pub description: Option<String>,
    /// The cron expression, the interval, the instant, or the name of what it follows.
    pub schedule: String,
    pub timezone: String,
    /// Of a dependent job: `namespace/name` of the workflow it follows.
    #[serde(default)]
    pub follows: Option<String>,
    /// Of a dependent job: which ends it follows.
    #[serde(default)]
    pub on: Vec<String>,
    #[serde(default)]
    pub start_date: Option<Micros>,
    #[serde(default)]
    pub end_date: Option<Micros>,
    #[serde(default)]
    pub max_executions: Option<u64>,
    pub handler_name: String,
    pub handler_type: String,
    pub payload: Value,
    /// The payload is foreign text: nothing in it is an expression.
    #[serde(default)]
    pub literal: bool,
    pub max_retries: u32,
    pub retry_delay_ms: u64,
    /// The delay doubles with every failure up to this.
    #[serde(default = "longest_retry_delay")]
    pub max_retry_delay_ms: u64,
    pub timeout_ms: u64,
    /// A word or a number.
    pub priority: Value,
    /// `None` is unlimited.
    pub concurrency: Option<u32>,
    pub allow_overlap: bool,
    pub tags: Vec<String>,
    pub metadata: Value,
}

/// What a job waits at most between two attempts unless it says otherwise.
pub(crate) const LONGEST_RETRY_DELAY_MS: u64 = 30 * 60 * 1_000;

fn longest_retry_delay() -> u64 {
    LONGEST_RETRY_DELAY_MS
}

impl JobSpec {
    /// The workflow as a document of the dialect.
    pub(crate) fn document(&self, kind: JobKind, namespace: &str, name: &str) -> Value {
        let mut document = json!({
            "name": name,
            "namespace": namespace,
            "title": self.title,
            "triggers": [self.trigger(kind)],
            "priority": self.priority,
            "tasks": {TASK: self.task()},
        });
        if let Some(description) = &self.description {
            document["description"] = description.clone().into();
        }
        if let Some(limit) = self.concurrency {
            let overlap = if self.allow_overlap { "queue" } else { "skip" };
            document["concurrency"] = json!({"limit": limit, "overlap": overlap});
        }
        document
    }

    fn trigger(&self, kind: JobKind) -> Value {
        let mut trigger = Map::new();
        trigger.insert("id".into(), JOB_TRIGGER.into());
        match kind {
            JobKind::Cron => {
                trigger.insert("cron".into(), self.schedule.clone().into());
                trigger.insert("timezone".into(), self.timezone.clone().into());
            }
            JobKind::OneTime => drop(trigger.insert("at".into(), self.schedule.clone().into())),
            JobKind::Recurring => drop(trigger.insert("every".into(), self.schedule.clone().into())),
            JobKind::Dependent => {
                let (namespace, name) =
                    self.follows.as_deref().and_then(|follows| follows.split_once('/')).unwrap_or_default();
                trigger.insert("workflow".into(), name.into());
                trigger.insert("namespace".into(), namespace.into());
                trigger.insert("on".into(), json!(self.on));
            }
        }
        if kind != JobKind::OneTime {
            let instants = [("start", self.start_date), ("end", self.end_date)];
            for (key, at) in instants.into_iter().filter_map(|(key, at)| Some((key, at?))) {
                trigger.insert(key.into(), rfc3339(at).into());
            }
            if let Some(max) = self.max_executions {
                trigger.insert("max_executions".into(), max.into());
            }
        }
        Value::Object(trigger)
    }

    fn task(&self) -> Value {
        let payload = if self.literal { literally(&self.payload) } else { self.payload.clone() };
        let delay = format!("{}ms", self.retry_delay_ms);
        let max_delay = format!("{}ms", self.max_retry_delay_ms.max(self.retry_delay_ms));
        let mut task = json!({
            "timeout": format!("{}ms", self.timeout_ms),
            "retry": {"attempts": self.max_retries + 1, "backoff": "exponential", "delay": delay, "max_delay": max_delay, "jitter": 0},
        });
        match self.handler_type.as_str() {
            "workflow" => task["workflow"] = json!({"name": self.handler_name, "inputs": payload}),
            "shell" => task["run"] = self.payload["run"].clone(),
            "agent" => task["remote"] = json!({"handler": self.handler_name, "payload": payload}),
            _ => task["function"] = json!({"handler": self.handler_name, "payload": payload}),
        }
        task
    }
}

/// A value in which nothing is an expression any more: each `${{` is written as an expression that says `$` and a `{{`
/// that says nothing.
fn literally(value: &Value) -> Value {
    match value {
        Value::String(text) => text.replace("${{", "${{ '$' }}{{").into(),
        Value::Array(items) => items.iter().map(literally).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), literally(value))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use mainspring_core::Scope;

    use super::*;

    #[test]
    fn what_somebody_else_wrote_is_not_evaluated() {
        let hostile = json!({"a": "${{ secrets.KEY }}", "b": ["$${{ 1 + 1 }}", "}} ${{"], "c": 3});
        let trigger = json!({"id": "t", "source": {"event": "e"}, "inputs": literally(&hostile)});
        let trigger: mainspring_core::workflow::Trigger = serde_json::from_value(trigger).unwrap();
        assert_eq!(Value::Object(trigger.run_inputs(&Scope::default()).unwrap()), hostile);
    }
}
