//! One line per event, for pipes and files.

use std::fmt::Write as _;

use mainspring_core::Micros;
use mainspring_core::state::TaskState;
use mainspring_core::time::rfc3339;
use mainspring_core::work::LogStream;

use super::follow::{Change, Look, TaskEnd};
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
            let (at, who, rest) = match change {
                Change::Started { who, attempt, at } => {
                    let max = look.tasks[who.task].max_attempts;
                    let again = if *attempt > 1 {
                        format!(" (attempt {attempt} of {})", max.max(*attempt))
                    } else {
                        String::new()
                    };
                    let task = &look.tasks[who.task];
                    let verb = if task.parks && who.item < 0 { "waits" } else { "started" };
                    (*at, *who, format!("{verb}{again}"))
                }
                Change::Logged { who, stream, text, at } => {
                    let mark = if *stream == LogStream::System { "!" } else { "|" };
                    // A program that reads the lines gets them as they were printed.
                    let text = if self.out.is_terminal() { plain(text) } else { text.clone() };
                    (*at, *who, format!("{mark} {text}"))
                }
                Change::Retrying { who, attempt, error, due_at, at } => {
                    let wait = due_at - at;
                    let when =
                        if wait > 50_000 { format!(", again in {}", seconds(wait)) } else { ", again at once".into() };
                    (*at, *who, palette.paint(Paint::Yellow, format_args!("attempt {attempt} failed: {error}{when}")))
                }
                Change::Ended { who, end, at } | Change::NotRun { who, end, at } => (*at, *who, self.ended(end)),
            };
            let name = &look.tasks[who.task].name;
            let name = if who.item < 0 { name.clone() } else { format!("{name}[{}]", who.item) };
            let name = palette.paint(Paint::Bold, name);
            let _ = writeln!(text, "{} {name} {rest}", clock(at));
        }
        self.out.raw(&text);
    }

    fn ended(&self, end: &TaskEnd) -> String {
        let mut text = self.out.palette().paint(task_paint(end.state), end.state.shown());
        if let Some(took) = end.took {
            text.push_str(&format!(" in {}", seconds(took)));
        }
        if let Some(error) = &end.error
            && end.state == TaskState::Failed
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
