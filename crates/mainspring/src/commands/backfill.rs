//! `mainspring backfill`: makes the runs of a range of a schedule's past.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::schedules::text;
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table};

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
    /// The first instant that belongs to it
    #[arg(long, value_name = "TIME", required = true)]
    from: Option<String>,
    /// The first that does not
    #[arg(long, value_name = "TIME", required = true)]
    to: Option<String>,
    /// How many of its runs may be open at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_parallel: u32,
    /// Of its runs; lower than the workflow's unless given
    #[arg(long, value_name = "0..1000")]
    priority: Option<i16>,
}

#[derive(Debug, Subcommand)]
enum BackfillCommand {
    /// List the backfills of a workflow
    List {
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
    },
    /// Show how far one has come
    Show {
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
    let api = Connection::open(app).await?;
    let within = [("namespace", Some(api.namespace_or_default()))];
    let shown = match &args.command {
        Some(BackfillCommand::List { workflow }) => {
            api.get(&["workflows", workflow, "backfills"], &[within[0], ("limit", Some("100"))]).await?
        }
        Some(BackfillCommand::Show { id }) => api.get(&["backfills", id], &[]).await?,
        Some(BackfillCommand::Cancel { id }) => api.send("POST", &["backfills", id, "cancel"], &[], None).await?,
        None => {
            let (Some(workflow), Some(from), Some(to)) = (&args.workflow, &args.from, &args.to) else {
                return Err(Failure::bad_input("a backfill needs a workflow, --from and --to"));
            };
            let mut body = json!({"from": from, "to": to, "max_parallel": args.max_parallel});
            if let Some(trigger) = &args.trigger {
                body["trigger"] = json!(trigger);
            }
            if let Some(priority) = args.priority {
                body["priority"] = json!(priority);
            }
            api.send("POST", &["workflows", workflow, "backfill"], &within, Some(&body)).await?
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
                    text(row, "position"),
                    text(row, "to"),
                ];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, shown),
    }
}
