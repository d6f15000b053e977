//! One line per event, for pipes and files.

use std::fmt::Write as _;

use mainspring_core::Micros;
use mainspring_core::state::TaskState;
use mainspring_core::time::rfc3339;
use mainspring_core::work::LogStream;

use super::follow::{Change, Look};
use crate::output::{Output, Paint, plain, seconds};
use crate::views::task_paint;

pub(crate) struct Lines<'a> {
    out: &'a Output,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(out: &'a Output) -> Self {
        Self { out }
    }

    pub(crate) fn update(&mut self, look: &Look, changes: &[Change]) {
        let palette = self.out.palette();
        // Written at once: a run of very many tasks changes very often.
        let mut text = String::new();
        for change in changes {
            let (at, task, rest) = match change {
                Change::Started { task, attempt, at } => {
                    let max = look.tasks[*task].max_attempts;
                    let again = if *attempt > 1 {
                        format!(" (attempt {attempt} of {})", max.max(*attempt))
                    } else {
                        String::new()
                    };
                    (*at, *task, format!("started{again}"))
                }
                Change::Logged { task, stream, text, at } => {
                    let mark = if *stream == LogStream::System { "!" } else { "|" };
                    // A program that reads the lines gets them as they were printed.
                    let text = if self.out.is_terminal() { plain(text) } else { text.clone() };
                    (*at, *task, format!("{mark} {text}"))
                }
                Change::Retrying { task, attempt, error, due_at, at } => {
                    let wait = due_at - at;
                    let when =
                        if wait > 50_000 { format!(", again in {}", seconds(wait)) } else { ", again at once".into() };
                    (*at, *task, palette.paint(Paint::Yellow, format_args!("attempt {attempt} failed: {error}{when}")))
                }
                Change::Ended { task, at } | Change::NotRun { task, at } => (*at, *task, self.ended(look, *task)),
            };
            let name = palette.paint(Paint::Bold, &look.tasks[task].name);
            let _ = writeln!(text, "{} {name} {rest}", clock(at));
        }
        self.out.raw(&text);
    }

    fn ended(&self, look: &Look, task: usize) -> String {
        let task = &look.tasks[task];
        let Some(state) = task.state else { return String::new() };
        let mut text = self.out.palette().paint(task_paint(state), state.shown());
        if let (Some(started), Some(finished)) = (task.started_at, task.finished_at) {
            text.push_str(&format!(" in {}", seconds(finished - started)));
        }
        if let Some(error) = &task.error
            && state == TaskState::Failed
        {
            text.push_str(&format!(": {error}"));
        }
        text
    }

    pub(crate) fn remark(&mut self, text: &str) {
        self.out.note(text);
    }
}

/// `12:00:01`, UTC.
fn clock(at: Micros) -> String {
    rfc3339(at)[11..19].to_owned()
}
