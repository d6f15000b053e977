//! `mainspring submit`: stores a workflow and starts a run that servers execute.

use std::sync::Arc;

use clap::Args;
use mainspring_core::state::RunState;
use mainspring_core::workflow::MAX_PRIORITY;
use mainspring_engine::{Client, Spec, Submission};
use mainspring_store::Created;
use serde_json::Value;

use crate::app::App;
use crate::database;
use crate::failure::{Exit, Failure, Result};
use crate::inputs::InputArgs;
use crate::output::Format;
use crate::progress::{Follower, Show, failed, print_summary};
use crate::signals::Signals;
use crate::{bundle, source, views};

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The workflow file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    inputs: InputArgs,
    /// Follow the run to its end; the exit code tells how it went
    #[arg(long)]
    wait: bool,
    /// The same key again is the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// low, medium, high, critical, or 0 (last) to 1000 (first)
    #[arg(long, value_name = "PRIORITY", value_parser = parse_priority)]
    priority: Option<i16>,
    /// A name of yours by which the run can be found
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

fn parse_priority(text: &str) -> std::result::Result<i16, String> {
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

pub(crate) async fn submit(app: &App<'_>, args: SubmitArgs) -> Result {
    app.start_logs();
    for (flag, text) in [("idempotency-key", &args.idempotency_key), ("correlation-id", &args.correlation_id)] {
        if let Some(text) = text {
            require_text(flag, text)?;
        }
    }
    let (workflow, source) = source::workflow(app, &args.file)?;
    let files = bundle::read(&workflow, &source)?;
    let inputs = args.inputs.values(&workflow)?;
    let mut signals = Signals::install()?;
    let client = app.client(database::connect(&app.config).await?);
    database::prepare(client.store(), client.now(), false).await?;
    let spec = client.put_workflow_with_files(workflow, &source.text, &files).await?;
    let submission = Submission {
        inputs,
        priority: args.priority,
        correlation_id: args.correlation_id,
        idempotency_key: args.idempotency_key,
        trigger: None,
        overlap: None,
    };
    start(app, &client, spec, submission, args.wait, &mut signals).await
}

/// Starts a run of a version and, if asked to, follows it to its end.
pub(super) async fn start(
    app: &App<'_>,
    client: &Client,
    spec: Arc<Spec>,
    submission: Submission,
    wait: bool,
    signals: &mut Signals,
) -> Result {
    let created = client.submit(&spec, submission).await?;
    let Some(id) = created.run() else {
        return Err(Failure::failed(
            "the run was left out: as many runs as `concurrency` permits are going on already",
        )
        .remedy("wait for one of them, or use `overlap: queue` in the workflow"));
    };
    if !wait {
        show_submitted(app, client, created).await?;
        return Ok(Exit::Success);
    }
    let as_json = matches!(app.out.format, Some(Format::Json | Format::Yaml));
    let mut show = Show::new(app.out, !as_json);
    let mut follower = Follower::new(client.clone(), spec, id, None, !show.is_nothing()).await?;
    loop {
        let changes = follower.look().await?;
        show.update(&follower.look, &changes, client.now());
        if follower.look.summary.state.is_terminal() {
            break;
        }
        let pause = follower.pause(app.follow_every());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = signals.next() => {
                drop(show);
                app.out.note(format_args!("run {id} goes on; `mainspring runs cancel {id}` ends it"));
                return Ok(Exit::Interrupted);
            }
        }
    }
    show.finish(&follower.look, client.now());
    drop(show);
    let rows = client.store().task_runs(id).await?;
    if as_json {
        let report = views::Report::new(&follower.look.summary, &rows, &follower.spec.workflow, None);
        app.out.value(app.out.format.unwrap_or(Format::Json), &report);
    } else {
        follower.look_at_the_end().await?;
        print_summary(app.out, &follower.look, &failed(&rows, &follower.spec.workflow));
    }
    Ok(if follower.look.summary.state == RunState::Success { Exit::Success } else { Exit::WorkFailed })
}

async fn show_submitted(app: &App<'_>, client: &Client, created: Created) -> Result<()> {
    let Some(id) = created.run() else { return Ok(()) };
    match app.out.record_format() {
        Format::Table => {
            let how = match created {
                Created::Queued(_) => "waits for its turn",
                Created::Repeated(_) => "was submitted before",
                Created::New(_) | Created::Refused => "was submitted",
            };
            app.out.line(format_args!("run {id} {how}"));
            app.out.note(format_args!("follow it with `mainspring runs logs -f {id}`"));
        }
        format => {
            let run = client.store().run(id).await?;
            app.out.value(format, &Value::Object(views::run(&run)));
        }
    }
    Ok(())
}

/// What becomes a column of the database: bounded, and without characters that hide.
pub(super) fn require_text(flag: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.chars().count() > 255 || text.chars().any(char::is_control) {
        return Err(Failure::bad_input(format!("--{flag} is not usable"))
            .remedy("write 1 to 255 characters without control characters"));
    }
    Ok(())
}
