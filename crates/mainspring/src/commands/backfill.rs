//! `mainspring backfill`: makes the runs of a range of a schedule's past.

use clap::{Args, Subcommand};
use mainspring_api::backfills::{BackfillPlan, StartBackfill};
use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;
use serde_json::Value;

use super::schedules::text;
use super::start::parse_priority;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::require_id;
use crate::instants::parse_instant;
use crate::output::{Format, Table, local_text};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BackfillArgs {
    #[command(subcommand)]
    command: Option<BackfillCommand>,
    /// The workflow, by name or id
    #[arg(value_name = "WORKFLOW", required = true)]
    workflow: Option<String>,
    /// The trigger whose fires are made up for, if the workflow has several
    #[arg(long, value_name = "ID")]
    trigger: Option<String>,
    /// The first instant that belongs to it: 2026-01-31T08:00:00Z, or a day
    #[arg(long, value_name = "TIME", required = true)]
    from: Option<String>,
    /// The first that does not; it must have passed
    #[arg(long, value_name = "TIME", required = true)]
    to: Option<String>,
    /// How many of its runs may be open at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_parallel: u32,
    /// Of its runs: low, medium, high, critical, or 0 to 1000; lower than the workflow's unless given
    #[arg(long, value_name = "PRIORITY", value_parser = parse_priority)]
    priority: Option<i16>,
    /// Only show which runs it would make
    #[arg(long)]
    dry_run: bool,
    /// Let the range end in the future: the runs of instants to come are made now
    #[arg(long)]
    allow_future: bool,
}

#[derive(Debug, Subcommand)]
enum BackfillCommand {
    /// List the backfills of a workflow
    List {
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
    },
    /// Show how far one has come
    #[command(alias = "show")]
    Get {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Make no more runs of one
    Cancel {
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(crate) async fn backfill(app: &App<'_>, args: BackfillArgs) -> Result {
    app.start_logs();
    if let Some(BackfillCommand::Get { id } | BackfillCommand::Cancel { id }) = &args.command {
        require_id("backfill", id, "`mainspring backfill list WORKFLOW` shows it")?;
    }
    let api = Connection::open_existing(app).await?;
    let within = [("namespace", Some(api.namespace_or_default()))];
    let shown = match &args.command {
        Some(BackfillCommand::List { workflow }) => {
            api.get(&["workflows", workflow, "backfills"], &[within[0], ("limit", Some("100"))]).await?
        }
        Some(BackfillCommand::Get { id }) => api.get(&["backfills", id], &[]).await?,
        Some(BackfillCommand::Cancel { id }) => api.send("POST", &["backfills", id, "cancel"], &[], None).await?,
        None => {
            let (Some(workflow), Some(from), Some(to)) = (&args.workflow, &args.from, &args.to) else {
                return Err(Failure::bad_input("a backfill needs a workflow, --from and --to"));
            };
            let now = SystemClock::new().now();
            let body = StartBackfill {
                trigger: args.trigger.clone(),
                from: parse_instant("from", from, now).map(rfc3339)?,
                to: parse_instant("to", to, now).map(rfc3339)?,
                max_parallel: Some(args.max_parallel),
                priority: args.priority,
                dry_run: args.dry_run,
                allow_future: args.allow_future,
            };
            let path = ["workflows", workflow, "backfill"];
            if args.dry_run {
                plan(app, &api.write("POST", &path, &within, &body).await?);
                return Ok(Exit::Success);
            }
            api.write("POST", &path, &within, &body).await?
        }
    };
    print(app, &shown);
    Ok(Exit::Success)
}

fn print(app: &App<'_>, shown: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let one = [shown.clone()];
            let rows = shown["items"].as_array().map_or(&one[..], Vec::as_slice);
            if rows.is_empty() {
                app.out.note("no backfills");
                return;
            }
            let mut table = Table::new(&["BACKFILL", "WORKFLOW", "TRIGGER", "STATUS", "RUNS", "MADE UP TO", "UNTIL"]);
            for row in rows {
                let cells = [
                    text(row, "id"),
                    text(row, "workflow"),
                    text(row, "trigger"),
                    text(row, "status"),
                    row["runs"].to_string(),
                    position(row),
                    local_text(&text(row, "to")),
                ];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, shown),
    }
}

/// How far it has come: before its first instant it stands right before its range.
fn position(row: &Value) -> String {
    let (position, from) = (text(row, "position"), text(row, "from"));
    if position < from { "-".to_owned() } else { local_text(&position) }
}

fn plan(app: &App<'_>, plan: &BackfillPlan) {
    let format = app.out.record_format();
    if format != Format::Table {
        return app.out.value(format, plan);
    }
    app.out.line(format_args!("{}/{} would make {} runs; nothing was done", plan.workflow, plan.trigger, plan.runs));
    for fire in &plan.fires {
        app.out.line(format_args!("  {}", local_text(fire)));
    }
    let more = plan.runs - i64::try_from(plan.fires.len()).unwrap_or(0);
    if more > 0 {
        app.out.line(format_args!("  and {more} more"));
    }
}
