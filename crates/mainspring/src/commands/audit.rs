//! `mainspring audit`: who did what, and who was refused.

use clap::Args;
use mainspring_api::List;
use mainspring_api::audit::AuditEntry;
use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::instants::parse_instant;
use crate::output::{Format, Table, local_text};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::cli::limit)]
    limit: u16,
    /// Only by this actor, as the list shows it
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// From this time on: 2026-01-31T08:00:00Z, or 2h for two hours ago
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
    let now = SystemClock::new().now();
    let instant = |flag: &str, text: &Option<String>| {
        text.as_deref().map(|text| parse_instant(flag, text, now).map(rfc3339)).transpose()
    };
    let (since, until) = (instant("since", &args.since)?, instant("until", &args.until)?);
    let api = Connection::open_existing(app).await?;
    let limit = args.limit.to_string();
    let query = [
        ("limit", Some(limit.as_str())),
        ("namespace", api.namespace()),
        ("actor", args.actor.as_deref()),
        ("since", since.as_deref()),
        ("until", until.as_deref()),
        ("cursor", args.cursor.as_deref()),
    ];
    let list: List<AuditEntry> = api.read(&["audit"], &query).await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["TIME", "ACTOR", "STATUS", "METHOD", "PATH"]);
            for entry in &list.items {
                let actor = entry.actor_name.as_ref().unwrap_or(&entry.actor);
                let (method, path) = (entry.method.clone(), entry.path.clone());
                let cells = [local_text(&entry.at), actor.clone(), entry.status.to_string(), method, path];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
        }
        format => app.out.value(format, &list),
    }
    Ok(Exit::Success)
}
