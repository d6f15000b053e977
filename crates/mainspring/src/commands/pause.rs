//! `mainspring pause` and `mainspring resume`: no task of a paused queue or namespace, or of any, is started for now.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::api::Connection;
use crate::app::{App, require_name};
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table, local_text};
use crate::views::text;

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Why, for those who wonder what their tasks wait for
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Show what is paused instead
    #[arg(long, conflicts_with_all = ["queue", "all", "reason"])]
    list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    scope: ScopeArgs,
}

#[derive(Debug, Args)]
struct ScopeArgs {
    /// Tasks of this queue: of all namespaces, or of that of -n
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Everything
    #[arg(long, conflicts_with = "queue")]
    all: bool,
}

pub(crate) async fn pause(app: &App<'_>, args: PauseArgs) -> Result {
    app.start_logs();
    if args.list {
        return list(app).await;
    }
    let api = Connection::open(app).await?;
    let (mut body, scope) = scope_of(&api, &args.scope, "pause")?;
    if let Some(reason) = args.reason {
        body.insert("reason".into(), reason.into());
    }
    let pause = api.send("POST", &["pause"], &[], Some(&Value::Object(body))).await?;
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("{scope} is paused; tasks that run go on")),
        format => app.out.value(format, &pause),
    }
    Ok(Exit::Success)
}

pub(crate) async fn resume(app: &App<'_>, args: ResumeArgs) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    let (body, scope) = scope_of(&api, &args.scope, "resume")?;
    api.send("POST", &["resume"], &[], Some(&Value::Object(body))).await?;
    app.out.note(format_args!("{scope} is resumed"));
    Ok(Exit::Success)
}

/// The body that names what is meant, and the same in words.
fn scope_of(api: &Connection, args: &ScopeArgs, verb: &str) -> Result<(Map<String, Value>, String)> {
    let mut body = Map::new();
    if args.all {
        body.insert("all".into(), true.into());
        return Ok((body, "everything".into()));
    }
    let mut words = Vec::new();
    if let Some(queue) = &args.queue {
        require_name("queue", queue)?;
        body.insert("queue".into(), queue.as_str().into());
        words.push(format!("queue {queue}"));
    }
    if let Some(namespace) = api.namespace() {
        body.insert("namespace".into(), namespace.into());
        words.push(format!("namespace {namespace}"));
    }
    if words.is_empty() {
        return Err(
            Failure::bad_input(format!("{verb} what?")).remedy("give --queue QUEUE, -n NAMESPACE, both, or --all")
        );
    }
    Ok((body, words.join(" in ")))
}

async fn list(app: &App<'_>) -> Result {
    let api = Connection::open_existing(app).await?;
    let pauses = api.all(&["pauses"], &[("namespace", api.namespace())]).await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["NAMESPACE", "QUEUE", "SINCE", "BY", "REASON"]);
            for pause in &pauses {
                let name = |key: &str| pause[key].as_str().unwrap_or("all").to_owned();
                let cells = [
                    name("namespace"),
                    name("queue"),
                    local_text(text(pause, "paused_at")),
                    text(pause, "paused_by").to_owned(),
                    text(pause, "reason").to_owned(),
                ];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            if pauses.is_empty() {
                app.out.note("nothing is paused");
            } else {
                table.print(app.out);
            }
        }
        format => app.out.value(format, &json!({"items": pauses, "next": null})),
    }
    Ok(Exit::Success)
}
