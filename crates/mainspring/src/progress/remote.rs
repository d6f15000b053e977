//! A run as a server shows it.
//!
//! The server's live updates say when there is something to look at; what is shown is read from the run, its tasks and
//! their logs, which leave nothing out. Updates that are cut or refused only make the looks rarer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use mainspring_core::work::{LogLine, LogStream};
use mainspring_core::{Micros, RunId, TaskKey, time};
use mainspring_store::{AttemptRow, LogCursor, RunSummary, TaskRunRow};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::caches::RunCaches;
use super::source::Printed;
use crate::api::{Connection, items, strange};
use crate::failure::{Exit, Result};

/// Between two looks, at least.
const SHORTEST: Duration = Duration::from_millis(200);
/// A look even without an event.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);
/// How long a server that answered before may be away.
const PATIENCE: Duration = Duration::from_secs(30);
const BEFORE_ASKING_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Remote {
    api: Arc<Connection>,
    run: RunId,
    woken: Arc<Notify>,
    /// How often it was looked at, which stands for the number of the run's last event.
    looks: AtomicI64,
    listener: JoinHandle<()>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Remote {
    pub(super) fn new(api: Connection, run: RunId) -> Self {
        let (api, woken) = (Arc::new(api), Arc::new(Notify::new()));
        let listener = tokio::spawn(listen(api.clone(), run, woken.clone()));
        Self { api, run, woken, looks: AtomicI64::new(0), listener }
    }

    pub(super) fn run(&self) -> RunId {
        self.run
    }

    pub(super) async fn rest(&self, pause: Duration) {
        tokio::time::sleep(pause.max(SHORTEST)).await;
        let _ = tokio::time::timeout(LOOK_ANYWAY, self.woken.notified()).await;
    }

    pub(super) async fn summary(&self) -> Result<RunSummary> {
        let run = self.run.to_string();
        let shown = self.patiently(async || self.api.get(&["workflow-runs", &run], &[]).await).await?;
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        summary(&shown, look).ok_or_else(strange)
    }

    pub(super) async fn task_runs(&self) -> Result<Vec<TaskRunRow>> {
        let run = self.run.to_string();
        let query = [("run", Some(run.as_str()))];
        let rows = self.patiently(async || self.api.all(&["task-runs"], &query).await).await?;
        rows.iter().map(task_run).collect::<Option<_>>().ok_or_else(strange)
    }

    pub(super) async fn caches(&self) -> Result<RunCaches> {
        let run = self.run.to_string();
        let query = [("run", Some(run.as_str()))];
        let rows = self.patiently(async || self.api.all(&["task-runs"], &query).await).await?;
        Ok(RunCaches::shown(&rows))
    }

    pub(super) async fn attempts(&self, key: TaskKey) -> Result<Vec<AttemptRow>> {
        let path = ["workflow-runs", &self.run.to_string(), "tasks", &key.to_string()];
        let shown = self.patiently(async || self.api.get(&path, &[]).await).await?;
        let history = shown["attempt_history"].as_array().map_or(&[][..], Vec::as_slice);
        history.iter().map(attempt).collect::<Option<_>>().ok_or_else(strange)
    }

    pub(super) async fn printed(&self, key: TaskKey, attempt: Option<i32>, after: LogCursor) -> Result<Printed> {
        let path = ["workflow-runs", &self.run.to_string(), "tasks", &key.to_string(), "logs"];
        let (attempt, after) = (attempt.map(|one| one.to_string()), format!("{}.{}", after.attempt, after.chunk));
        let query = [("attempt", attempt.as_deref()), ("after", Some(after.as_str()))];
        let page = self.patiently(async || self.api.get(&path, &query).await).await?;
        printed(&page).ok_or_else(strange)
    }

    /// Once the run was seen, a server that is away for a moment is waited for.
    async fn patiently<T>(&self, ask: impl AsyncFn() -> Result<T>) -> Result<T> {
        let patience = if self.looks.load(Ordering::Relaxed) > 0 { PATIENCE } else { Duration::ZERO };
        patiently(patience, BEFORE_ASKING_AGAIN, ask).await
    }

    pub(super) async fn task_names(&self) -> Result<Vec<String>> {
        let run = self.api.get(&["workflow-runs", &self.run.to_string()], &[]).await?;
        let workflow = run["workflow_id"].as_str().ok_or_else(strange)?;
        let version = run["version"].to_string();
        let graph = self.api.get(&["workflows", workflow, "graph"], &[("version", Some(&version))]).await?;
        let nodes = graph["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        nodes.iter().map(|node| text(node, "task")).collect::<Option<_>>().ok_or_else(strange)
    }
}

/// Asks again while the server does not answer, up to this long.
async fn patiently<T>(patience: Duration, pause: Duration, ask: impl AsyncFn() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match ask().await {
            Err(failure) if failure.exit == Exit::Unreachable && began.elapsed() < patience => {
                tokio::time::sleep(pause).await;
            }
            answer => return answer,
        }
    }
}

/// Rings whenever the server tells something about the run.
async fn listen(api: Arc<Connection>, run: RunId, woken: Arc<Notify>) {
    let run = run.to_string();
    let query = [("run", Some(run.as_str())), ("types", Some("workflow_status,task_status,log"))];
    loop {
        if let Ok(Some(mut events)) = api.events(&["events", "stream"], &query).await {
            while events.next().await.is_some() {
                woken.notify_one();
            }
        }
        tokio::time::sleep(BEFORE_ASKING_AGAIN).await;
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().map(str::to_owned)
}

fn instant(value: &Value, field: &str) -> Option<Micros> {
    value[field].as_str().and_then(time::parse)
}

fn number<T: TryFrom<i64>>(value: &Value, field: &str) -> Option<T> {
    value[field].as_i64().and_then(|number| T::try_from(number).ok())
}

fn summary(shown: &Value, seq: i64) -> Option<RunSummary> {
    Some(RunSummary {
        id: text(shown, "id")?.parse().ok()?,
        // Numbers of the store mean nothing here.
        version: 0,
        open_tasks: 0,
        seq,
        version_number: number(shown, "version")?,
        workflow_id: text(shown, "workflow_id")?.parse().ok()?,
        namespace: text(shown, "namespace")?,
        workflow: text(shown, "workflow")?,
        state: text(shown, "status")?.parse().ok()?,
        priority: number(shown, "priority")?,
        generation: number(shown, "generation")?,
        created_at: instant(shown, "created_at")?,
        started_at: instant(shown, "started_at"),
        finished_at: instant(shown, "finished_at"),
        cancelling: shown["cancelling"] == true,
        timed_out: shown["timed_out"] == true,
    })
}

fn task_run(shown: &Value) -> Option<TaskRunRow> {
    Some(TaskRunRow {
        key: text(shown, "id")?.parse().ok()?,
        state: text(shown, "status")?.parse().ok()?,
        generation: 0,
        attempt: number(shown, "attempt")?,
        failures: 0,
        max_failures: number(shown, "max_attempts"),
        lost: 0,
        session: None,
        due_at: instant(shown, "next_retry_at"),
        started_at: instant(shown, "started_at"),
        finished_at: instant(shown, "finished_at"),
        seq: None,
        exit_code: number(shown, "exit_code"),
        error_kind: None,
        error: text(shown, "error"),
        detail: text(shown, "error_stack"),
        output: shown.get("output").filter(|output| !output.is_null()).cloned(),
    })
}

fn attempt(shown: &Value) -> Option<AttemptRow> {
    Some(AttemptRow {
        attempt: number(shown, "attempt")?,
        outcome: match shown["outcome"].as_str()? {
            "failed" => 0,
            "lost" => 1,
            _ => 2,
        },
        session: None,
        seq: 0,
        started_at: instant(shown, "started_at"),
        finished_at: instant(shown, "finished_at")?,
        exit_code: number(shown, "exit_code"),
        error_kind: None,
        error: text(shown, "error"),
        detail: text(shown, "error_stack"),
    })
}

fn printed(page: &Value) -> Option<Printed> {
    let (attempt, chunk) = page["after"].as_str()?.split_once('.')?;
    let mut parts: Vec<(i32, Vec<LogLine>)> = Vec::new();
    for item in items(page) {
        let attempt = number(item, "attempt")?;
        let stream = match item["stream"].as_str()? {
            "stderr" => LogStream::Stderr,
            "system" => LogStream::System,
            _ => LogStream::Stdout,
        };
        let line = LogLine { at: instant(item, "timestamp")?, stream, text: text(item, "message")? };
        match parts.last_mut() {
            Some((last, lines)) if *last == attempt => lines.push(line),
            _ => parts.push((attempt, vec![line])),
        }
    }
    Some(Printed {
        parts,
        after: LogCursor { attempt: attempt.parse().ok()?, chunk: chunk.parse().ok()? },
        is_last: page["next"].is_null(),
    })
}

#[cfg(test)]
mod tests {
    use mainspring_core::state::TaskState;
    use serde_json::json;

    use super::*;
    use crate::failure::Failure;

    #[tokio::test]
    async fn who_is_away_for_a_moment_is_asked_again() {
        let asked = AtomicI64::new(0);
        let ask = async |failure: fn(&str) -> Failure| match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(failure("no")),
            nth => Ok(nth),
        };
        let away = async || ask(|text| Failure::unreachable(text)).await;
        let wrong = async || ask(|text| Failure::bad_input(text)).await;
        assert_eq!(patiently(Duration::ZERO, Duration::ZERO, &away).await.unwrap_err().exit, Exit::Unreachable);
        assert_eq!(patiently(PATIENCE, Duration::ZERO, &wrong).await.unwrap_err().exit, Exit::BadInput);
        asked.store(0, Ordering::Relaxed);
        assert_eq!(patiently(PATIENCE, Duration::ZERO, &away).await.unwrap(), 2);
    }

    #[test]
    fn what_a_server_shows_is_read_back() {
        let run = "01900000-0000-7000-8000-000000000000";
        let row = task_run(&json!({
            "id": format!("{run}.2.7"), "status": "retrying", "attempt": 3, "max_attempts": 5, "exit_code": null,
            "next_retry_at": "2026-01-31T08:00:00Z", "output": null, "error": "no", "started_at": null
        }))
        .unwrap();
        assert_eq!((row.key.index, row.key.item, row.state), (2, 7, TaskState::Retrying));
        assert_eq!((row.attempt, row.max_failures, row.exit_code), (3, Some(5), None));
        assert!(row.due_at.is_some() && row.output.is_none() && row.started_at.is_none());
        assert!(task_run(&json!({"id": "x", "status": "retrying", "attempt": 1})).is_none());
    }

    #[test]
    fn lines_keep_their_attempt() {
        let line = |attempt: i32, message: &str| json!({"attempt": attempt, "timestamp": "2026-01-31T08:00:00Z", "stream": "stderr", "message": message});
        let page = json!({"items": [line(1, "a"), line(1, "b"), line(2, "c")], "after": "2.4", "next": null});
        let printed = printed(&page).unwrap();
        let counts: Vec<(i32, usize)> = printed.parts.iter().map(|(attempt, lines)| (*attempt, lines.len())).collect();
        assert_eq!(counts, [(1, 2), (2, 1)]);
        assert_eq!((printed.after.attempt, printed.after.chunk, printed.is_last), (2, 4, true));
    }
}
