//! The live view: one line per task, drawn over itself. Nothing but a few ANSI sequences.

use std::fmt::Write as _;

use mainspring_core::Micros;
use mainspring_core::state::TaskState;

use super::follow::{Change, Items, Look, TaskLook};
use crate::output::{self, Output, Paint, clip, plain, seconds, width};
use crate::views::{run_paint, task_paint};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Between these two, terminals that know them show nothing half-drawn; others ignore them.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";
/// A line that is wider than it seemed is cut, not wrapped: a frame has as many lines as it was counted to have.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// At the end, this many lines may stay even if the terminal is lower.
const STAYS: usize = 50;
const NAME_COLUMNS: usize = 32;
/// The order in which states are counted, for terminals that have no room for all.
const COUNTED: [TaskState; 11] = [
    TaskState::Failed,
    TaskState::Running,
    TaskState::Retrying,
    TaskState::Success,
    TaskState::ResolvedManually,
    TaskState::UpstreamFailed,
    TaskState::Skipped,
    TaskState::Cancelled,
    TaskState::Waiting,
    TaskState::Ready,
    TaskState::Pending,
];
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

pub(crate) struct Live<'a> {
    out: &'a Output,
    /// How many lines of the last frame are above the cursor.
    drawn: usize,
    frame: usize,
    is_unicode: bool,
    remarks: Vec<String>,
}

impl<'a> Live<'a> {
    pub(crate) fn new(out: &'a Output) -> Self {
        out.raw(HIDE_CURSOR);
        Self { out, drawn: 0, frame: 0, is_unicode: is_unicode(), remarks: Vec::new() }
    }

    pub(crate) fn update(&mut self, look: &Look, _: &[Change], now: Micros) {
        let height = output::rows().saturating_sub(2);
        self.draw(look, now, height);
    }

    /// Draws everything that deserves to stay.
    pub(crate) fn finish(&mut self, look: &Look, now: Micros) {
        let height = output::rows().saturating_sub(2);
        let wanted = look.tasks.len() + 1 + self.remarks.len();
        self.draw(look, now, if wanted <= STAYS { height.max(wanted) } else { height });
        self.drawn = 0;
    }

    pub(crate) fn remark(&mut self, text: &str) {
        self.remarks.push(text.to_owned());
    }

    fn draw(&mut self, look: &Look, now: Micros, height: usize) {
        self.frame += 1;
        let columns = output::columns();
        let mut lines = vec![self.header(look, now, columns)];
        let room = height.saturating_sub(1 + self.remarks.len());
        let name_columns =
            look.tasks.iter().map(|task| width(&task.name)).max().unwrap_or(0).min(NAME_COLUMNS).min(columns / 2);
        let shown: Vec<&TaskLook> =
            if look.tasks.len() <= room { look.tasks.iter().collect() } else { interesting(&look.tasks, room) };
        lines.extend(shown.iter().map(|task| self.task_line(task, now, name_columns, columns)));
        let palette = self.out.palette();
        lines.extend(self.remarks.iter().map(|remark| palette.paint(Paint::Yellow, clip(remark, columns - 1))));
        let mut frame = format!("{BEGIN_FRAME}{NO_WRAP}");
        if self.drawn > 0 {
            let _ = write!(frame, "\x1b[{}A", self.drawn);
        }
        for line in &lines {
            let _ = write!(frame, "\r{line}\x1b[K\n");
        }
        frame.push_str("\x1b[J");
        frame.push_str(WRAP);
        frame.push_str(END_FRAME);
        self.drawn = lines.len();
        self.out.raw(&frame);
    }

    fn header(&self, look: &Look, now: Micros, columns: usize) -> String {
        let palette = self.out.palette();
        let summary = &look.summary;
        let mut counts: Vec<(TaskState, usize)> = Vec::new();
        for task in &look.tasks {
            let state = task.state.unwrap_or(TaskState::Pending).shown();
            match counts.iter_mut().find(|(counted, _)| *counted == state) {
                Some((_, count)) => *count += 1,
                None => counts.push((state, 1)),
            }
        }
        counts.sort_unstable_by_key(|(state, _)| COUNTED.iter().position(|counted| counted == state));
        let elapsed = summary.finished_at.unwrap_or(now) - summary.created_at;
        let (name, elapsed) = (clip(&summary.workflow, columns / 2), seconds(elapsed));
        let mut taken = width(&name) + summary.state.word().len() + elapsed.len() + 2;
        let state = palette.paint(run_paint(summary.state), summary.state);
        let mut line = format!("{} {state} {elapsed}", palette.paint(Paint::Bold, name));
        for (state, count) in counts {
            let text = format!("{count} {state}");
            taken += 2 + text.len();
            if taken < columns {
                let _ = write!(line, "  {}", palette.paint(task_paint(state), text));
            }
        }
        line
    }

    fn task_line(&self, task: &TaskLook, now: Micros, name_columns: usize, columns: usize) -> String {
        let palette = self.out.palette();
        let state = task.state.unwrap_or(TaskState::Pending);
        let name = clip(&task.name, name_columns);
        let padding = " ".repeat(name_columns - width(&name));
        let took = match (task.started_at, state) {
            (Some(started), state) if state != TaskState::Retrying => {
                seconds(task.finished_at.unwrap_or(now) - started)
            }
            _ => String::new(),
        };
        let attempts = if task.attempt > 1 {
            format!("{}/{}", task.attempt, task.max_attempts.max(task.attempt))
        } else {
            String::new()
        };
        let words = match state {
            TaskState::Retrying => {
                format!("again in {}", seconds(task.due_at.unwrap_or(now) - now))
            }
            TaskState::Failed => task.error.clone().unwrap_or_default(),
            TaskState::Running | TaskState::Success => task.last_line.clone().unwrap_or_default(),
            TaskState::Gated => "waits for its pool".into(),
            TaskState::UpstreamFailed => "not started: something it needs has failed".into(),
            TaskState::Waiting | TaskState::Deciding if task.items.total > 0 => progress(task.items),
            TaskState::Waiting => task.waits_for.clone(),
            TaskState::Skipped | TaskState::Cancelled => state.shown().to_string(),
            _ => String::new(),
        };
        let fixed = format!(" {padding}  {took:>6} {attempts:>4}  ");
        let left = columns.saturating_sub(2 + width(&name) + width(&fixed) + 1);
        let words = clip(&plain(&words), left);
        let paint = if state == TaskState::Failed { Paint::Red } else { Paint::Dim };
        format!("{} {name}{fixed}{}", palette.paint(task_paint(state), self.symbol(state)), palette.paint(paint, words))
            .trim_end()
            .to_owned()
    }

    fn symbol(&self, state: TaskState) -> &'static str {
        let (nice, simple) = match state {
            TaskState::Running => (SPINNER[self.frame % SPINNER.len()], [">", "-"][self.frame % 2]),
            TaskState::Success | TaskState::ResolvedManually => ("✓", "+"),
            TaskState::Failed => ("✗", "x"),
            TaskState::UpstreamFailed => ("⊘", "!"),
            TaskState::Skipped => ("–", "-"),
            TaskState::Cancelled => ("■", "#"),
            TaskState::Retrying => ("↻", "~"),
            TaskState::Waiting => ("◷", "o"),
            _ => ("·", "."),
        };
        if self.is_unicode { nice } else { simple }
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.out.raw(SHOW_CURSOR);
    }
}

fn progress(items: Items) -> String {
    let failed = if items.failed > 0 { format!(", {} failed", items.failed) } else { String::new() };
    format!("{} of {} items done{failed}", items.ended, items.total)
}

/// What moves or went wrong, in the order of the file, as far as there is room.
fn interesting(tasks: &[TaskLook], room: usize) -> Vec<&TaskLook> {
    let rank = |task: &TaskLook| match task.state {
        Some(TaskState::Failed) => 0,
        Some(TaskState::Running) => 1,
        Some(TaskState::Retrying | TaskState::Waiting) => 2,
        _ => 9,
    };
    let mut chosen: Vec<(u8, usize)> =
        tasks.iter().enumerate().map(|(index, task)| (rank(task), index)).filter(|(rank, _)| *rank < 9).collect();
    chosen.sort_unstable();
    chosen.truncate(room);
    chosen.sort_unstable_by_key(|(_, index)| *index);
    chosen.into_iter().map(|(_, index)| &tasks[index]).collect()
}

/// Whether the terminal's language is said to be UTF-8.
fn is_unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|language| language.to_uppercase().replace('-', "").contains("UTF8"))
}
