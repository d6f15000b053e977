//! Starting a run, for `submit` and `trigger`, and following it to its end.

use std::sync::Arc;

use clap::Args;
use mainspring_api::List;
use mainspring_api::runs::{Run, RunStatus};
use mainspring_api::workers::Worker;
use mainspring_api::workflows::TriggerBody;
use mainspring_core::RunId;
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_core::workflow::MAX_PRIORITY;
use mainspring_engine::SystemClock;
use serde_json::{Map, Value};

use super::runs::workflow_of;
use crate::api::{Connection, Content, PAGE};
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::inputs::InputArgs;
use crate::instants::parse_future;
use crate::output::{Format, local_text};
use crate::progress::{Follower, Plan, Show, Source, failed, print_summary};
use crate::signals::Signals;
use crate::views;

/// What `submit` and `trigger` have in common.
#[derive(Debug, Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    #[command(flatten)]
    wait: WaitArg,
    /// Start it then: 2026-01-31T08:00:00+01:00, or 5m for in five minutes; at once if that has passed
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// low, medium, high, critical, or 0 (last) to 1000 (first)
    #[arg(long, value_name = "PRIORITY", value_parser = parse_priority)]
    priority: Option<i16>,
    /// The same key again is the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// A name of yours by which the run can be found
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

/// Of everything that sets a run going.
#[derive(Debug, Args)]
pub(crate) struct WaitArg {
    /// Follow the run to its end; the exit code tells how it went
    #[arg(short = 'f', long, visible_alias = "follow")]
    pub(super) wait: bool,
}

impl StartArgs {
    /// What can be refused without asking a server or a database.
    pub(super) fn check(&self) -> Result<()> {
        require_text("idempotency-key", self.idempotency_key.as_ref())?;
        require_text("correlation-id", self.correlation_id.as_ref())?;
        self.at().map(|_| ())
    }

    fn at(&self) -> Result<Option<String>> {
        let now = SystemClock::new().now();
        self.at.as_deref().map(|at| parse_future("at", at, now).map(rfc3339)).transpose()
    }
}

pub(super) fn parse_priority(text: &str) -> std::result::Result<i16, String> {
    match text {
        "low" => Ok(250),
        "medium" => Ok(500),
        "high" => Ok(750),
        "critical" => Ok(MAX_PRIORITY),
        _ => text
            .parse()
            .ok()
            .filter(|number| (0..=MAX_PRIORITY).contains(number))
            .ok_or_else(|| format!("write low, medium, high, critical, or a number from 0 to {MAX_PRIORITY}")),
    }
}

/// What a run is given.
pub(super) struct Start {
    /// The id of the workflow.
    pub(super) workflow: String,
    /// The version that is meant.
    pub(super) version: i64,
    pub(super) plan: Plan,
    pub(super) inputs: Map<String, Value>,
}

/// Starts a run and, if asked to, follows it to its end.
pub(super) async fn start(
    app: &App<'_>,
    api: Connection,
    start: Start,
    args: StartArgs,
    signals: &mut Signals,
) -> Result {
    let body = TriggerBody {
        inputs: Some(start.inputs),
        at: args.at()?,
        priority: args.priority.map(Value::from),
        correlation_id: args.correlation_id,
        idempotency_key: args.idempotency_key,
    };
    let bytes = serde_json::to_vec(&body).map_err(|error| Failure::failed(error.to_string()))?;
    let content = Content { kind: "application/json", bytes };
    let answer = api.ask("POST", &["workflows", &start.workflow, "trigger"], &[], Some(content), &[]).await?;
    if answer.status == 409 {
        let failure = "the run was left out: as many runs as `concurrency` permits are going on already";
        return Err(Failure::failed(failure).remedy("wait for one of them, or use `overlap: queue` in the workflow"));
    }
    let run: Run = answer.read()?;
    let id: RunId = run.id;
    let is_repeated = answer.status == 200;
    if !is_repeated && i64::from(run.version) != start.version {
        let version = run.version;
        app.out.note(format_args!("the workflow was changed meanwhile: run {id} is of its version {version}"));
    }
    tell_unserved(app, &api, "the run waits").await;
    if !args.wait.wait {
        show_started(app, &run, is_repeated);
        return Ok(Exit::Success);
    }
    follow(app, Source::new(api, id), start.plan, signals).await
}

/// Follows a run that another command has set going.
pub(super) async fn follow_run(app: &App<'_>, api: Connection, run: RunId) -> Result {
    let mut signals = Signals::install()?;
    tell_unserved(app, &api, "the run waits").await;
    let plan = Plan::Read(Arc::new(workflow_of(&api, run).await?));
    follow(app, Source::new(api, run), plan, &mut signals).await
}

/// Says that nothing executes what was asked for, if that is so.
pub(super) async fn tell_unserved(app: &App<'_>, api: &Connection, what_waits: &str) {
    if !is_served(api).await {
        let place = api.place();
        app.out.note(format_args!("nothing serves {place}: {what_waits} until `mainspring server` is started on it"));
    }
}

async fn follow(app: &App<'_>, source: Source, plan: Plan, signals: &mut Signals) -> Result {
    let id = source.run();
    let clock = SystemClock::new();
    let as_json = matches!(app.out.format, Some(Format::Json | Format::Yaml));
    let mut show = Show::new(app.out, !as_json);
    let mut follower = Follower::new(source, plan, None, !show.is_nothing()).await?;
    loop {
        let changes = follower.look().await?;
        show.update(&follower.look, &changes, clock.now());
        if follower.look.summary.state.is_terminal() {
            break;
        }
        tokio::select! {
            () = follower.rest(app.follow_every()) => {}
            _ = signals.next() => {
                drop(show);
                app.out.note(format_args!("run {id} goes on; `mainspring runs cancel {id}` ends it"));
                return Ok(Exit::Interrupted);
            }
        }
    }
    show.finish(&follower.look, clock.now());
    drop(show);
    let rows = follower.task_runs().await?;
    let caches = follower.caches().await?;
    if as_json {
        let report = views::Report::new(&follower.look.summary, &rows, &follower.plan, &caches, None);
        app.out.value(app.out.format.unwrap_or(Format::Json), &report);
    } else {
        follower.look_at_the_end().await?;
        let caches = caches.lines(&rows, &follower.plan);
        print_summary(app.out, &follower.look, &failed(&rows, &follower.plan), &caches);
    }
    Ok(if follower.look.summary.state == RunState::Success { Exit::Success } else { Exit::WorkFailed })
}

/// Whether a worker could execute anything. What cannot be asked is taken for served: the note would only confuse.
pub(super) async fn is_served(api: &Connection) -> bool {
    let query = [("status", Some("active")), ("limit", Some(PAGE))];
    match api.read::<List<Worker>>(&["workers"], &query).await {
        Ok(workers) => workers.items.iter().any(|worker| worker.slots > 0),
        Err(_) => true,
    }
}

fn show_started(app: &App<'_>, run: &Run, is_repeated: bool) {
    match app.out.record_format() {
        Format::Table => {
            let id = run.id;
            let at = run.trigger.as_ref().and_then(|trigger| trigger["scheduled_for"].as_str());
            let how = match (run.status, at) {
                _ if is_repeated => "was submitted before",
                (RunStatus::Pending, Some(at)) => &format!("starts at {}", local_text(at)),
                (RunStatus::Pending, None) => "waits for its turn",
                _ => "was submitted",
            };
            app.out.line(format_args!("run {id} {how}"));
            app.out.note(format_args!("follow it with `mainspring runs logs -f {id}`"));
        }
        format => app.out.value(format, &views::shown_run(run)),
    }
}

/// What becomes a column of the database: bounded, and without characters that hide.
pub(super) fn require_text(flag: &str, text: Option<&String>) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    if text.is_empty() || text.chars().count() > 255 || text.chars().any(char::is_control) {
        return Err(Failure::bad_input(format!("--{flag} is not usable"))
            .remedy("write 1 to 255 characters without control characters"));
    }
    Ok(())
}
