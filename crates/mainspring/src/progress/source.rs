//! Where a follower looks: at the store, or through a server.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use mainspring_core::work::LogLine;
use mainspring_core::{RunId, TaskKey, Workflow};
use mainspring_engine::{Client, Spec};
use mainspring_store::{AttemptRow, LogCursor, RunSummary, TaskRunRow};

use super::caches::RunCaches;
use super::remote::Remote;
use crate::api::Connection;
use crate::failure::Result;

const CHUNKS_AT_ONCE: i64 = 64;

/// The workflow of a run: a version of the store, or as it was read elsewhere.
#[derive(Clone)]
pub(crate) enum Plan {
    Stored(Arc<Spec>),
    Read(Arc<Workflow>),
}

impl Deref for Plan {
    type Target = Workflow;

    fn deref(&self) -> &Workflow {
        match self {
            Self::Stored(spec) => &spec.workflow,
            Self::Read(workflow) => workflow,
        }
    }
}

/// One run, and a way to look at it again and again.
pub(crate) enum Source {
    Store { client: Box<Client>, run: RunId },
    Server(Remote),
}

/// What a task run printed behind a place, as far as one read goes.
pub(crate) struct Printed {
    /// Lines with the number of their attempt, in order.
    pub(crate) parts: Vec<(i32, Vec<LogLine>)>,
    pub(crate) after: LogCursor,
    pub(crate) is_last: bool,
}

impl Source {
    pub(crate) fn new(api: Connection, run: RunId) -> Self {
        match api.client() {
            Some(client) => Self::Store { client: Box::new(client.clone()), run },
            None => Self::Server(Remote::new(api, run)),
        }
    }

    pub(crate) fn run(&self) -> RunId {
        match self {
            Self::Store { run, .. } => *run,
            Self::Server(remote) => remote.run(),
        }
    }

    /// Where the run stands.
    pub(crate) async fn summary(&self) -> Result<RunSummary> {
        match self {
            Self::Store { client, run } => Ok(client.store().run_summary(*run).await?),
            Self::Server(remote) => remote.summary().await,
        }
    }

    pub(crate) async fn task_runs(&self) -> Result<Vec<TaskRunRow>> {
        match self {
            Self::Store { client, run } => Ok(client.store().task_runs(*run).await?),
            Self::Server(remote) => remote.task_runs().await,
        }
    }

    /// What its tasks found by their keys.
    pub(crate) async fn caches(&self) -> Result<RunCaches> {
        match self {
            Self::Store { client, run } => Ok(RunCaches::stored(client.store().cache_uses(*run).await?)),
            Self::Server(remote) => remote.caches().await,
        }
    }

    /// The attempts of a task run that did not end it.
    pub(crate) async fn attempts(&self, key: TaskKey) -> Result<Vec<AttemptRow>> {
        match self {
            Self::Store { client, .. } => Ok(client.store().attempts(key).await?),
            Self::Server(remote) => remote.attempts(key).await,
        }
    }

    pub(crate) async fn printed(&self, key: TaskKey, attempt: Option<i32>, after: LogCursor) -> Result<Printed> {
        match self {
            Self::Store { client, .. } => {
                let chunks = client.store().read_logs(key, attempt, after, CHUNKS_AT_ONCE).await?;
                Ok(Printed {
                    is_last: chunks.len() < CHUNKS_AT_ONCE as usize,
                    after: chunks.last().map_or(after, |(cursor, _)| *cursor),
                    parts: chunks.into_iter().map(|(cursor, lines)| (cursor.attempt, lines)).collect(),
                })
            }
            Self::Server(remote) => remote.printed(key, attempt, after).await,
        }
    }

    /// The names of the tasks, in the order of their numbers.
    pub(crate) async fn task_names(&self) -> Result<Vec<String>> {
        match self {
            Self::Store { client, run } => {
                let spec = client.spec(client.store().run_summary(*run).await?.version).await?;
                Ok(spec.workflow.tasks.iter().map(|task| task.name.clone()).collect())
            }
            Self::Server(remote) => remote.task_names().await,
        }
    }

    /// Returns when another look is worth its cost, and not before `pause`.
    pub(crate) async fn rest(&self, pause: Duration) {
        match self {
            Self::Store { .. } => tokio::time::sleep(pause).await,
            Self::Server(remote) => remote.rest(pause).await,
        }
    }
}
