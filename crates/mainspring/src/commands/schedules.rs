//! `mainspring schedules`: what fires when, pausing and resuming it.

use clap::Subcommand;
use serde_json::Value;

use crate::api::{Connection, PAGE, items};
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::find_among;
use crate::output::{Format, Table, local_text};

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// List triggers and when they fire next
    List {
        /// Of this workflow only
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// cron, every, at, event, webhook, workflow or poll
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::cli::limit)]
        limit: u16,
    },
    /// Show one with what became of its last fires
    #[command(alias = "show")]
    Get {
        /// The id of the schedule, WORKFLOW/TRIGGER, or the workflow if it has one trigger
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
    },
    /// Show when one fires next
    Next {
        /// The id of the schedule, WORKFLOW/TRIGGER, or the workflow if it has one trigger
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
        /// How many fires
        #[arg(long, value_name = "N", default_value_t = 10)]
        count: u16,
    },
    /// Pause one: it does not fire until it is resumed
    Pause {
        /// The id of the schedule, WORKFLOW/TRIGGER, or the workflow if it has one trigger
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
    },
    /// Resume one; what it missed is up to its catch-up policy
    Resume {
        /// The id of the schedule, WORKFLOW/TRIGGER, or the workflow if it has one trigger
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
    },
}

pub(crate) async fn schedules(app: &App<'_>, command: SchedulesCommand) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    match command {
        SchedulesCommand::List { workflow, kind, limit } => {
            let limit = limit.to_string();
            let query = [
                ("namespace", api.namespace()),
                ("workflow", workflow.as_deref()),
                ("kind", kind.as_deref()),
                ("limit", Some(limit.as_str())),
            ];
            list(app, &api.get(&["schedules"], &query).await?);
        }
        SchedulesCommand::Get { schedule } => {
            let id = find(&api, &schedule).await?;
            let shown = api.get(&["schedules", &id], &[]).await?;
            let fires = api.get(&["schedules", &id, "fires"], &[("limit", Some("10"))]).await?;
            show(app, shown, &fires);
        }
        SchedulesCommand::Next { schedule, count } => {
            let id = find(&api, &schedule).await?;
            let next = api.get(&["schedules", &id, "next"], &[("n", Some(&count.to_string()))]).await?;
            print_next(app, &next);
        }
        SchedulesCommand::Pause { schedule } => act(app, &api, &schedule, "pause").await?,
        SchedulesCommand::Resume { schedule } => act(app, &api, &schedule, "resume").await?,
    }
    Ok(Exit::Success)
}

/// The id of a schedule that is named by it, by its workflow and its own name, or by its workflow if that has no other.
async fn find(api: &Connection, schedule: &str) -> Result<String> {
    let Some((workflow, name)) = schedule.split_once('/') else {
        return find_alone(api, schedule).await;
    };
    let rows = triggers_of(api, workflow).await?;
    if let Some(row) = rows.iter().find(|row| row["name"] == name) {
        return Ok(text(row, "id"));
    }
    let names: Vec<String> = rows.iter().map(|row| text(row, "name")).collect();
    Err(if names.is_empty() {
        let namespace = api.namespace_or_default();
        Failure::bad_input(format!("no workflow `{workflow}` in namespace `{namespace}` has triggers"))
            .remedy("`mainspring schedules list` shows what there is; --namespace names another namespace")
    } else {
        Failure::bad_input(format!("workflow `{workflow}` has no trigger `{name}`"))
            .remedy(format!("there are {}", names.join(", ")))
    })
}

async fn find_alone(api: &Connection, schedule: &str) -> Result<String> {
    let missing = match find_among(api, &["schedules"], "schedule", schedule).await {
        Ok(id) => return Ok(id),
        Err(failure) => failure,
    };
    match triggers_of(api, schedule).await?.as_slice() {
        [] => Err(missing),
        [only] => Ok(text(only, "id")),
        several => {
            let names: Vec<String> = several.iter().map(|row| format!("{schedule}/{}", text(row, "name"))).collect();
            Err(Failure::bad_input(format!("workflow `{schedule}` has {} triggers", names.len()))
                .remedy(format!("name one of {}", names.join(", "))))
        }
    }
}

/// The triggers of a workflow.
async fn triggers_of(api: &Connection, workflow: &str) -> Result<Vec<Value>> {
    let query = [("namespace", Some(api.namespace_or_default())), ("workflow", Some(workflow)), ("limit", Some(PAGE))];
    let found = api.get(&["schedules"], &query).await?;
    Ok(items(&found).to_vec())
}

async fn act(app: &App<'_>, api: &Connection, schedule: &str, action: &str) -> Result<()> {
    let id = find(api, schedule).await?;
    let row = api.send("POST", &["schedules", &id, action], &[], None).await?;
    match app.out.record_format() {
        Format::Table => {
            let (name, next) = (format!("{}/{}", text(&row, "workflow"), text(&row, "name")), text(&row, "next_run"));
            match action {
                "pause" => app.out.line(format_args!("{name} is paused")),
                _ => app.out.line(format_args!("{name} is resumed; next {}", local_text(&next))),
            }
        }
        format => app.out.value(format, &row),
    }
    Ok(())
}

fn list(app: &App<'_>, found: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let rows = found["items"].as_array().map_or(&[][..], Vec::as_slice);
            if rows.is_empty() {
                app.out.note("no schedules");
                return;
            }
            let mut table =
                Table::new(&["NAMESPACE", "WORKFLOW", "TRIGGER", "KIND", "SCHEDULE", "STATUS", "NEXT", "FIRED"]);
            for row in rows {
                // What does not fire has no next time.
                let next = match row["status"].as_str() {
                    Some("active") => local_text(&text(row, "next_run")),
                    _ => "-".to_owned(),
                };
                // The time of a schedule that fires once is shown like every other.
                let mut schedule = local_text(&text(row, "schedule"));
                if let Some(zone) = row["timezone"].as_str().filter(|zone| *zone != "UTC") {
                    schedule = format!("{schedule} {zone}");
                }
                // What is still tried but failed is not plainly active.
                let status = match row["poll"]["failures"].as_i64() {
                    Some(1..) if row["status"] == "active" => "failing".to_owned(),
                    _ => text(row, "status"),
                };
                let cells = [
                    text(row, "namespace"),
                    text(row, "workflow"),
                    text(row, "name"),
                    text(row, "kind"),
                    schedule,
                    status,
                    next,
                    row["fired"].to_string(),
                ];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
            if found["next"].is_string() {
                app.out.note("there are more: raise --limit or name a --workflow");
            }
        }
        format => app.out.value(format, found),
    }
}

fn show(app: &App<'_>, mut shown: Value, fires: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let poll = shown["poll"].as_object().cloned().unwrap_or_default();
            let own = shown.as_object().into_iter().flatten().filter(|(field, _)| *field != "poll");
            for (field, value) in own.chain(&poll) {
                let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                if value != "null" {
                    app.out.line(format_args!("{:<16} {}", field.replace('_', " "), local_text(&value)));
                }
            }
            let rows = fires["items"].as_array().map_or(&[][..], Vec::as_slice);
            if rows.is_empty() {
                return;
            }
            app.out.line(format_args!(""));
            let mut table = Table::new(&["SCHEDULED FOR", "OUTCOME", "RUN", "REASON"]);
            for fire in rows {
                let when = match fire["until"].as_str() {
                    Some(until) if fire["count"] != 1 => format!("{} … {until}", text(fire, "scheduled_for")),
                    _ => text(fire, "scheduled_for"),
                };
                let outcome = match fire["count"].as_i64() {
                    Some(count) if count > 1 => format!("{} ({count})", text(fire, "outcome")),
                    _ => text(fire, "outcome"),
                };
                let cells = [local_text(&when), outcome, text(fire, "run_id"), text(fire, "reason")];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => {
            shown["fires"] = fires["items"].clone();
            app.out.value(format, &shown);
        }
    }
}

fn print_next(app: &App<'_>, next: &Value) {
    match app.out.record_format() {
        Format::Table => {
            let rows = next["items"].as_array().map_or(&[][..], Vec::as_slice);
            if rows.is_empty() {
                app.out.note("it does not fire again");
                return;
            }
            let mut table = Table::new(&["SCHEDULED FOR", "FIRES AT"]);
            for row in rows {
                let cells = [local_text(&text(row, "scheduled_for")), local_text(&text(row, "fire_at"))];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, next),
    }
}

/// A field for people.
pub(crate) fn text(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or("-").to_owned()
}
