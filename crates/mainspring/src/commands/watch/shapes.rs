//! Runs, task runs and workers as the API shows them, made fit for a terminal.
//!
//! Every text comes from outside: it is cleaned here, once, so that nothing that is drawn can move the cursor.

use mainspring_core::state::{RunState, TaskState};
use mainspring_core::{Micros, time};
use serde_json::Value;

use crate::output::plain;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) workflow: String,
    pub(super) namespace: String,
    pub(super) version: i64,
    pub(super) status: String,
    /// Task runs that have ended, and all of them.
    pub(super) progress: Option<(i64, i64)>,
    pub(super) trigger: String,
    pub(super) created_at: Micros,
    pub(super) started_at: Option<Micros>,
    pub(super) finished_at: Option<Micros>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) name: String,
    /// As the API calls it, for requests.
    pub(super) id: String,
    pub(super) status: String,
    pub(super) attempt: i64,
    pub(super) max_attempts: i64,
    pub(super) started_at: Option<Micros>,
    pub(super) finished_at: Option<Micros>,
    pub(super) worker: String,
    /// What it waits for, or how it failed.
    pub(super) words: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) hostname: String,
    pub(super) status: String,
    pub(super) queues: String,
    pub(super) slots: i64,
    pub(super) running: i64,
    pub(super) beat_at: Micros,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) attempt: i64,
    pub(super) is_error: bool,
    pub(super) text: String,
}

impl From<&Value> for Run {
    fn from(value: &Value) -> Self {
        let cancelling = value["cancelling"].as_bool().unwrap_or(false);
        let progress = &value["progress"];
        Self {
            id: text(&value["id"]),
            workflow: text(&value["workflow"]),
            namespace: text(&value["namespace"]),
            version: number(&value["version"]),
            status: if cancelling { "cancelling".into() } else { text(&value["status"]) },
            progress: progress.is_object().then(|| (number(&progress["ended"]), number(&progress["total"]))),
            trigger: text(&value["trigger"]["kind"]),
            created_at: instant(&value["created_at"]).unwrap_or(0),
            started_at: instant(&value["started_at"]),
            finished_at: instant(&value["finished_at"]),
        }
    }
}

impl Run {
    pub(super) fn is_open(&self) -> bool {
        !self.status.parse::<RunState>().is_ok_and(RunState::is_terminal)
    }
}

impl From<&Value> for Task {
    fn from(value: &Value) -> Self {
        let mut words: Vec<String> = value["blocked_by"].as_array().into_iter().flatten().map(text).collect();
        let error = text(&value["error"]);
        if !error.is_empty() {
            words.insert(0, error);
        }
        Self {
            name: text(&value["task_id"]),
            id: value["id"].as_str().unwrap_or_default().to_owned(),
            status: text(&value["status"]),
            attempt: number(&value["attempt"]),
            max_attempts: number(&value["max_attempts"]),
            started_at: instant(&value["started_at"]),
            finished_at: instant(&value["finished_at"]),
            worker: text(&value["worker_id"]),
            words,
        }
    }
}

impl Task {
    pub(super) fn is_over(&self) -> bool {
        self.status.parse::<TaskState>().is_ok_and(TaskState::is_terminal)
    }
}

impl From<&Value> for Worker {
    fn from(value: &Value) -> Self {
        let queues: Vec<String> = value["queues"].as_array().into_iter().flatten().map(text).collect();
        Self {
            name: text(&value["id"]),
            hostname: text(&value["hostname"]),
            status: text(&value["status"]),
            queues: if queues.is_empty() { "every queue".into() } else { queues.join(" ") },
            slots: number(&value["slots"]),
            running: number(&value["running"]),
            beat_at: instant(&value["last_heartbeat"]).unwrap_or(0),
        }
    }
}

impl From<&Value> for LogLine {
    fn from(value: &Value) -> Self {
        Self {
            attempt: number(&value["attempt"]),
            is_error: value["stream"] == "stderr",
            text: text(&value["message"]),
        }
    }
}

/// The `items` of a list.
pub(super) fn items<T: for<'v> From<&'v Value>>(list: &Value) -> Vec<T> {
    list["items"].as_array().into_iter().flatten().map(T::from).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map(plain).unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn instant(value: &Value) -> Option<Micros> {
    time::parse(value.as_str()?)
}
