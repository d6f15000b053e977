//! Starting a run, for `submit` and `trigger`, and following it to its end.

use mainspring_core::RunId;
use mainspring_core::state::RunState;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;
use serde_json::{Map, Value, json};

use crate::api::{Connection, Content, strange};
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::Format;
use crate::progress::{Follower, Plan, Show, Source, failed, print_summary};
use crate::signals::Signals;
use crate::views;

/// What a run is given.
pub(super) struct Start {
    /// The id of the workflow.
    pub(super) workflow: String,
    /// The version that is meant.
    pub(super) version: i64,
    pub(super) plan: Plan,
    pub(super) inputs: Map<String, Value>,
    /// When it is to start, if not at once.
    pub(super) at: Option<String>,
    pub(super) priority: Option<i16>,
    pub(super) correlation_id: Option<String>,
    pub(super) idempotency_key: Option<String>,
}

/// Starts a run and, if asked to, follows it to its end.
pub(super) async fn start(app: &App<'_>, api: Connection, start: Start, wait: bool, signals: &mut Signals) -> Result {
    let body = json!({
        "inputs": start.inputs,
        "at": start.at,
        "priority": start.priority,
        "correlation_id": start.correlation_id,
        "idempotency_key": start.idempotency_key,
    });
    let content = Content { kind: "application/json", bytes: body.to_string().into_bytes() };
    let answer = api.ask("POST", &["workflows", &start.workflow, "trigger"], &[], Some(content), &[]).await?;
    if answer.status == 409 {
        let failure = "the run was left out: as many runs as `concurrency` permits are going on already";
        return Err(Failure::failed(failure).remedy("wait for one of them, or use `overlap: queue` in the workflow"));
    }
    let run = answer.value()?;
    let id: RunId = run["id"].as_str().and_then(|id| id.parse().ok()).ok_or_else(strange)?;
    let is_repeated = answer.status == 200;
    if !is_repeated && run["version"].as_i64() != Some(start.version) {
        let version = &run["version"];
        app.out.note(format_args!("the workflow was changed meanwhile: run {id} is of its version {version}"));
    }
    if !wait {
        show_started(app, &run, is_repeated);
        return Ok(Exit::Success);
    }
    follow(app, Source::new(api, id), start.plan, signals).await
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
    if as_json {
        let report = views::Report::new(&follower.look.summary, &rows, &follower.plan, None);
        app.out.value(app.out.format.unwrap_or(Format::Json), &report);
    } else {
        follower.look_at_the_end().await?;
        print_summary(app.out, &follower.look, &failed(&rows, &follower.plan));
    }
    Ok(if follower.look.summary.state == RunState::Success { Exit::Success } else { Exit::WorkFailed })
}

fn show_started(app: &App<'_>, run: &Value, is_repeated: bool) {
    match app.out.record_format() {
        Format::Table => {
            let id = run["id"].as_str().unwrap_or_default();
            let how = match run["status"].as_str() {
                _ if is_repeated => "was submitted before",
                Some("pending") => match run["trigger"]["scheduled_for"].as_str() {
                    Some(at) => &format!("starts at {at}"),
                    None => "waits for its turn",
                },
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
