//! `mainspring runs list`.

use clap::Args;
use mainspring_core::diagnostic::{did_you_mean, quoted};
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_engine::Client;
use mainspring_store::RunFilter;
use serde_json::{Value, json};

use super::parse_run;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::instants::parse_instant;
use crate::output::{Format, Table, columns, seconds};
use crate::views;

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
    /// Go on after this run, as `next` said
    #[arg(long, value_name = "RUN")]
    cursor: Option<String>,
}

impl ListArgs {
    /// Whatever can be refused without a database.
    pub(super) fn check(&self) -> Result<()> {
        self.filter(None, 0).map(drop)
    }

    fn filter(&self, namespace: Option<String>, now: i64) -> Result<RunFilter> {
        let state = match &self.status {
            None => None,
            Some(word) => Some(word.parse::<RunState>().map_err(|_| {
                let words: Vec<&str> = RunState::ALL.iter().map(|state| state.word()).collect();
                let near = did_you_mean(word, words.iter().copied());
                Failure::bad_input(format!("{} is not a status of runs", quoted(word)))
                    .remedy(near.unwrap_or_else(|| format!("there are {}", words.join(", "))))
            })?),
        };
        let instant =
            |flag: &str, text: &Option<String>| text.as_deref().map(|text| parse_instant(flag, text, now)).transpose();
        Ok(RunFilter {
            state,
            namespace,
            workflow: self.workflow.clone(),
            correlation_id: self.correlation_id.clone(),
            since: instant("since", &self.since)?,
            until: instant("until", &self.until)?,
            before: self.cursor.as_deref().map(parse_run).transpose()?,
            limit: self.limit + 1,
            ..RunFilter::default()
        })
    }
}

pub(super) async fn list(app: &App<'_>, client: &Client, args: ListArgs) -> Result {
    let now = client.now();
    let mut runs = client.store().list_runs(&args.filter(app.namespace.clone(), now)?).await?;
    // One more than asked for tells whether there is a next page.
    let next = if runs.len() as i64 > args.limit {
        runs.truncate(args.limit as usize);
        runs.last().map(|run| run.id.to_string())
    } else {
        None
    };
    match app.out.record_format() {
        Format::Table => {
            // An id and a full time leave no room for anything else on a narrow terminal.
            let is_narrow = app.out.is_terminal() && columns() < 100;
            let mut table = match is_narrow {
                true => Table::new(&["RUN", "STATUS", "AGE", "TOOK", "WORKFLOW"]),
                false => Table::new(&["RUN", "STATUS", "CREATED", "TOOK", "WORKFLOW"]),
            };
            for run in &runs {
                let until = run.finished_at.unwrap_or(now);
                let took = run.started_at.map_or(String::new(), |started| seconds(until - started));
                let name = match run.namespace.as_str() {
                    mainspring_core::workflow::DEFAULT_NAMESPACE => run.workflow.clone(),
                    namespace => format!("{namespace}/{}", run.workflow),
                };
                let created = match is_narrow {
                    true => age(now - run.created_at),
                    false => format!("{}Z", &rfc3339(run.created_at)[..19]),
                };
                table.row(vec![
                    (run.id.to_string(), None),
                    (run.state.to_string(), Some(views::run_paint(run.state))),
                    (created, None),
                    (took, None),
                    (name, None),
                ]);
            }
            if runs.is_empty() {
                app.out.note("no runs");
            } else {
                table.print(app.out);
            }
            if let Some(next) = next {
                app.out.note(format_args!("there are more: --cursor {next}"));
            }
        }
        format => {
            let items: Vec<Value> = runs.iter().map(|run| Value::Object(views::run_summary(run))).collect();
            app.out.value(format, &json!({"items": items, "next": next}));
        }
    }
    Ok(Exit::Success)
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
