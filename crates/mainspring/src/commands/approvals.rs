//! `mainspring approvals`: tasks that wait for a person.

use clap::Subcommand;
use mainspring_api::List;
use mainspring_api::runs::Approval;
use mainspring_engine::Answer;

use super::tasks::{AnswerArgs, answer};
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::ids::{short_length, shortened};
use crate::output::{Format, Table, local_text};

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the approvals that wait for an answer, the oldest first
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::cli::limit)]
        limit: u16,
    },
    /// Say yes to a task that waits for an approval
    Approve(AnswerArgs),
    /// Say no to a task that waits for an approval
    Reject(AnswerArgs),
}

pub(crate) async fn approvals(app: &App<'_>, command: ApprovalsCommand) -> Result {
    app.start_logs();
    match command {
        ApprovalsCommand::List { limit } => list(app, limit).await,
        ApprovalsCommand::Approve(args) => answer(app, args, Answer::Approve, "is approved").await,
        ApprovalsCommand::Reject(args) => answer(app, args, Answer::Reject, "is rejected").await,
    }
}

async fn list(app: &App<'_>, limit: u16) -> Result {
    let api = Connection::open_existing(app).await?;
    let limit = limit.to_string();
    let query = [("namespace", api.namespace()), ("limit", Some(limit.as_str()))];
    let found: List<Approval> = api.read(&["approvals"], &query).await?;
    let format = app.out.record_format();
    if format != Format::Table {
        app.out.value(format, &found);
        return Ok(Exit::Success);
    }
    if found.items.is_empty() {
        app.out.note("nothing waits for an approval");
        return Ok(Exit::Success);
    }
    let ids: Vec<String> = found.items.iter().map(|approval| approval.workflow_run_id.to_string()).collect();
    let length = short_length(ids.iter().map(String::as_str));
    let mut table = Table::new(&["RUN", "TASK", "WORKFLOW", "SINCE", "UNTIL", "BY", "MESSAGE"]);
    for (approval, id) in found.items.iter().zip(&ids) {
        let cells = [
            shortened(id, length).to_owned(),
            approval.task_id.clone(),
            approval.workflow.clone(),
            local_text(&approval.requested_at),
            approval.expires_at.as_deref().map(local_text).unwrap_or_default(),
            approval.roles.join(" or "),
            approval.message.clone().unwrap_or_default(),
        ];
        table.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    table.print(app.out);
    if found.next.is_some() {
        app.out.note("there are more: raise --limit");
    }
    Ok(Exit::Success)
}
