//! `mainspring jobs`: one handler, one schedule, made in one call.

mod create;
mod reschedule;

use clap::{Args, Subcommand};
use mainspring_api::List;
use mainspring_api::jobs::{Execution, Job, JobStats, JobStatus, JobType, SchedulerStats};
use serde_json::{Value, json};

use super::start::{WaitArg, follow_run};
use crate::api::{Connection, PAGE};
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::{short_length, shortened};
use crate::output::{Format, Table, local_text, seconds};
use create::{CreateArgs, create};
use reschedule::{RescheduleArgs, reschedule};

const PATH: &[&str] = &["scheduler", "jobs"];

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Create a job
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
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::cli::limit)]
        limit: u16,
    },
    /// Show a job with its statistics and last executions
    #[command(alias = "show")]
    Get(JobArg),
    /// Pause jobs: they do not fire until they are resumed
    Pause(ManyArgs),
    /// Resume paused jobs
    Resume(ManyArgs),
    /// Give a job another schedule
    Reschedule(RescheduleArgs),
    /// Execute a job now, besides its schedule
    Trigger {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        wait: WaitArg,
    },
    /// Cancel jobs for good; their history stays
    Delete(ManyArgs),
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
pub(crate) struct ManyArgs {
    /// The ids or the names of the jobs
    #[arg(value_name = "JOB", required_unless_present_any = ["tag", "all"])]
    jobs: Vec<String>,
    /// Every job with this tag
    #[arg(long, value_name = "TAG", conflicts_with = "jobs")]
    tag: Option<String>,
    /// Every job of the namespace
    #[arg(long, conflicts_with_all = ["jobs", "tag"])]
    all: bool,
}

pub(crate) async fn jobs(app: &App<'_>, command: JobsCommand) -> Result {
    app.start_logs();
    if let JobsCommand::Create(args) = command {
        create(app, &Connection::open(app).await?, *args).await?;
        return Ok(Exit::Success);
    }
    let api = Connection::open_existing(app).await?;
    let within = [("namespace", api.namespace())];
    match command {
        JobsCommand::Create(_) => {}
        JobsCommand::List { kind, status, tag, limit } => {
            let limit = limit.to_string();
            let query = [
                ("namespace", api.namespace()),
                ("type", kind.as_deref()),
                ("status", status.as_deref()),
                ("tag", tag.as_deref()),
                ("limit", Some(limit.as_str())),
            ];
            list(app, &api.read(PATH, &query).await?);
        }
        JobsCommand::Get(JobArg { job }) => show(app, &api, &job).await?,
        JobsCommand::Pause(args) => act(app, &api, &args, JobStatus::Active, "pause", "is paused").await?,
        JobsCommand::Resume(args) => act(app, &api, &args, JobStatus::Paused, "resume", "is resumed").await?,
        JobsCommand::Delete(args) => delete(app, &api, &args).await?,
        JobsCommand::Reschedule(args) => reschedule(app, &api, args).await?,
        JobsCommand::Trigger { job: JobArg { job }, wait } => {
            let path = ["scheduler", "jobs", &job, "trigger"];
            let execution: Execution = api.ask("POST", &path, &within, None, &[]).await?.read()?;
            if wait.wait {
                // An execution of a job is a run, and has its id.
                return follow_run(app, api, execution.id).await;
            }
            match app.out.record_format() {
                Format::Table => app.out.line(format_args!("execution {} of {job} was started", execution.id)),
                format => app.out.value(format, &execution),
            }
        }
        JobsCommand::Stats { job: Some(job) } => {
            let stats: JobStats = api.read(&["scheduler", "jobs", &job, "stats"], &within).await?;
            record(app, &json!(stats));
        }
        JobsCommand::Stats { job: None } => {
            let stats: SchedulerStats = api.read(&["scheduler", "stats"], &within).await?;
            record(app, &json!(stats));
        }
    }
    Ok(Exit::Success)
}

/// The jobs that are meant: those named, or those that have the tag and could be changed.
async fn named(api: &Connection, args: &ManyArgs, status: Option<JobStatus>) -> Result<Vec<String>> {
    if !args.jobs.is_empty() {
        return Ok(args.jobs.clone());
    }
    let query = [
        ("namespace", Some(api.namespace_or_default())),
        ("tag", args.tag.as_deref()),
        ("status", status.map(JobStatus::word)),
        ("limit", Some(PAGE)),
    ];
    let found: List<Job> = api.read(PATH, &query).await?;
    let is_open = |job: &&Job| status.is_some() || matches!(job.status, JobStatus::Active | JobStatus::Paused);
    Ok(found.items.iter().filter(is_open).map(|job| job.id.to_string()).collect())
}

async fn act(
    app: &App<'_>,
    api: &Connection,
    args: &ManyArgs,
    from: JobStatus,
    action: &str,
    words: &str,
) -> Result<()> {
    let within = [("namespace", api.namespace())];
    let jobs = named(api, args, Some(from)).await?;
    if jobs.is_empty() {
        app.out.note(format_args!("no job is {from}"));
    }
    for job in jobs {
        let path = ["scheduler", "jobs", &job, action];
        let changed: Job = api.ask("POST", &path, &within, None, &[]).await?.read()?;
        report(app, &changed, words);
    }
    Ok(())
}

async fn delete(app: &App<'_>, api: &Connection, args: &ManyArgs) -> Result<()> {
    let within = [("namespace", api.namespace())];
    for job in named(api, args, None).await? {
        api.send("DELETE", &["scheduler", "jobs", &job], &within, None).await?;
        match app.out.record_format() {
            Format::Table => app.out.line(format_args!("job {job} is cancelled; its history stays")),
            format => app.out.value(format, &json!({"job": job, "status": "cancelled"})),
        }
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
    let shown: Job = api.read(&["scheduler", "jobs", job], &within).await?;
    let query = [("namespace", api.namespace()), ("limit", Some("10"))];
    let executions: List<Execution> = api.read(&["scheduler", "jobs", job, "executions"], &query).await?;
    let format = app.out.record_format();
    if format != Format::Table {
        let mut shown = json!(shown);
        shown["executions"] = json!(executions.items);
        app.out.value(format, &shown);
        return Ok(());
    }
    record(app, &json!(shown));
    if executions.items.is_empty() {
        return Ok(());
    }
    app.out.line("");
    let ids: Vec<String> = executions.items.iter().map(|row| row.id.to_string()).collect();
    let length = short_length(ids.iter().map(String::as_str));
    let mut table = Table::new(&["EXECUTION", "STATUS", "SCHEDULED", "TOOK", "RETRIES", "ERROR"]);
    for (row, id) in executions.items.iter().zip(&ids) {
        let cells = [
            shortened(id, length).to_owned(),
            row.status.to_string(),
            local_text(&row.scheduled_at),
            row.duration_ms.map(|ms| seconds(ms.saturating_mul(1_000))).unwrap_or_default(),
            row.retry_count.to_string(),
            row.error.clone().unwrap_or_default(),
        ];
        table.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    table.print(app.out);
    Ok(())
}

fn report(app: &App<'_>, job: &Job, words: &str) {
    match app.out.record_format() {
        Format::Table => {
            let next = job.next_run.as_deref().filter(|_| job.status == JobStatus::Active);
            let next = next.map(|next| format!("; next {}", local_text(next))).unwrap_or_default();
            app.out.line(format_args!("job {} {words}{next}", job.name));
        }
        format => app.out.value(format, job),
    }
}

fn list(app: &App<'_>, found: &List<Job>) {
    let format = app.out.record_format();
    if format != Format::Table {
        return app.out.value(format, found);
    }
    if found.items.is_empty() {
        return app.out.note("no jobs");
    }
    let mut table =
        Table::new(&["NAMESPACE", "NAME", "TYPE", "STATUS", "SCHEDULE", "HANDLER", "NEXT", "RUNS", "FAILED"]);
    for job in &found.items {
        let next = job.next_run.as_deref().filter(|_| job.status == JobStatus::Active);
        let cells = [
            job.namespace.clone(),
            job.name.clone(),
            job.r#type.to_string(),
            job.status.to_string(),
            schedule(job),
            handler(job),
            next.map(local_text).unwrap_or_default(),
            job.executions_count.to_string(),
            job.failure_count.to_string(),
        ];
        table.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    table.print(app.out);
    if found.next.is_some() {
        app.out.note("there are more: raise --limit");
    }
}

/// As lists of schedules show it: a time like every other, an expression with its zone.
fn schedule(job: &Job) -> String {
    let schedule = local_text(&job.schedule);
    match job.timezone.as_str() {
        zone if zone != "UTC" && job.r#type == JobType::Cron => format!("{schedule} {zone}"),
        _ => schedule,
    }
}

/// The handler, or the command that a shell job runs.
fn handler(job: &Job) -> String {
    match (job.handler_type.as_str(), job.payload["run"].as_str()) {
        ("shell", Some(command)) => command.to_owned(),
        _ => job.handler_name.clone(),
    }
}

/// One thing, a line per field that says something.
pub(super) fn record(app: &App<'_>, value: &Value) {
    match app.out.record_format() {
        Format::Table => {
            for (key, field) in value.as_object().into_iter().flatten() {
                if !field.is_null() {
                    app.out.line(format_args!("{:<18} {}", key.replace('_', " "), local_text(&shown(field))));
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
