//! `mainspring runs list`.

use clap::Args;
use mainspring_api::List;
use mainspring_api::runs::Run;
use mainspring_core::Micros;
use mainspring_core::diagnostic::{did_you_mean, quoted};
use mainspring_core::state::RunState;
use mainspring_core::time::{self, rfc3339};
use mainspring_core::work::Clock;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_engine::SystemClock;
use serde_json::Value;

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::{short_length, shortened};
use crate::instants::parse_instant;
use crate::output::{Format, Table, local_text, seconds};
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
    /// Only runs of workflows with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only runs with this value of an input, with --workflow or --since beside it
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    input: Option<String>,
    /// Only runs made since then: 2026-01-31T08:00:00Z, or 2h for two hours ago
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs made before then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = crate::cli::limit_wide)]
    limit: i64,
    /// Go on where a list ended, as `next` said
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    cursor: Option<String>,
}

impl ListArgs {
    /// What can be refused without asking a server or a database; the times as the API takes them.
    pub(super) fn check(&self, now: Micros) -> Result<[Option<String>; 2]> {
        if let Some(word) = &self.status
            && word.parse::<RunState>().is_err()
        {
            let words: Vec<&str> = RunState::ALL.iter().map(|state| state.word()).collect();
            let near = did_you_mean(word, words.iter().copied());
            return Err(Failure::bad_input(format!("{} is not a status of runs", quoted(word)))
                .remedy(near.unwrap_or_else(|| format!("there are {}", words.join(", ")))));
        }
        if self.input.is_some() && self.workflow.is_none() && self.since.is_none() {
            return Err(Failure::bad_input("--input looks into every run that the rest of the command finds")
                .remedy("name a workflow or a time too: --workflow NAME, or --since 24h"));
        }
        let instant = |flag: &str, text: &Option<String>| {
            text.as_deref().map(|text| parse_instant(flag, text, now).map(rfc3339)).transpose()
        };
        Ok([instant("since", &self.since)?, instant("until", &self.until)?])
    }
}

fn name_and_value(text: &str) -> std::result::Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("write the name of an input and its value, like region=eu".to_owned()),
    }
}

pub(super) async fn list(app: &App<'_>, api: Connection, args: ListArgs) -> Result {
    let now = SystemClock::new().now();
    let [since, until] = args.check(now)?;
    let limit = args.limit.to_string();
    let format = app.out.record_format();
    let query = [
        ("status", args.status.as_deref()),
        ("namespace", api.namespace()),
        ("workflow", args.workflow.as_deref()),
        ("correlation_id", args.correlation_id.as_deref()),
        ("tag", args.tag.as_deref()),
        ("input", args.input.as_deref()),
        ("since", since.as_deref()),
        ("until", until.as_deref()),
        ("include", Some("trigger")),
        ("limit", Some(limit.as_str())),
        ("cursor", args.cursor.as_deref()),
    ];
    let found: List<Run> = api.read(&["workflow-runs"], &query).await?;
    match format {
        Format::Table => print(app, &found, now),
        format => app.out.value(format, &found),
    }
    Ok(Exit::Success)
}

fn print(app: &App<'_>, found: &List<Run>, now: Micros) {
    if found.items.is_empty() {
        return app.out.note("no runs");
    }
    let ids: Vec<String> = found.items.iter().map(|run| run.id.to_string()).collect();
    let length = short_length(ids.iter().map(String::as_str));
    let mut table = Table::new(&["RUN", "STATUS", "CREATED", "TOOK", "TRIGGER", "WORKFLOW"]);
    for (run, id) in found.items.iter().zip(&ids) {
        let at = |text: &Option<String>| text.as_deref().and_then(time::parse);
        let until = at(&run.finished_at).unwrap_or(now);
        let took = at(&run.started_at).map_or(String::new(), |started| seconds(until - started));
        let name = match run.namespace.as_str() {
            DEFAULT_NAMESPACE => run.workflow.clone(),
            namespace => format!("{namespace}/{}", run.workflow),
        };
        let paint = run.status.word().parse().ok().map(views::run_paint);
        table.row(vec![
            (shortened(id, length).to_owned(), None),
            (run.status.to_string(), paint),
            (local_text(&run.created_at), None),
            (took, None),
            (trigger(run.trigger.as_ref()), None),
            (name, None),
        ]);
    }
    table.print(app.out);
    if let Some(next) = &found.next {
        app.out.note(format_args!("there are more: --cursor {next}"));
    }
}

/// What started a run, with the nominal time where it has one.
pub(super) fn trigger(trigger: Option<&Value>) -> String {
    let Some(trigger) = trigger else { return String::new() };
    let word = |field: &str| trigger[field].as_str();
    let kind = word("kind").unwrap_or_default();
    match (kind, word("scheduled_for"), word("by"), word("event").or_else(|| word("name"))) {
        (_, Some(nominal), ..) => format!("{kind} {}", local_text(nominal)),
        (_, None, Some(by), _) => format!("{kind} by {by}"),
        (_, None, None, Some(name)) => format!("{kind} {name}"),
        _ => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::trigger;

    #[test]
    fn triggers_are_told_in_words() {
        assert_eq!(trigger(None), "");
        assert_eq!(trigger(Some(&json!({"kind": "manual", "by": "ann"}))), "manual by ann");
        assert_eq!(trigger(Some(&json!({"kind": "event", "event": "order.imported"}))), "event order.imported");
        assert!(
            trigger(Some(&json!({"kind": "cron", "scheduled_for": "2026-11-17T03:00:00Z"})))
                .starts_with("cron 2026-11-1")
        );
    }
}
