//! Asking the API for what is shown.

use std::collections::HashSet;
use std::time::Duration;

use mainspring_core::Micros;
use mainspring_core::time::rfc3339;
use serde_json::Value;

use super::model::{Act, Count, LogPart, Look, MOST_LINES, Wanted};
use super::shapes::{self, LogLine, Run};
use crate::api::Connection;
use crate::failure::{Failure, Result};

/// How many runs of each kind are shown.
const MOST: &str = "100";
const MOST_TASKS: &str = "500";
/// How many pieces of a long log are read before they are shown.
const LOG_PARTS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(15);
const DAY: Micros = 86_400_000_000;
/// Open runs are counted as they are, ended ones of the last day.
const COUNTED: [(&str, bool); 6] = [
    ("running", false),
    ("pending", false),
    ("paused", false),
    ("success", true),
    ("failed", true),
    ("cancelled", true),
];

/// Looks, but not for ever. With `counts`, runs are counted too.
pub(super) async fn look(api: &Connection, wanted: &Wanted, counts: bool, now: Micros) -> Result<Look> {
    let looking = async {
        match wanted {
            Wanted::Runs => runs(api, counts, now).await,
            Wanted::Run { id, task, after } => run(api, id, task.as_deref(), after.as_deref()).await,
        }
    };
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(look) => look,
        Err(_) => Err(Failure::unreachable(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// Does what was asked for, and tells in words what came of it.
pub(super) async fn act(api: &Connection, act: Act, run: &str) -> Result<String> {
    let (path, words) = match act {
        Act::Cancel => ("cancel", "is being cancelled"),
        Act::Retry => ("retry", "does its failed tasks again"),
    };
    let shown = api.send("POST", &["workflow-runs", run, path], &[], None).await?;
    let shown = Run::from(&shown);
    Ok(format!("the run of {} {words}", shown.workflow))
}

async fn runs(api: &Connection, counts: bool, now: Micros) -> Result<Look> {
    let list = |status: Option<&'static str>| async move {
        let query =
            [("namespace", api.namespace()), ("status", status), ("limit", Some(MOST)), ("include", Some("progress"))];
        api.get(&["workflow-runs"], &query).await
    };
    let (recent, running, pending, paused) =
        tokio::try_join!(list(None), list(Some("running")), list(Some("pending")), list(Some("paused")))?;
    let mut seen = HashSet::new();
    let mut runs: Vec<Run> = [&running, &paused, &pending, &recent]
        .into_iter()
        .flat_map(shapes::items::<Run>)
        .filter(|run| seen.insert(run.id.clone()))
        .collect();
    // Ids carry the time at which they were made.
    runs.sort_by(|one, other| rank(one).cmp(&rank(other)).then_with(|| other.id.cmp(&one.id)));
    let workers = api.get(&["workers"], &[("limit", Some(MOST))]).await?;
    let counts = if counts { Some(count(api, now).await?) } else { None };
    Ok(Look::Runs { runs, workers: shapes::items(&workers), counts })
}

/// What runs first, then what waits, then what is over.
fn rank(run: &Run) -> u8 {
    match run.status.as_str() {
        "running" | "cancelling" => 0,
        "paused" => 1,
        _ if run.is_open() => 2,
        _ => 3,
    }
}

async fn count(api: &Connection, now: Micros) -> Result<Vec<Count>> {
    let since = rfc3339(now - DAY);
    let mut counts = Vec::with_capacity(COUNTED.len());
    for (status, is_recent) in COUNTED {
        let query = [
            ("namespace", api.namespace()),
            ("status", Some(status)),
            ("since", is_recent.then_some(since.as_str())),
            ("limit", Some("1")),
            ("count", Some("true")),
        ];
        let list = api.get(&["workflow-runs"], &query).await?;
        counts.push(Count { status, runs: list["total"].as_i64().unwrap_or(0), is_recent });
    }
    Ok(counts)
}

async fn run(api: &Connection, id: &str, task: Option<&str>, after: Option<&str>) -> Result<Look> {
    let run = api.get(&["workflow-runs", id], &[]).await?;
    let tasks = api.get(&["workflow-runs", id, "tasks"], &[("limit", Some(MOST_TASKS))]).await?;
    let log = match task {
        Some(task) => Some(log(api, id, task, after).await?),
        None => None,
    };
    let has_more = !tasks["next"].is_null();
    Ok(Look::Run { run: Box::new(Run::from(&run)), tasks: shapes::items(&tasks), has_more, log })
}

async fn log(api: &Connection, run: &str, task: &str, from: Option<&str>) -> Result<LogPart> {
    let mut part =
        LogPart { task: task.to_owned(), from: from.map(str::to_owned), after: from.map(str::to_owned), lines: vec![] };
    for _ in 0..LOG_PARTS {
        let query = [("after", part.after.as_deref())];
        let logs = api.get(&["workflow-runs", run, "tasks", task, "logs"], &query).await?;
        part.lines.extend(shapes::items::<LogLine>(&logs));
        let surplus = part.lines.len().saturating_sub(MOST_LINES);
        part.lines.drain(..surplus);
        part.after = logs["after"].as_str().map(str::to_owned).or(part.after);
        if logs.get("next").is_none_or(Value::is_null) {
            break;
        }
    }
    Ok(part)
}
