//! What the tasks of a run found by the keys of `reuse` and `cache`.

use std::collections::HashMap;

use mainspring_api::runs::CacheUse;
use mainspring_core::workflow::CacheKind;
use mainspring_core::{TaskKey, Workflow};
use mainspring_store::TaskRunRow;
use serde_json::Value;

use crate::views;

/// Of one task run.
#[derive(Debug, Default)]
pub(crate) struct TaskCaches {
    pub(crate) reuse: Option<CacheUse>,
    pub(crate) cache: Option<CacheUse>,
}

/// Of the task runs that looked for something.
#[derive(Debug, Default)]
pub(crate) struct RunCaches(HashMap<TaskKey, TaskCaches>);

impl RunCaches {
    /// Whether there can be any: a task has `reuse` or `cache`.
    pub(crate) fn are_used(workflow: &Workflow) -> bool {
        workflow.tasks.iter().any(|task| task.reuse.is_some() || task.cache.is_some())
    }

    /// Of the last attempt of each task run.
    pub(crate) fn stored(uses: Vec<mainspring_store::CacheUse>) -> Self {
        let mut all: HashMap<TaskKey, TaskCaches> = HashMap::new();
        for one in uses {
            let run_id = one.source.map(|source| source.key.run);
            let shown = Some(CacheUse { key: one.key, hit: run_id.is_some(), run_id });
            let task = all.entry(one.task_run).or_default();
            match one.kind {
                CacheKind::Result => task.reuse = shown,
                CacheKind::Files => task.cache = shown,
            }
        }
        Self(all)
    }

    /// As a server shows them.
    pub(crate) fn shown(tasks: &[Value]) -> Self {
        let read = |task: &Value, field: &str| serde_json::from_value(task[field].clone()).ok().flatten();
        let of = |task: &Value| {
            let key: TaskKey = task["id"].as_str()?.parse().ok()?;
            Some((key, TaskCaches { reuse: read(task, "reuse"), cache: read(task, "cache") }))
        };
        Self(tasks.iter().filter_map(of).collect())
    }

    pub(crate) fn of(&self, key: TaskKey) -> Option<&TaskCaches> {
        self.0.get(&key)
    }

    /// One line per task run that looked for something, in the order of the rows.
    pub(crate) fn lines(&self, rows: &[TaskRunRow], workflow: &Workflow) -> Vec<String> {
        let described = |row: &TaskRunRow| {
            let words = self.of(row.key).map(|task| words(task.reuse.as_ref(), task.cache.as_ref()))?;
            (!words.is_empty()).then(|| format!("{}: {words}", views::task_name(workflow, row)))
        };
        rows.iter().filter_map(described).collect()
    }
}

/// `reuse hit (key k), cache miss (key m)`.
pub(crate) fn words(reuse: Option<&CacheUse>, cache: Option<&CacheUse>) -> String {
    let mut parts = Vec::new();
    if let Some(CacheUse { key, hit, .. }) = reuse {
        parts.push(format!("{} (key {key})", if *hit { "reuse hit" } else { "reuse miss" }));
    }
    if let Some(CacheUse { key, hit, .. }) = cache {
        parts.push(format!("{} (key {key})", if *hit { "cache hit" } else { "cache miss" }));
    }
    parts.join(", ")
}
