//! What starts runs of a workflow.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Micros;
use crate::state::{UnknownState, coded_enum};
use crate::trace::TraceContext;

use super::{Overlap, Task};

pub const DEFAULT_TIMEZONE: &str = "UTC";

/// One entry of `triggers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Unique in the workflow. Unless given: [`crate::schedule::identity`], with a number behind it from the second of
    /// those that fire alike on.
    pub id: String,
    pub source: TriggerSource,
    /// Of a cron trigger: the name of a zone in the tz database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catchup: Option<Catchup>,
    /// Wins over the workflow's for the fires of this trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Each fire is late by a random time up to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    /// The calendar whose days it leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// Templates over `event`, `run` and `workflow`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<String, Value>,
    /// It does not fire before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Micros>,
    /// It does not fire at or after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Micros>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_executions: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Debounce>,
    /// What a poll executes and how it recognises what it finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Box<Poll>>,
    /// An expression (without braces) over `event` and `workflow`.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Overrides the workflow's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Of a job that is executed once: the span that it was made in. Its run belongs there.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "traceparent")]
    pub trace: Option<TraceContext>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerSource {
    /// Five fields, or six with seconds before.
    Cron(String),
    /// Milliseconds, counted from `start` or from when the trigger was made.
    Every(u64),
    At(Micros),
    /// The name of an event; one `*` at its end stands for any rest.
    Event(String),
    /// The name under which it is called.
    Webhook(String),
    /// A run of another workflow ended.
    Workflow {
        name: String,
        /// That of this workflow unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// Never empty.
        on: Vec<RunEnd>,
    },
    /// Milliseconds between two checks, counted like those of `every`; [`Trigger::poll`] says what is checked.
    Poll(u64),
    /// Only by hand; it gives a set of inputs a name.
    Manual,
}

coded_enum! {
    /// How a run ended, for those who wait for it.
    RunEnd("end of a run") {
        Success = 3 "success",
        Failed = 4 "failed",
        Cancelled = 5 "cancelled",
    }
}

coded_enum! {
    /// Which of the fires that were missed are made up for.
    CatchupPolicy("catchup policy") {
        None = 0 "none",
        Latest = 1 "latest",
        All = 2 "all",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catchup {
    pub policy: CatchupPolicy,
    /// Older fires are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// The most at once, the latest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

/// Events that follow each other within the window start one run, with the last of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debounce {
    pub window_ms: u64,
    /// A template over `event`; events with different keys do not wait for each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The check of a poll. A run is started once for every key that it finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Poll {
    /// An expression (without braces) over `event` and `workflow`.
    pub key: String,
    /// A script or a request; its output is `event.data`.
    pub task: Task,
}

impl TriggerSource {
    /// The kind key as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cron(_) => "cron",
            Self::Every(_) => "every",
            Self::At(_) => "at",
            Self::Event(_) => "event",
            Self::Webhook(_) => "webhook",
            Self::Workflow { .. } => "workflow",
            Self::Poll(_) => "poll",
            Self::Manual => "manual",
        }
    }

    /// Whether the clock fires it.
    pub fn is_scheduled(&self) -> bool {
        matches!(self, Self::Cron(_) | Self::Every(_) | Self::At(_) | Self::Poll(_))
    }

    /// Whether its past instants can be made up for by a backfill. What a poll would have found then is not known.
    pub fn has_past(&self) -> bool {
        self.is_scheduled() && !matches!(self, Self::Poll(_))
    }
}
