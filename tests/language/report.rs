//! What became of a run, as text: its state, its task runs, the runs it started, its outputs and its dead letters.
//!
//! `a: failed x3 [handler, handler] handler: failed on purpose = {"output":1}`: state, number of the last attempt (unless it
//! is the usual one), how the earlier attempts went, error, output. Items that look the same are one line. Ids are `RUN`,
//! times are `TIME`.

use std::sync::LazyLock;

use mainspring_core::RunId;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::workflow::Workflow;
use mainspring_engine::Client;
use mainspring_store::TaskRunRow;
use regex::Regex;

/// Longer errors and outputs are cut off.
const LONGEST: usize = 240;

static ID: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is one")
}

pub(crate) fn redacted(text: &str) -> String {
    TIME.replace_all(&ID.replace_all(text, "RUN"), "TIME").into_owned()
}

/// The run and, below it, those that it started.
pub(crate) async fn describe(client: &Client, run: RunId) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    Box::pin(describe_into(client, run, 0, &mut lines)).await?;
    Ok(lines.join("\n"))
}

async fn describe_into(client: &Client, run: RunId, depth: usize, lines: &mut Vec<String>) -> anyhow::Result<()> {
    let store = client.store();
    let summary = store.run_summary(run).await?;
    let spec = client.spec(summary.version).await?;
    let indent = "  ".repeat(depth);
    match depth {
        0 => lines.push(summary.state.to_string()),
        _ => lines.push(format!("{}→ {} {}", "  ".repeat(depth - 1), summary.workflow, summary.state)),
    }
    let waits = store.waits_of_run(run).await?;
    let mut rows = Vec::new();
    for row in store.task_runs(run).await? {
        rows.push((row.key, task_line(client, &spec.workflow, &row).await?));
    }
    let child = |key| waits.iter().find(|wait| wait.key == key).and_then(|wait| wait.child);
    let mut rest = rows.as_slice();
    while let Some(((key, line), mut after)) = rest.split_first() {
        let mut last = key.item;
        while let Some(((next, same), more)) = after.split_first() {
            if next.index != key.index || next.item < 1 || same != line || child(*key).is_some() {
                break;
            }
            (last, after) = (next.item, more);
        }
        let item = match key.item {
            -1 => String::new(),
            first if first == last => format!("[{first}]"),
            first => format!("[{first}-{last}]"),
        };
        lines.push(format!("{indent}{}{item}: {line}", spec.workflow.tasks[key.index as usize].name));
        if let Some(child) = child(*key) {
            Box::pin(describe_into(client, child, depth + 1, lines)).await?;
        }
        rest = after;
    }
    if summary.state == RunState::Success && !spec.workflow.outputs.is_empty() {
        match client.outputs(run).await? {
            Ok(outputs) => lines.push(format!("{indent}outputs {}", serde_json::to_string(&outputs)?)),
            Err(failure) => lines.push(format!("{indent}no outputs: {}", failure.message)),
        }
    }
    match store.pending_dead_letters(run).await? {
        0 => {}
        count => lines.push(format!("{indent}dead letters {count}")),
    }
    Ok(())
}

async fn task_line(client: &Client, workflow: &Workflow, row: &TaskRunRow) -> anyhow::Result<String> {
    let mut line = row.state.to_string();
    let usual = match row.state {
        TaskState::Skipped | TaskState::UpstreamFailed | TaskState::Cancelled => 0,
        _ => 1,
    };
    if row.attempt != usual {
        line.push_str(&format!(" x{}", row.attempt));
    }
    let single = row.key.item < 0 || workflow.tasks[row.key.index as usize].foreach.is_none() || row.attempt > 1;
    if single {
        let earlier: Vec<String> = client
            .store()
            .attempts(row.key)
            .await?
            .into_iter()
            .map(|attempt| match attempt.outcome {
                0 => attempt.error_kind.unwrap_or_else(|| "failed".into()),
                1 => "lost".into(),
                _ => "released".into(),
            })
            .collect();
        if !earlier.is_empty() {
            line.push_str(&format!(" [{}]", earlier.join(", ")));
        }
    }
    if let Some(error) = &row.error {
        line.push_str(&format!(" {}: {}", row.error_kind.as_deref().unwrap_or("?"), short(error).replace('\n', " | ")));
    }
    if let Some(output) = &row.output {
        line.push_str(&format!(" = {}", short(&output.to_string())));
    }
    Ok(line)
}

fn short(text: &str) -> String {
    redacted(text).chars().take(LONGEST).collect()
}
