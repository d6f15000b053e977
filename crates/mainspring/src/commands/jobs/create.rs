//! `mainspring jobs create`.

use clap::Args;
use mainspring_api::Name;
use mainspring_api::jobs::{Every, Job, NewJob};
use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;
use serde_json::{Value, json};

use super::parse_json;
use crate::api::Connection;
use crate::app::App;
use crate::commands::start::{parse_priority, tell_unserved};
use crate::config::parse_duration;
use crate::failure::{Failure, Result};
use crate::instants::parse_future;
use crate::output::{Format, local_text};

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Any printable name
    #[arg(value_name = "NAME")]
    name: String,
    /// The function, agent or workflow to execute
    #[arg(long, value_name = "HANDLER")]
    handler: Option<String>,
    /// Run a shell command instead of a handler
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["handler", "handler_type", "payload"])]
    run: Option<String>,
    /// function, agent or workflow
    #[arg(long = "handler-type", value_name = "TYPE")]
    handler_type: Option<String>,
    /// Fire by a cron expression
    #[arg(long, value_name = "EXPR", group = "when")]
    cron: Option<String>,
    /// Fire again and again, like 15m
    #[arg(long, value_name = "INTERVAL", group = "when")]
    every: Option<String>,
    /// Fire once: a time, or 5m for in five minutes
    #[arg(long, value_name = "TIME", group = "when")]
    at: Option<String>,
    /// Fire after executions of this job
    #[arg(long, value_name = "JOB", group = "when")]
    after: Option<String>,
    /// Fire after runs of this workflow
    #[arg(long, value_name = "WORKFLOW", group = "when")]
    after_workflow: Option<String>,
    /// With --after: success, failed, cancelled
    #[arg(long, value_name = "END")]
    on: Vec<String>,
    /// The time zone of --cron
    #[arg(long, value_name = "ZONE", alias = "timezone")]
    tz: Option<String>,
    /// What the handler is given, as JSON
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Complete after this many executions
    #[arg(long, value_name = "N")]
    max_executions: Option<u64>,
    /// Not before
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Not at or after
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Attempts after the first [default: 3]
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// Before the first retry, like 30s; it doubles with every failure [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, alias = "retry-delay-ms")]
    retry_delay: Option<u64>,
    /// What that never exceeds [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, alias = "max-retry-delay-ms")]
    max_retry_delay: Option<u64>,
    /// How long an attempt may take, like 90s [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, alias = "timeout-ms")]
    timeout: Option<u64>,
    /// low, medium, high, critical or a number
    #[arg(long, value_name = "PRIORITY", value_parser = parse_priority)]
    priority: Option<i16>,
    /// How many executions may go on at once
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// Let fires beyond that wait their turn instead of leaving them out
    #[arg(long)]
    allow_overlap: bool,
    /// Put it in the place of a job of that name
    #[arg(long)]
    replace: bool,
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

/// A duration, or a bare number of milliseconds, as the flags took it once.
fn milliseconds(text: &str) -> std::result::Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    parse_duration(text)
        .and_then(|duration| u64::try_from(duration.as_millis()).ok())
        .ok_or_else(|| "write a duration like 30s, 5m or 1h30m".to_owned())
}

pub(super) async fn create(app: &App<'_>, api: &Connection, args: CreateArgs) -> Result<()> {
    if args.handler.is_none() && args.run.is_none() {
        return Err(Failure::bad_input("the job has nothing to execute").remedy(
            "give --run COMMAND for a shell command, or --handler NAME for a function, an agent or a workflow",
        ));
    }
    let path = match (&args.cron, &args.every, &args.at, &args.after, &args.after_workflow) {
        (Some(_), ..) => "cron",
        (_, Some(_), ..) => "interval",
        (_, _, Some(_), ..) => "once",
        (_, _, _, Some(_), _) | (_, _, _, _, Some(_)) => "after",
        _ => {
            return Err(Failure::bad_input("the job has nothing that fires it")
                .remedy("give one of --cron, --every, --at, --after and --after-workflow"));
        }
    };
    let body = body(api, args)?;
    let made: Job = api.write("POST", &["scheduler", "jobs", path], &[], &body).await?;
    match app.out.record_format() {
        Format::Table => {
            let next = made.next_run.as_deref().map(|next| format!("; next {}", local_text(next)));
            app.out.line(format_args!("job {} was created as {}{}", made.name, made.id, next.unwrap_or_default()));
        }
        format => app.out.value(format, &made),
    }
    tell_unserved(app, api, "the job waits").await;
    Ok(())
}

fn body(api: &Connection, args: CreateArgs) -> Result<NewJob> {
    let now = SystemClock::new().now();
    let instant = |flag: &str, text: Option<String>| -> Result<Option<String>> {
        text.map(|text| parse_future(flag, &text, now).map(rfc3339)).transpose()
    };
    let payload = match (&args.run, &args.payload) {
        (Some(command), _) => Some(json!({"run": command})),
        (None, Some(text)) => Some(parse_json("--payload", text)?),
        (None, None) => None,
    };
    let namespace = api.namespace().map(|name| Name::try_from(name.to_owned())).transpose();
    Ok(NewJob {
        name: args.name,
        description: args.description,
        namespace: namespace.map_err(Failure::bad_input)?,
        schedule: args.cron,
        timezone: args.tz,
        execute_at: instant("at", args.at)?,
        every: args.every.map(Every::Text),
        job: args.after,
        workflow: args.after_workflow,
        on: (!args.on.is_empty()).then_some(args.on),
        start_date: instant("start", args.start)?,
        end_date: instant("end", args.end)?,
        max_executions: args.max_executions,
        handler_name: args.handler.unwrap_or_default(),
        replace: args.replace,
        handler_type: args.run.is_some().then(|| "shell".to_owned()).or(args.handler_type),
        payload,
        max_retries: args.max_retries,
        retry_delay_ms: args.retry_delay,
        max_retry_delay_ms: args.max_retry_delay,
        timeout_ms: args.timeout,
        priority: args.priority.map(Value::from),
        concurrency: args.concurrency,
        allow_overlap: args.allow_overlap.then_some(true),
        tags: (!args.tags.is_empty()).then_some(args.tags),
        ..NewJob::default()
    })
}
