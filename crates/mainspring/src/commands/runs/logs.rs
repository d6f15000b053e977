//! `mainspring runs logs`.

use std::collections::HashMap;

use clap::Args;
use mainspring_core::diagnostic::{did_you_mean, quoted};
use mainspring_core::time::rfc3339;
use mainspring_core::work::LogLine;
use mainspring_core::{TaskKey, Workflow};
use mainspring_engine::Client;
use mainspring_store::{LogCursor, TaskRunRow};
use serde_json::{Value, json};

use super::parse_run;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Paint, plain};
use crate::signals::Signals;
use crate::views;

const CHUNKS_AT_ONCE: i64 = 64;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Only this task
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Only this attempt
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// Go on until the run ends
    #[arg(short, long)]
    follow: bool,
    /// Show when each line was printed
    #[arg(short, long)]
    timestamps: bool,
}

pub(super) async fn logs(app: &App<'_>, client: &Client, args: LogsArgs) -> Result {
    let id = parse_run(&args.run)?;
    let mut signals = Signals::install()?;
    let spec = client.spec(client.store().run_summary(id).await?.version).await?;
    let wanted = args.task.as_deref().map(|task| task_index(&spec.workflow, task)).transpose()?;
    let mut reader =
        Reader { app, client, args: &args, workflow: &spec.workflow, cursors: HashMap::new(), items: Vec::new() };
    loop {
        // The state first: what is printed after the end was seen is complete.
        let summary = client.store().run_summary(id).await?;
        for row in client.store().task_runs(id).await? {
            let is_wanted = wanted.is_none_or(|index| index == row.key.index as usize);
            if is_wanted && row.attempt > 0 {
                reader.read(&row).await?;
            }
        }
        if !args.follow || summary.state.is_terminal() || app.out.is_gone() {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(app.follow_every()) => {}
            _ = signals.next() => return Ok(Exit::Interrupted),
        }
    }
    if let Some(format @ (Format::Json | Format::Yaml)) = app.out.format
        && !args.follow
    {
        app.out.value(format, &json!({"items": reader.items, "next": null}));
    }
    Ok(Exit::Success)
}

struct Reader<'a> {
    app: &'a App<'a>,
    client: &'a Client,
    args: &'a LogsArgs,
    workflow: &'a Workflow,
    cursors: HashMap<TaskKey, (LogCursor, bool)>,
    /// Gathered for one JSON answer.
    items: Vec<Value>,
}

impl Reader<'_> {
    async fn read(&mut self, row: &TaskRunRow) -> Result<()> {
        let (mut cursor, is_done) = self.cursors.get(&row.key).copied().unwrap_or_default();
        if is_done {
            return Ok(());
        }
        loop {
            let chunks = self.client.store().read_logs(row.key, self.args.attempt, cursor, CHUNKS_AT_ONCE).await?;
            let is_last = chunks.len() < CHUNKS_AT_ONCE as usize;
            for (at, lines) in chunks {
                cursor = at;
                for line in lines {
                    self.print(row, at.attempt, &line);
                }
            }
            if is_last || self.app.out.is_gone() {
                break;
            }
        }
        self.cursors.insert(row.key, (cursor, row.state.is_terminal()));
        Ok(())
    }

    fn print(&mut self, row: &TaskRunRow, attempt: i32, line: &LogLine) {
        let out = self.app.out;
        let task = views::task_name(self.workflow, row);
        if matches!(out.format, Some(Format::Json | Format::Yaml)) {
            let item = json!({
                "timestamp": rfc3339(line.at),
                "task_id": task,
                "attempt": attempt,
                "stream": line.stream.word(),
                "message": line.text,
            });
            if self.args.follow {
                out.line(&item);
            } else {
                self.items.push(item);
            }
            return;
        }
        let palette = out.palette();
        // A program that reads the lines gets them as they were printed.
        let text = if out.is_terminal() { plain(&line.text) } else { line.text.clone() };
        let at = if self.args.timestamps { format!("{} ", rfc3339(line.at)) } else { String::new() };
        let name =
            if self.args.task.is_none() { palette.paint(Paint::Dim, format_args!("{task} | ")) } else { String::new() };
        out.line(format_args!("{at}{name}{text}"));
    }
}

pub(crate) fn task_index(workflow: &Workflow, name: &str) -> Result<usize> {
    workflow.task_index(name).ok_or_else(|| {
        let near = did_you_mean(name, workflow.tasks.iter().map(|task| task.name.as_str()));
        let names: Vec<&str> = workflow.tasks.iter().take(20).map(|task| task.name.as_str()).collect();
        Failure::bad_input(format!("the workflow `{}` has no task {}", workflow.name, quoted(name)))
            .remedy(near.unwrap_or_else(|| format!("there are {}", names.join(", "))))
    })
}
