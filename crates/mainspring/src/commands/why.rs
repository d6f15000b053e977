//! `mainspring why`: what keeps a task from running, in words.

use clap::Args;
use serde_json::Value;

use super::runs::parse_run;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::Format;

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    #[arg(value_name = "RUN")]
    run: String,
    /// The task's name; `name[2]` is an item
    #[arg(value_name = "TASK")]
    task: String,
}

pub(crate) async fn why(app: &App<'_>, args: WhyArgs) -> Result {
    app.start_logs();
    let run = parse_run(&args.run)?.to_string();
    let api = Connection::open(app).await?;
    let shown = api.get(&["workflow-runs", &run, "tasks", &args.task], &[]).await?;
    let format = app.out.record_format();
    if format != Format::Table {
        app.out.value(format, &shown);
        return Ok(Exit::Success);
    }
    let status = shown["status"].as_str().unwrap_or_default();
    let reasons: Vec<&str> = shown["blocked_by"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if reasons.is_empty() {
        app.out.line(format_args!("{} is {status}; nothing keeps it from running", args.task));
    } else {
        app.out.line(format_args!("{} is {status}:", args.task));
        for reason in reasons {
            app.out.line(format_args!("  {reason}"));
        }
    }
    Ok(Exit::Success)
}
