//! `mainspring jobs`: one handler, one schedule, made in one call.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Make a job
    Create(Box<CreateArgs>),
    /// List jobs, newest first
    List {
        /// cron, one_time, recurring or dependent
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// active, paused, completed or cancelled
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only those with this tag
        #[arg(long, value_name = "TAG")]
        tag: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u16,
    },
    /// Show a job with its statistics and last executions
    Show(JobArg),
    /// Let a job rest
    Pause(JobArg),
    /// Let a job go on
    Resume(JobArg),
    /// Give a job another schedule
    Reschedule {
        #[command(flatten)]
        job: JobArg,
        /// A cron expression, an interval or an instant, whichever the job goes by
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
        /// The time zone of a cron expression
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
    },
    /// Execute a job now, besides its schedule
    Trigger(JobArg),
    /// Cancel a job for good; its history stays
    Delete(JobArg),
    /// Show what was counted, of one job or of all
    Stats {
        /// The id or the name of a job
        #[arg(value_name = "JOB")]
        job: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JobArg {
    /// The id or the name of the job
    #[arg(value_name = "JOB")]
    job: String,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Any printable name
    #[arg(value_name = "NAME")]
    name: String,
    /// The function, agent or workflow to execute
    #[arg(long, value_name = "HANDLER")]
    handler: String,
    /// function, agent or workflow
    #[arg(long = "handler-type", value_name = "TYPE")]
    handler_type: Option<String>,
    /// Fire by a cron expression
    #[arg(long, value_name = "EXPR", group = "when")]
    cron: Option<String>,
    /// Fire again and again, like 15m
    #[arg(long, value_name = "INTERVAL", group = "when")]
    every: Option<String>,
    /// Fire once
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
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// What the handler is given, as JSON
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Complete after so many executions
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
    /// Milliseconds between attempts [default: 60000]
    #[arg(long, value_name = "MS")]
    retry_delay_ms: Option<u64>,
    /// Milliseconds an attempt may take [default: 300000]
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
    /// low, medium, high, critical or a number
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// How many executions may go on at once
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// Let fires beyond that wait their turn instead of leaving them out
    #[arg(long)]
    allow_overlap: bool,
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

pub(crate) async fn jobs(app: &App<'_>, command: JobsCommand) -> Result {
    app.start_logs();
    let api = Connection::open(app).await?;
    let within = [("namespace", api.namespace())];
    match command {
        JobsCommand::Create(args) => create(app, &api, &args).await?,
        JobsCommand::List { kind, status, tag, limit } => {
            let limit = limit.to_string();
            let query = [
                ("namespace", api.namespace()),
                ("type", kind.as_deref()),
                ("status", status.as_deref()),
                ("tag", tag.as_deref()),
                ("limit", Some(limit.as_str())),
            ];
            list(app, &api.get(&["scheduler", "jobs"], &query).await?);
        }
        JobsCommand::Show(JobArg { job }) => show(app, &api, &job).await?,
        JobsCommand::Pause(JobArg { job }) => act(app, &api, &job, "pause", "rests").await?,
        JobsCommand::Resume(JobArg { job }) => act(app, &api, &job, "resume", "goes on").await?,
        JobsCommand::Reschedule { job: JobArg { job }, schedule, tz } => {
            let mut body = json!({"schedule": schedule});
            if let Some(tz) = tz {
                body["timezone"] = tz.into();
            }
            let changed = api.send("PUT", &["scheduler", "jobs", &job, "schedule"], &within, Some(&body)).await?;
            told(app, &changed, "has another schedule");
        }
        JobsCommand::Trigger(JobArg { job }) => {
            let execution = api.send("POST", &["scheduler", "jobs", &job, "trigger"], &within, None).await?;
            match app.out.record_format() {
                Format::Table => {
                    app.out.line(format_args!("execution {} of {job} was started", text(&execution, "id")))
                }
                format => app.out.value(format, &execution),
            }
        }
        JobsCommand::Delete(JobArg { job }) => {
            api.send("DELETE", &["scheduler", "jobs", &job], &within, None).await?;
            match app.out.record_format() {
                Format::Table => app.out.line(format_args!("job {job} is cancelled; its history stays")),
                format => app.out.value(format, &json!({"job": job, "status": "cancelled"})),
            }
        }
        JobsCommand::Stats { job } => {
            let stats = match &job {
                Some(job) => api.get(&["scheduler", "jobs", job, "stats"], &within).await?,
                None => api.get(&["scheduler", "stats"], &within).await?,
            };
            record(app, &stats);
        }
    }
    Ok(Exit::Success)
}

async fn create(app: &App<'_>, api: &Connection, args: &CreateArgs) -> Result<()> {
    let (kind, when) = match (&args.cron, &args.every, &args.at, &args.after, &args.after_workflow) {
        (Some(cron), ..) => ("cron", ("schedule", cron)),
        (_, Some(every), ..) => ("interval", ("every", every)),
        (_, _, Some(at), ..) => ("once", ("execute_at", at)),
        (_, _, _, Some(job), _) => ("after", ("job", job)),
        (_, _, _, _, Some(workflow)) => ("after", ("workflow", workflow)),
        _ => {
            return Err(Failure::bad_input("the job has nothing that fires it")
                .remedy("give one of --cron, --every, --at, --after and --after-workflow"));
        }
    };
    let mut body = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.to_owned(), value);
        }
    };
    put("name", Some(args.name.clone().into()));
    put("handler_name", Some(args.handler.clone().into()));
    put(when.0, Some(when.1.clone().into()));
    put("namespace", api.namespace().map(Value::from));
    put("handler_type", args.handler_type.clone().map(Value::from));
    put("timezone", args.tz.clone().map(Value::from));
    put("description", args.description.clone().map(Value::from));
    put("max_executions", args.max_executions.map(Value::from));
    put("start_date", args.start.clone().map(Value::from));
    put("end_date", args.end.clone().map(Value::from));
    put("max_retries", args.max_retries.map(Value::from));
    put("retry_delay_ms", args.retry_delay_ms.map(Value::from));
    put("timeout_ms", args.timeout_ms.map(Value::from));
    put("concurrency", args.concurrency.map(Value::from));
    put("allow_overlap", args.allow_overlap.then_some(true.into()));
    put("tags", (!args.tags.is_empty()).then(|| json!(args.tags)));
    put("on", (!args.on.is_empty()).then(|| json!(args.on)));
    put("priority", args.priority.as_ref().map(|text| text.parse::<i64>().map_or_else(|_| json!(text), |n| json!(n))));
    put("payload", args.payload.as_deref().map(|text| parse_json("--payload", text)).transpose()?);
    let made = api.send("POST", &["scheduler", "jobs", kind], &[], Some(&Value::Object(body))).await?;
    match app.out.record_format() {
        Format::Table => {
            let next = made["next_run"].as_str().map(|next| format!("; next {next}")).unwrap_or_default();
            app.out.line(format_args!("job {} was made as {}{next}", text(&made, "name"), text(&made, "id")));
        }
        format => app.out.value(format, &made),
    }
    Ok(())
}

pub(super) fn parse_json(flag: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        Failure::bad_input(format!("{flag} is not JSON: {error}")).remedy("write it like '{\"count\": 3}'")
    })
}

async fn show(app: &App<'_>, api: &Connection, job: &str) -> Result<()> {
    let within = [("namespace", api.namespace())];
    let mut shown = api.get(&["scheduler", "jobs", job], &within).await?;
    let query = [("namespace", api.namespace()), ("limit", Some("10"))];
    let executions = api.get(&["scheduler", "jobs", job, "executions"], &query).await?;
    match app.out.record_format() {
        Format::Table => {
            record(app, &shown);
            let rows = executions["items"].as_array().map_or(&[][..], Vec::as_slice);
            if !rows.is_empty() {
                let mut table = Table::new(&["EXECUTION", "STATUS", "SCHEDULED", "DURATION MS", "RETRIES", "ERROR"]);
                for row in rows {
                    let cells = ["id", "status", "scheduled_at", "duration_ms", "retry_count", "error"];
                    table.row(cells.iter().map(|key| (text(row, key), None)).collect());
                }
                table.print(app.out);
            }
        }
        format => {
            shown["executions"] = executions["items"].clone();
            app.out.value(format, &shown);
        }
    }
    Ok(())
}

async fn act(app: &App<'_>, api: &Connection, job: &str, action: &str, words: &str) -> Result<()> {
    let within = [("namespace", api.namespace())];
    let changed = api.send("POST", &["scheduler", "jobs", job, action], &within, None).await?;
    told(app, &changed, words);
    Ok(())
}

fn told(app: &App<'_>, job: &Value, words: &str) {
    match app.out.record_format() {
        Format::Table => {
            let next = job["next_run"].as_str().map(|next| format!("; next {next}")).unwrap_or_default();
            app.out.line(format_args!("job {} {words}{next}", text(job, "name")));
        }
        format => app.out.value(format, job),
    }
}

fn list(app: &App<'_>, found: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let rows = found["items"].as_array().map_or(&[][..], Vec::as_slice);
            if rows.is_empty() {
                app.out.note("no jobs");
                return;
            }
            const HEADS: &[&str] =
                &["NAMESPACE", "NAME", "TYPE", "STATUS", "SCHEDULE", "HANDLER", "NEXT", "RUNS", "FAILED"];
            let keys = [
                "namespace",
                "name",
                "type",
                "status",
                "schedule",
                "handler_name",
                "next_run",
                "executions_count",
                "failure_count",
            ];
            let mut table = Table::new(HEADS);
            for row in rows {
                table.row(keys.iter().map(|key| (text(row, key), None)).collect());
            }
            table.print(app.out);
            if found["next"].is_string() {
                app.out.note("there are more: raise --limit");
            }
        }
        format => app.out.value(format, found),
    }
}

/// One thing, a line per field that says something.
pub(super) fn record(app: &App<'_>, value: &Value) {
    match app.out.record_format() {
        Format::Table => {
            for (key, field) in value.as_object().into_iter().flatten() {
                if !field.is_null() {
                    app.out.line(format_args!("{key}: {}", shown(field)));
                }
            }
        }
        format => app.out.value(format, value),
    }
}

pub(super) fn text(row: &Value, key: &str) -> String {
    shown(&row[key])
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
