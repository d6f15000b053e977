//! `mainspring runs cancel|pause|resume|retry|rerun`.

use clap::Args;
use serde_json::{Value, json};

use super::parse_run;
use crate::api::{Connection, Content};
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::Format;
use crate::views;

#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Why, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who acts [default: $USER, or whose token it is]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    #[command(flatten)]
    pub(super) act: ActArgs,
    /// The task to begin with; may be given several times
    #[arg(long, required = true, value_name = "TASK")]
    from: Vec<String>,
}

pub(super) async fn cancel(app: &App<'_>, api: Connection, args: ActArgs) -> Result {
    let run = parse_run(&args.run)?.to_string();
    let body = json!({"by": args.by, "reason": args.reason});
    let content = Content { kind: "application/json", bytes: body.to_string().into_bytes() };
    let api = api.acting_as(args.by.as_deref());
    let answer = api.ask("POST", &["workflow-runs", &run, "cancel"], &[], Some(content), &[]).await?;
    // What has ended already needs no cancelling: that is no failure.
    if answer.status == 409 {
        let shown = api.get(&["workflow-runs", &run], &[]).await?;
        if shown["finished_at"].is_string() {
            tell(app, &shown, &format!("had ended before: {}", views::text(&shown, "status")));
            return Ok(Exit::Success);
        }
    }
    tell(app, &answer.value()?, "is being cancelled");
    Ok(Exit::Success)
}

pub(super) async fn pause(app: &App<'_>, api: Connection, args: ActArgs) -> Result {
    let shown = act(api, args, "pause", None).await?;
    tell(app, &shown, "is paused; what runs goes on");
    Ok(Exit::Success)
}

pub(super) async fn resume(app: &App<'_>, api: Connection, args: ActArgs) -> Result {
    let shown = act(api, args, "resume", None).await?;
    tell(app, &shown, "goes on");
    Ok(Exit::Success)
}

pub(super) async fn retry(app: &App<'_>, api: Connection, args: ActArgs) -> Result {
    let shown = act(api, args, "retry", None).await?;
    tell_reopened(app, &shown);
    Ok(Exit::Success)
}

pub(super) async fn rerun(app: &App<'_>, api: Connection, args: RerunArgs) -> Result {
    let shown = act(api, args.act, "rerun", Some(args.from)).await?;
    tell_reopened(app, &shown);
    Ok(Exit::Success)
}

/// Does something to a run and returns it as it is then.
async fn act(api: Connection, args: ActArgs, action: &str, from: Option<Vec<String>>) -> Result<Value> {
    let run = parse_run(&args.run)?.to_string();
    let mut body = json!({"by": args.by, "reason": args.reason});
    if let Some(from) = from {
        body["from"] = json!(from);
    }
    let api = api.acting_as(args.by.as_deref());
    api.send("POST", &["workflow-runs", &run, action], &[], Some(&body)).await
}

fn tell_reopened(app: &App<'_>, shown: &Value) {
    let words = match shown["reopened_tasks"].as_u64() {
        Some(1) => "does 1 task again".to_owned(),
        Some(tasks) => format!("does {tasks} tasks again"),
        None => "goes on".to_owned(),
    };
    tell(app, shown, &words);
}

/// What was done, in words, or the run as it is now.
fn tell(app: &App<'_>, shown: &Value, words: &str) {
    match app.out.record_format() {
        Format::Table => app.out.line(format_args!("run {} {words}", views::text(shown, "id"))),
        format => app.out.value(format, &views::shown_run(shown)),
    }
}
