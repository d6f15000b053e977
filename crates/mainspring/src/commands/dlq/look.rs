//! Looking at entries, causes, statistics and staleness.

use clap::Args;
use mainspring_core::RunId;
use mainspring_core::diagnostic::quoted;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde_json::{Value, json};

use super::ListArgs;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::{check_run, find_run, looks_like_id, several_match, short_length, shortened};
use crate::output::{Format, Paint, Table, local_text};
use crate::views::text;

impl ListArgs {
    async fn fetch(&self, api: &Connection, path: &[&str]) -> Result<Value> {
        let query = [
            ("status", self.status.as_deref()),
            ("reason", self.reason.as_deref()),
            ("workflow", self.workflow.as_deref()),
            ("fingerprint", self.group.as_deref()),
            ("namespace", api.namespace()),
            ("limit", Some(self.limit.as_str())),
        ];
        api.get(path, &query).await
    }
}

fn rows(found: &Value) -> &[Value] {
    found["items"].as_array().map_or(&[], Vec::as_slice)
}

/// Prints rows as a table, or everything as it came.
fn print(
    app: &App<'_>,
    found: &Value,
    none: &str,
    header: &'static [&'static str],
    row: impl Fn(&Value) -> Vec<(String, Option<Paint>)>,
) -> Result {
    match app.out.record_format() {
        Format::Table if rows(found).is_empty() => app.out.note(none),
        Format::Table => {
            let mut table = Table::new(header);
            for one in rows(found) {
                table.row(row(one));
            }
            table.print(app.out);
        }
        format => app.out.value(format, found),
    }
    Ok(Exit::Success)
}

fn plain(cells: Vec<String>) -> Vec<(String, Option<Paint>)> {
    cells.into_iter().map(|cell| (cell, None)).collect()
}

/// With its namespace, unless that is the usual one.
fn workflow_name(one: &Value) -> String {
    match text(one, "namespace") {
        DEFAULT_NAMESPACE => text(one, "workflow").to_owned(),
        namespace => format!("{namespace}/{}", text(one, "workflow")),
    }
}

fn status_paint(status: &str) -> Option<Paint> {
    Some(match status {
        "pending" | "stale" => Paint::Red,
        "permanent_failure" | "cancelled" | "warning" => Paint::Yellow,
        _ => Paint::Green,
    })
}

pub(super) async fn list(app: &App<'_>, api: &Connection, args: &ListArgs) -> Result {
    const HEADER: &[&str] = &["ID", "STATUS", "REASON", "WORKFLOW", "TASK", "ATTEMPTS", "SINCE", "ERROR"];
    let found = args.fetch(api, &["dlq"]).await?;
    let length = short_length(rows(&found).iter().map(|one| text(one, "id")));
    print(app, &found, "no dead letters", HEADER, |one| {
        let mut cells = plain(vec![
            shortened(text(one, "id"), length).into(),
            text(one, "resolution_status").into(),
            text(one, "dlq_reason").into(),
            workflow_name(one),
            text(one, "task_name").into(),
            one["total_attempts"].to_string(),
            local_text(text(one, "created_at")),
            text(one, "error_message").into(),
        ]);
        cells[1].1 = status_paint(text(one, "resolution_status"));
        cells
    })
}

pub(super) async fn queue(app: &App<'_>, api: &Connection, args: &ListArgs) -> Result {
    const HEADER: &[&str] = &["SCORE", "ID", "REASON", "WORKFLOW", "TASK", "MINUTES", "ERROR"];
    let found = args.fetch(api, &["dlq", "investigation-queue"]).await?;
    let length = short_length(rows(&found).iter().map(|one| text(one, "dlq_entry_id")));
    print(app, &found, "nothing waits for a person", HEADER, |one| {
        plain(vec![
            one["priority_score"].to_string(),
            shortened(text(one, "dlq_entry_id"), length).into(),
            text(one, "dlq_reason").into(),
            workflow_name(one),
            text(one, "task_name").into(),
            one["minutes_in_dlq"].to_string(),
            text(one, "error_message").into(),
        ])
    })
}

pub(super) async fn groups(app: &App<'_>, api: &Connection, args: &ListArgs) -> Result {
    const HEADER: &[&str] =
        &["FINGERPRINT", "COUNT", "WORKFLOW", "TASK", "ERROR", "FIRST", "LAST", "HISTOGRAM", "MESSAGE"];
    let found = args.fetch(api, &["dlq", "groups"]).await?;
    print(app, &found, "no dead letters", HEADER, |one| {
        plain(vec![
            text(one, "fingerprint").into(),
            one["count"].to_string(),
            workflow_name(one),
            text(one, "task_name").into(),
            text(one, "error_type").into(),
            local_text(text(one, "first_seen")),
            local_text(text(one, "last_seen")),
            bars(&one["histogram"]),
            text(one, "message").into(),
        ])
    })
}

/// A histogram on one line.
fn bars(histogram: &Value) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let counts: Vec<i64> = histogram
        .as_array()
        .map_or_else(Vec::new, |bars| bars.iter().map(|bar| bar["count"].as_i64().unwrap_or(0)).collect());
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let level = |count: &i64| match *count {
        0 => ' ',
        count => LEVELS[usize::try_from((count * 7 + most - 1) / most).unwrap_or(7).min(7)],
    };
    counts.iter().map(level).collect()
}

pub(super) async fn stats(app: &App<'_>, api: &Connection) -> Result {
    const HEADER: &[&str] =
        &["REASON", "TOTAL", "PENDING", "RETRIED", "SKIPPED", "RESOLVED", "PERMANENT", "CANCELLED", "OLDEST"];
    let found = api.get(&["dlq", "stats"], &[("namespace", api.namespace())]).await?;
    match app.out.record_format() {
        Format::Table => {
            let age = found["oldest_pending_age_seconds"].as_f64();
            let age = age.map_or(String::new(), |age| format!(", the oldest for {} minutes", (age / 60.0).round()));
            app.out.line(format_args!("{} pending{age}", found["pending_count"]));
            let mut table = Table::new(HEADER);
            let keys = [
                "total_entries",
                "pending",
                "retried",
                "skipped",
                "manually_resolved",
                "permanent_failures",
                "cancelled",
            ];
            for line in found["by_reason"].as_array().map_or(&[][..], Vec::as_slice) {
                let mut cells = vec![text(line, "dlq_reason").to_owned()];
                cells.extend(keys.iter().map(|key| line[*key].to_string()));
                cells.push(local_text(text(line, "oldest_entry")));
                table.row(plain(cells));
            }
            table.print(app.out);
        }
        format => app.out.value(format, &found),
    }
    Ok(Exit::Success)
}

/// The entry that is meant by its own id, or by that of a run or task run.
pub(super) async fn find(api: &Connection, id: &str) -> Result<Value> {
    if id.contains('.') {
        return api.get(&["dlq", "task", id], &[]).await;
    }
    if id.parse::<RunId>().is_err() {
        if check_run(id).is_err() {
            return Err(Failure::bad_input(format!(
                "{} is not the id of a dead letter, a run or a task run",
                quoted(id)
            ))
            .remedy("`mainspring dlq list` shows the ids of dead letters; @last means the newest run"));
        }
        return find_by_beginning(api, id).await;
    }
    match api.get(&["dlq", id], &[]).await {
        Ok(found) => Ok(found),
        Err(failure) => match api.get(&["dlq", "run", id], &[]).await {
            Ok(found) => Ok(found),
            Err(_) if failure.exit == Exit::BadInput => {
                Err(Failure::bad_input(format!("{id} is no dead letter, and no run or task run with this id has one"))
                    .remedy("`mainspring dlq list` shows what there is"))
            }
            Err(_) => Err(failure),
        },
    }
}

/// The entry whose id begins so, or that of the run whose id begins so.
async fn find_by_beginning(api: &Connection, beginning: &str) -> Result<Value> {
    let mut entries: Vec<Value> = Vec::new();
    if looks_like_id(beginning) {
        entries = api.all(&["dlq"], &[("namespace", api.namespace())]).await?;
        entries.retain(|entry| text(entry, "id").starts_with(&beginning.to_lowercase()));
    }
    let run = find_run(api, beginning).await.map(|run| run.to_string());
    let ids = || entries.iter().map(|entry| text(entry, "id").to_owned());
    match (entries.as_slice(), run) {
        ([], run) => api.get(&["dlq", "run", &run?], &[]).await,
        ([only], Ok(run)) if text(only, "run_id") != run => Err(several_match(beginning, ids().chain([run]))),
        ([only], _) => api.get(&["dlq", text(only, "id")], &[]).await,
        _ => Err(several_match(beginning, ids())),
    }
}

pub(super) async fn get(app: &App<'_>, api: &Connection, id: &str) -> Result {
    let entry = find(api, id).await?;
    match app.out.record_format() {
        Format::Table => {
            for key in [
                "id",
                "resolution_status",
                "dlq_reason",
                "namespace",
                "workflow",
                "task_name",
                "run_id",
                "original_state",
                "error_type",
                "error_message",
                "last_attempt_at",
                "created_at",
                "resolved_by",
                "resolved_at",
                "resolution_notes",
                "fingerprint",
            ] {
                if let Some(value) = entry[key].as_str() {
                    let value = if key.ends_with("_at") { local_text(value) } else { value.to_owned() };
                    app.out.line(format_args!("{key:18} {value}"));
                }
            }
            app.out.line(format_args!("{:18} {}", "total_attempts", entry["total_attempts"]));
            if let Some(trace) = entry["stack_trace"].as_str() {
                app.out.line(format_args!("\nlast lines\n{trace}"));
            }
            for key in ["execution_context", "task_snapshot", "metadata"] {
                if !entry[key].is_null() {
                    let shown = serde_json::to_string_pretty(&entry[key]).unwrap_or_default();
                    app.out.line(format_args!("\n{key}\n{shown}"));
                }
            }
        }
        format => app.out.value(format, &entry),
    }
    Ok(Exit::Success)
}

pub(super) async fn detect(app: &App<'_>, api: &Connection, dry_run: bool) -> Result {
    const HEADER: &[&str] = &["RUN", "WORKFLOW", "PHASE", "MINUTES", "THRESHOLD", "ACTION"];
    let body = json!({"dry_run": dry_run, "namespace": api.namespace()});
    let found = api.send("POST", &["dlq", "detect"], &[], Some(&body)).await?;
    let length = short_length(rows(&found).iter().map(|one| text(one, "run_id")));
    print(app, &found, "no stale runs", HEADER, |one| {
        plain(vec![
            shortened(text(one, "run_id"), length).into(),
            workflow_name(one),
            text(one, "current_state").into(),
            one["time_in_state_minutes"].to_string(),
            one["staleness_threshold_minutes"].to_string(),
            text(one, "action_taken").into(),
        ])
    })
}

#[derive(Debug, Args)]
pub(crate) struct StaleArgs {
    /// Only healthy, warning or stale ones
    #[arg(long, value_name = "HEALTH")]
    health: Option<String>,
    #[arg(long, value_name = "N", default_value = "100")]
    limit: String,
}

/// `mainspring stale`: open runs by how long they have gone without progress.
pub(crate) async fn stale(app: &App<'_>, args: StaleArgs) -> Result {
    const HEADER: &[&str] = &["RUN", "HEALTH", "PERCENT", "PHASE", "MINUTES", "THRESHOLD", "WORKFLOW"];
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    let query =
        [("health", args.health.as_deref()), ("namespace", api.namespace()), ("limit", Some(args.limit.as_str()))];
    let found = api.get(&["dlq", "staleness"], &query).await?;
    let length = short_length(rows(&found).iter().map(|one| text(one, "run_id")));
    print(app, &found, "no open runs", HEADER, |one| {
        let mut cells = plain(vec![
            shortened(text(one, "run_id"), length).into(),
            text(one, "health_status").into(),
            one["threshold_percentage"].to_string(),
            text(one, "current_state").into(),
            one["time_in_state_minutes"].to_string(),
            one["staleness_threshold_minutes"].to_string(),
            workflow_name(one),
        ]);
        cells[1].1 = status_paint(text(one, "health_status"));
        cells
    })
}
