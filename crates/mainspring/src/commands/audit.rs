//! `mainspring audit`: who did what, and who was refused.

use clap::Args;

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Table};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Only by this actor, as the list shows it
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// From this time on
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// `next` of the page before
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    cursor: Option<String>,
}

pub(crate) async fn audit(app: &App<'_>, args: AuditArgs) -> Result {
    app.start_logs();
    let api = Connection::open(app).await?;
    let limit = args.limit.to_string();
    let query = [
        ("limit", Some(limit.as_str())),
        ("namespace", api.namespace()),
        ("actor", args.actor.as_deref()),
        ("since", args.since.as_deref()),
        ("until", args.until.as_deref()),
        ("cursor", args.cursor.as_deref()),
    ];
    let list = api.get(&["audit"], &query).await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["TIME", "ACTOR", "STATUS", "METHOD", "PATH"]);
            for entry in list["items"].as_array().into_iter().flatten() {
                let text = |field: &str| entry[field].as_str().unwrap_or("-").to_owned();
                let status = entry["status"].to_string();
                let cells = [text("at"), text("actor"), status, text("method"), text("path")];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, &list),
    }
    Ok(Exit::Success)
}
