//! Acting on one entry, or on everything of one cause.

use serde_json::{Value, json};

use super::look::find;
use super::{ActArgs, SendArgs, UpdateArgs};
use crate::api::Connection;
use crate::app::App;
use crate::commands::jobs::parse_json;
use crate::failure::{Exit, Failure, Result};
use crate::ids::find_run;
use crate::output::Format;
use crate::views::text;

pub(super) async fn act(app: &App<'_>, api: &Connection, args: &ActArgs, action: &str) -> Result {
    let Some(id) = &args.id else { return act_on_many(app, api, args, action).await };
    let entry = find(api, id).await?;
    let id = text(&entry, "id").to_owned();
    if args.dry_run {
        return shown(app, &entry, &format!("would {} dead letter {id}", action.replace('_', " ")));
    }
    let body = json!({"by": args.by, "reason": args.reason});
    let (word, query): (&str, &[(&str, Option<&str>)]) = match action {
        "retry_as_new_run" => ("retry", &[("as", Some("new_run"))]),
        word => (word, &[]),
    };
    let done = api.send("POST", &["dlq", &id, word], query, Some(&body)).await?;
    let run = if done.is_null() { text(&entry, "run_id") } else { text(&done, "id") }.to_owned();
    let answer = json!({"id": id, "action": action, "run_id": run});
    shown(app, &answer, &format!("dead letter {id} was {}; its run is {run}", past(action)))
}

/// What was done by an action.
fn past(action: &str) -> &str {
    match action {
        "retry" => "retried",
        "retry_as_new_run" => "retried as a new run",
        "skip" => "skipped",
        "resolve" => "resolved",
        other => other,
    }
}

fn shown(app: &App<'_>, value: &Value, line: &str) -> Result {
    match app.out.record_format() {
        Format::Table => app.out.line(line),
        format => app.out.value(format, value),
    }
    Ok(Exit::Success)
}

async fn act_on_many(app: &App<'_>, api: &Connection, args: &ActArgs, action: &str) -> Result {
    let mut filter = json!({});
    for (key, value) in [("fingerprint", &args.group), ("workflow", &args.workflow)] {
        if let Some(value) = value {
            filter[key] = json!(value);
        }
    }
    if let Some(namespace) = api.namespace() {
        filter["namespace"] = namespace.into();
    }
    let body =
        json!({"filter": filter, "action": action, "dry_run": args.dry_run, "by": args.by, "reason": args.reason});
    let mut batch = api.send("POST", &["dlq", "batch"], &[], Some(&body)).await?;
    if batch["matched"] == 0 {
        return shown(app, &batch, "no pending dead letter matches: nothing to do");
    }
    if args.dry_run || batch["id"].is_null() {
        let letters = if batch["matched"] == 1 { "letter" } else { "letters" };
        let line = format!("would {} {} dead {letters}", action.replace('_', " "), batch["matched"]);
        return shown(app, &batch, &line);
    }
    let id = text(&batch, "id").to_owned();
    if let Some(client) = api.client() {
        // Perhaps no server serves this database.
        while client.work_batch(app.config.desk.entries_at_once).await? {}
        batch = api.get(&["dlq", "batches", &id], &[]).await?;
    }
    let mut last_shown = -1;
    while !args.no_wait && text(&batch, "status") == "running" {
        let done = batch["done"].as_i64().unwrap_or(0);
        if done != last_shown && app.out.record_format() == Format::Table {
            app.out.note(format!("{done} of {} …", batch["matched"]));
            last_shown = done;
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        batch = api.get(&["dlq", "batches", &id], &[]).await?;
    }
    let line = format!("batch {id}: {} of {} done, {} failed", batch["done"], batch["matched"], batch["failed"]);
    shown(app, &batch, &line)?;
    match batch["failed"].as_i64() {
        Some(failed) if failed > 0 => {
            Err(Failure::failed(format!("{failed} could not be acted on: {}", text(&batch, "error"))))
        }
        _ => Ok(Exit::Success),
    }
}

pub(super) async fn update(app: &App<'_>, api: &Connection, args: &UpdateArgs) -> Result {
    let metadata = args.metadata.as_deref().map(|metadata| parse_json("--metadata", metadata)).transpose()?;
    let body = json!({
        "resolution_status": args.status, "resolution_notes": args.notes, "resolved_by": args.by, "metadata": metadata,
    });
    let entry = find(api, &args.id).await?;
    let id = text(&entry, "id");
    let done = api.send("PATCH", &["dlq", id], &[], Some(&body)).await?;
    shown(app, &done, &format!("dead letter {id} is {}", text(&done, "resolution_status")))
}

pub(super) async fn send(app: &App<'_>, api: &Connection, args: &SendArgs) -> Result {
    let run = find_run(api, &args.run).await?;
    let body = json!({"run_id": run, "task": args.task, "reason": args.reason});
    let made = api.send("POST", &["dlq"], &[], Some(&body)).await?;
    shown(app, &made, &format!("dead letter {} was created", text(&made, "id")))
}
