//! `mainspring runs list`.

use clap::Args;
use mainspring_core::Micros;
use mainspring_core::diagnostic::{did_you_mean, quoted};
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_engine::SystemClock;
use serde_json::Value;

use crate::api::{Connection, items};
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::instants::parse_instant;
use crate::output::{Format, Table, columns, seconds};
use crate::views::{self, instant, text};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only runs in this state: pending, running, paused, success, failed, cancelled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Only runs with this correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Only runs made since then: 2026-01-31T08:00:00Z, or 2h for two hours ago
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs made before then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=500))]
    limit: i64,
    /// Go on where a list ended, as `next` said
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    cursor: Option<String>,
}

impl ListArgs {
    /// Whatever can be refused without asking anybody; the times as the API takes them.
    pub(super) fn check(&self, now: Micros) -> Result<[Option<String>; 2]> {
        if let Some(word) = &self.status
            && word.parse::<RunState>().is_err()
        {
            let words: Vec<&str> = RunState::ALL.iter().map(|state| state.word()).collect();
            let near = did_you_mean(word, words.iter().copied());
            return Err(Failure::bad_input(format!("{} is not a status of runs", quoted(word)))
                .remedy(near.unwrap_or_else(|| format!("there are {}", words.join(", ")))));
        }
        let instant = |flag: &str, text: &Option<String>| {
            text.as_deref().map(|text| parse_instant(flag, text, now).map(rfc3339)).transpose()
        };
        Ok([instant("since", &self.since)?, instant("until", &self.until)?])
    }
}

pub(super) async fn list(app: &App<'_>, api: Connection, args: ListArgs) -> Result {
    let now = SystemClock::new().now();
    let [since, until] = args.check(now)?;
    let limit = args.limit.to_string();
    let query = [
        ("status", args.status.as_deref()),
        ("namespace", api.namespace()),
        ("workflow", args.workflow.as_deref()),
        ("correlation_id", args.correlation_id.as_deref()),
        ("since", since.as_deref()),
        ("until", until.as_deref()),
        ("limit", Some(limit.as_str())),
        ("cursor", args.cursor.as_deref()),
    ];
    let found = api.get(&["workflow-runs"], &query).await?;
    match app.out.record_format() {
        Format::Table => print(app, &found, now),
        format => app.out.value(format, &found),
    }
    Ok(Exit::Success)
}

fn print(app: &App<'_>, found: &Value, now: Micros) {
    // An id and a full time leave no room for anything else on a narrow terminal.
    let is_narrow = app.out.is_terminal() && columns() < 100;
    let mut table = match is_narrow {
        true => Table::new(&["RUN", "STATUS", "AGE", "TOOK", "WORKFLOW"]),
        false => Table::new(&["RUN", "STATUS", "CREATED", "TOOK", "WORKFLOW"]),
    };
    for run in items(found) {
        let until = instant(run, "finished_at").unwrap_or(now);
        let took = instant(run, "started_at").map_or(String::new(), |started| seconds(until - started));
        let name = match text(run, "namespace") {
            DEFAULT_NAMESPACE => text(run, "workflow").to_owned(),
            namespace => format!("{namespace}/{}", text(run, "workflow")),
        };
        let created = instant(run, "created_at").unwrap_or(now);
        let created = match is_narrow {
            true => age(now - created),
            false => format!("{}Z", &rfc3339(created)[..19]),
        };
        table.row(vec![
            (text(run, "id").to_owned(), None),
            (text(run, "status").to_owned(), views::state(run).map(views::run_paint)),
            (created, None),
            (took, None),
            (name, None),
        ]);
    }
    if items(found).is_empty() {
        app.out.note("no runs");
    } else {
        table.print(app.out);
    }
    if let Some(next) = found["next"].as_str() {
        app.out.note(format_args!("there are more: --cursor {next}"));
    }
}

/// `12s`, `5m`, `3h`, `9d`.
fn age(micros: i64) -> String {
    match micros.max(0) / 1_000_000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
