//! `mainspring runs logs`.

use std::collections::HashMap;

use clap::Args;
use mainspring_core::TaskKey;
use mainspring_core::diagnostic::{did_you_mean, quoted};
use mainspring_core::state::RunState;
use mainspring_core::time::rfc3339;
use mainspring_core::work::LogLine;
use mainspring_store::{LogCursor, TaskRunRow};
use serde_json::{Value, json};

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::find_run;
use crate::output::{Format, Paint, plain};
use crate::progress::Source;
use crate::signals::Signals;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Only this task; `name[2]` is an item
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Only this attempt
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// Go on until the run ends; the exit code tells how it went
    #[arg(short, long)]
    follow: bool,
    /// Show when each line was printed
    #[arg(short, long)]
    timestamps: bool,
}

pub(super) async fn logs(app: &App<'_>, api: Connection, args: LogsArgs) -> Result {
    let id = find_run(&api, &args.run).await?;
    let mut signals = Signals::install()?;
    let source = Source::new(api, id);
    let names = source.task_names().await?;
    let wanted = args.task.as_deref().map(|task| Wanted::read(&names, task)).transpose()?;
    let mut reader =
        Reader { app, source, args: &args, names, cursors: HashMap::new(), begun: HashMap::new(), items: Vec::new() };
    let state = loop {
        // The state first: what is printed after the end was seen is complete.
        let state = reader.source.summary().await?.state;
        for row in reader.source.task_runs().await? {
            let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted.is(row.key));
            if is_wanted && row.attempt > 0 {
                reader.read(&row).await?;
            }
        }
        if !args.follow || state.is_terminal() || app.out.is_gone() {
            break state;
        }
        tokio::select! {
            () = reader.source.rest(app.follow_every()) => {}
            _ = signals.next() => return Ok(Exit::Interrupted),
        }
    };
    if let Some(format @ (Format::Json | Format::Yaml)) = app.out.format
        && !args.follow
    {
        app.out.value(format, &json!({"items": reader.items, "next": null}));
    }
    Ok(match state {
        RunState::Failed | RunState::Cancelled if args.follow => Exit::WorkFailed,
        _ => Exit::Success,
    })
}

/// A task with all its items, or one item.
struct Wanted {
    index: i32,
    item: Option<i32>,
}

impl Wanted {
    /// `name`, or `name[2]` for an item.
    fn read(names: &[String], text: &str) -> Result<Self> {
        let item = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
        let item = item.and_then(|(name, number)| Some((name, number.parse::<u16>().ok()?)));
        let (name, item) = item.map_or((text, None), |(name, item)| (name, Some(i32::from(item))));
        match names.iter().position(|one| one == name) {
            Some(index) => Ok(Self { index: index as i32, item }),
            None => {
                let near = did_you_mean(name, names.iter().map(String::as_str));
                let some: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
                Err(Failure::bad_input(format!("the run has no task {}", quoted(text)))
                    .remedy(near.unwrap_or_else(|| format!("there are {}", some.join(", ")))))
            }
        }
    }

    fn is(&self, key: TaskKey) -> bool {
        key.index == self.index && self.item.is_none_or(|item| item == key.item)
    }
}

struct Reader<'a> {
    app: &'a App<'a>,
    source: Source,
    args: &'a LogsArgs,
    names: Vec<String>,
    cursors: HashMap<TaskKey, (LogCursor, bool)>,
    /// The attempt whose beginning was marked last, by task.
    begun: HashMap<String, i32>,
    /// Gathered for one JSON answer.
    items: Vec<Value>,
}

impl Reader<'_> {
    async fn read(&mut self, row: &TaskRunRow) -> Result<()> {
        let (mut cursor, is_done) = self.cursors.get(&row.key).copied().unwrap_or_default();
        if is_done {
            return Ok(());
        }
        let task = self.name(row.key);
        loop {
            let printed = self.source.printed(row.key, self.args.attempt, cursor).await?;
            cursor = printed.after;
            for (attempt, lines) in &printed.parts {
                for line in lines {
                    self.print(&task, *attempt, line);
                }
            }
            if printed.is_last || self.app.out.is_gone() {
                break;
            }
        }
        self.cursors.insert(row.key, (cursor, row.state.is_terminal()));
        Ok(())
    }

    fn name(&self, key: TaskKey) -> String {
        let name = usize::try_from(key.index).ok().and_then(|index| self.names.get(index));
        let name = name.map_or_else(|| key.index.to_string(), Clone::clone);
        if key.item < 0 { name } else { format!("{name}[{}]", key.item) }
    }

    fn print(&mut self, task: &str, attempt: i32, line: &LogLine) {
        let out = self.app.out;
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
        if self.begun.insert(task.to_owned(), attempt).unwrap_or(1) != attempt {
            let mark = format!("-- {task}, attempt {attempt} --");
            out.line(palette.paint(Paint::Dim, mark));
        }
        // A program that reads the lines gets them as they were printed.
        let text = if out.is_terminal() { plain(&line.text) } else { line.text.clone() };
        let at = if self.args.timestamps { format!("{} ", rfc3339(line.at)) } else { String::new() };
        let name =
            if self.args.task.is_none() { palette.paint(Paint::Dim, format_args!("{task} | ")) } else { String::new() };
        out.line(format_args!("{at}{name}{text}"));
    }
}
