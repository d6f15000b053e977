//! The validated workflow: what a version stores and everything else works from.
//!
//! A `Workflow` is made by parsing and validating a text (or read back from a stored version, which was made so).
//! Tasks are addressed by index: main tasks first, in the order written, then `on_failure`, `on_success` and
//! `finally`.

mod action;
mod cache;
mod files;
mod notification;
mod poll;
mod process;
mod trigger;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::retry::{OnExhausted, Retry};
use crate::rule::TriggerRule;
use crate::state::{UnknownState, coded_enum};

pub use action::{
    Action, Approval, BodyExpect, Child, DEFAULT_REDIRECTS, Http, HttpAuth, HttpBody, HttpExpect, MAX_RESPONSE_BYTES,
    OnTimeout, StatusRange, Step, Wait,
};
pub use cache::{CacheKind, DEFAULT_CACHE_TTL_MS, FileCache, MAX_CACHE_KEY, MAX_CACHE_TTL_MS, Reuse};
pub use files::FilesFrom;
pub use notification::{Channel, MAX_NOTIFICATIONS, Notice, Notification, NotificationSpec};
pub use poll::{CHECK_RESULT, CHECK_TASK, check_name};
pub use process::{Container, ExitCodes, ExitMeaning, OutputFrom, Pull};
pub use trigger::{Catchup, CatchupPolicy, DEFAULT_TIMEZONE, Debounce, Poll, RunEnd, Trigger, TriggerSource};

pub const DEFAULT_NAMESPACE: &str = "default";
pub const DEFAULT_QUEUE: &str = "default";
pub const DEFAULT_PRIORITY: i16 = 500;
pub const MAX_PRIORITY: i16 = 1000;
pub const DEFAULT_MAX_LOST: u16 = 5;
pub const MAX_TASKS: usize = 100_000;

coded_enum! {
    /// Which part of a run a task belongs to. A stage begins when the one before it has no open task left.
    Stage("stage") {
        Main = 0 "main",
        OnFailure = 1 "on_failure",
        OnSuccess = 2 "on_success",
        Finally = 3 "finally",
    }
}

coded_enum! {
    /// What kind of slot a task occupies; each is bounded apart. Remote tasks are executed by other programs.
    SlotClass("slot class") {
        Process = 0 "process",
        Function = 1 "function",
        Remote = 2 "remote",
    }
}

coded_enum! {
    /// What happens to a new run while the concurrency limit is used up.
    Overlap("overlap") {
        Queue = 0 "queue",
        Skip = 1 "skip",
        CancelRunning = 2 "cancel_running",
        Allow = 3 "allow",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub name: String,
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the author calls this version (key `version`); says nothing about the order of versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Anything, for other programs; null unless given.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<String, Input>,
    /// Values may hold `${{ }}`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// 0 (last) to 1000 (first).
    pub priority: i16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub lifecycle: Lifecycle,
    /// Who gets a notification when something goes wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
    /// Names of events that its tasks publish or wait for, declared for people and tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domain_events: Vec<String>,
    /// Names; the values live elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Other namespaces whose workflows, triggers and handlers may start or follow this one; `*` is any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// Paths below the workflow's own file, stored with the version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Those of `files` whose lines are variables of every script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_files: Vec<String>,
    /// Templates over everything a run has, evaluated when it ends.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub outputs: IndexMap<String, Value>,
    /// What `outputs` look at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_reads: Reads,
    /// Whether an expression looks at `run.scheduled_for`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads_schedule: bool,
    pub tasks: Vec<Task>,
}

/// How long a run may stay in a phase before it fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_dependencies_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_retry_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_in_process_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
}

/// A declared input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    #[serde(rename = "type")]
    pub kind: InputKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True when the run cannot start without it: no default was given.
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
    /// A regular expression that a text must match as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The least value of a number, or the least number of characters or members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<serde_json::Number>,
    /// The greatest value, or the greatest number of characters or members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<serde_json::Number>,
}

coded_enum! {
    InputKind("input type") {
        String = 0 "string",
        Integer = 1 "integer",
        Number = 2 "number",
        Boolean = 3 "boolean",
        Object = 4 "object",
        List = 5 "list",
        Date = 6 "date",
        Datetime = 7 "datetime",
        Duration = 8 "duration",
    }
}

/// At most `limit` runs at once that share `key`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Concurrency {
    /// A template over `inputs`; `None` means one key for the whole workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub limit: u32,
    pub overlap: Overlap,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub name: String,
    pub stage: Stage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Indexes of the tasks this one waits for, ascending, all of its own stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<i32>,
    /// The reverse of `needs`, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<i32>,
    pub rule: TriggerRule,
    /// An expression (without braces) that must be true for the task to run.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreach: Option<Foreach>,
    /// How many items of `foreach` run at once; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// An item that fails for good stops the others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_fast: bool,
    pub action: Action,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Retry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default = "default_queue", skip_serializing_if = "is_default_queue")]
    pub queue: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Overrides the run's priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    pub on_exhausted: OnExhausted,
    pub max_lost: u16,
    /// The worker's own setting unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_store_loss: Option<OnStoreLoss>,
    /// Paths or patterns below the task's directory that are kept when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Those of them that have a name, under which other tasks take them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub artifact_sets: IndexMap<String, Vec<String>>,
    /// Whose artifacts are put into its folder before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_from: Vec<FilesFrom>,
    /// Files that are kept from one run to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Box<FileCache>>,
    /// When the result of an earlier attempt stands for its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Box<Reuse>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// The image that its scripts run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<Container>>,
    /// Exit codes that are no failures.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit_codes: ExitCodes,
    /// Where the output of a script comes from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output: OutputFrom,
    /// Those of the workflow's `files` whose lines are variables of this script; they win over the workflow's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_files: Vec<String>,
    /// Emitted when it succeeds, with its output as data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publishes_events: Vec<String>,
    /// What the expressions of this task look at, `if` and `foreach` apart.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads: Reads,
    /// What `if` and `foreach` look at: both are evaluated by the decision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub condition_reads: Reads,
}

/// The list a task is repeated over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreach {
    /// Without braces.
    Expression(String),
    /// Written out; its members may hold templates.
    List(Vec<Value>),
    /// Every combination of some lists.
    Matrix(Matrix),
}

/// Lists whose members are combined. Texts may hold templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Name → list, or a text that is one template and gives a list.
    pub axes: Value,
    /// Mappings that add to the combinations they agree with, or are combinations of their own.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub include: Value,
    /// Mappings: combinations that agree with one of them are left out.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub exclude: Value,
}

/// What one attempt may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}

coded_enum! {
    /// What a worker does with a running attempt when it cannot reach the store for long.
    OnStoreLoss("on_store_loss") {
        Continue = 0 "continue",
        Kill = 1 "kill",
    }
}

/// Which parts of a run an expression needs before it can be evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// True when there is an expression at all.
    pub any: bool,
    /// Indexes of tasks whose output, status or attempts are read; all of them lie upstream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<i32>,
    /// Names of secrets whose values are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Whether `run.status`, `run.failed_tasks` or the error of a task is read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: bool,
}

impl Workflow {
    /// Indexes of the tasks of a stage; stages lie one behind the other.
    pub fn stage(&self, stage: Stage) -> std::ops::Range<usize> {
        let start = self.tasks.partition_point(|task| task.stage < stage);
        let end = self.tasks.partition_point(|task| task.stage <= stage);
        start..end
    }

    pub fn task_index(&self, name: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.name == name)
    }

    /// Whether a node must look at a task before it can start: it has `if` or `foreach`, or it never runs on a worker.
    pub fn is_decided(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        task.condition.is_some() || task.foreach.is_some() || task.action.parks()
    }

    /// How long a run may take: its `timeout` or `lifecycle.max_duration`, whichever is shorter.
    pub fn deadline_ms(&self) -> Option<u64> {
        [self.timeout_ms, self.lifecycle.max_duration_ms].into_iter().flatten().min()
    }

    /// Whether definitions of a namespace may start runs of this workflow or follow their ends.
    pub fn may_be_called_from(&self, namespace: &str) -> bool {
        self.namespace == namespace || self.callers.iter().any(|caller| caller == namespace || caller == "*")
    }

    /// The workflows of other namespaces that it calls or follows, with their places.
    pub fn crossings(&self) -> Vec<Crossing<'_>> {
        let other = |namespace: &'_ Option<String>| namespace.as_ref().is_some_and(|name| *name != self.namespace);
        let mut crossings = Vec::new();
        for task in &self.tasks {
            if let Action::Workflow(child) = &task.action
                && other(&child.namespace)
            {
                let namespace = child.namespace.as_deref().unwrap_or_default();
                let pointer = format!("/tasks/{}/workflow", task.name);
                crossings.push(Crossing { namespace, name: &child.name, follows: false, pointer });
            }
        }
        for (nth, trigger) in self.triggers.iter().enumerate() {
            if let TriggerSource::Workflow { name, namespace, .. } = &trigger.source
                && other(namespace)
            {
                let namespace = namespace.as_deref().unwrap_or_default();
                crossings.push(Crossing {
                    namespace,
                    name,
                    follows: true,
                    pointer: format!("/triggers/{nth}/workflow"),
                });
            }
        }
        crossings
    }

    /// Whether a run of it can succeed with tasks that were never executed.
    pub fn may_skip(&self) -> bool {
        self.tasks.iter().any(|task| {
            task.condition.is_some()
                || task.rule != TriggerRule::AllSuccess
                || task.stage != Stage::Main
                || !task.exit_codes.skip.is_empty()
        })
    }

    pub fn has_finalisers(&self) -> bool {
        self.tasks.last().is_some_and(|task| task.stage != Stage::Main)
    }
}

/// A workflow of another namespace that a definition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing<'a> {
    pub namespace: &'a str,
    /// May hold an expression where it is called.
    pub name: &'a str,
    /// Its ends are followed; otherwise it is called.
    pub follows: bool,
    pub pointer: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn default_queue() -> String {
    DEFAULT_QUEUE.to_owned()
}

fn is_default_queue(queue: &str) -> bool {
    queue == DEFAULT_QUEUE
}
