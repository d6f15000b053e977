//! The words at the end of a run.

use mainspring_core::state::{RunState, TaskState};

use super::follow::Look;
use crate::output::{Output, Paint, plain, seconds};
use crate::views::run_paint;

/// How many failed tasks are shown with their last lines.
const FAILURES_SHOWN: usize = 10;
const LINES_SHOWN: usize = 10;

/// What failed, with its last lines, and how the run ended.
pub(crate) fn print_summary(out: &Output, look: &Look, details: &[(usize, String)]) {
    if out.quiet && look.summary.state == RunState::Success {
        return;
    }
    let palette = out.palette();
    for (task, detail) in details.iter().take(FAILURES_SHOWN) {
        let task = &look.tasks[*task];
        let error = task.error.as_deref().unwrap_or("failed");
        out.line("");
        out.line(palette.paint(Paint::Red, format_args!("{}: {}", task.name, plain(error))));
        let lines: Vec<&str> = detail.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(LINES_SHOWN)) {
            out.line(format_args!("  {} {}", palette.paint(Paint::Dim, "|"), plain(line)));
        }
    }
    if details.len() > FAILURES_SHOWN {
        out.line(format_args!("… and {} more", details.len() - FAILURES_SHOWN));
    }
    let summary = &look.summary;
    let took = summary.finished_at.unwrap_or(summary.created_at) - summary.created_at;
    let count = |state: TaskState| look.tasks.iter().filter(|task| task.state == Some(state)).count();
    let mut parts = Vec::new();
    for state in TaskState::ALL.iter().filter(|state| state.is_terminal()) {
        let count = count(*state);
        if count > 0 {
            parts.push(format!("{count} {state}"));
        }
    }
    let tasks = if parts.is_empty() { "no tasks".to_owned() } else { parts.join(", ") };
    let why = if summary.timed_out { " (its timeout has passed)" } else { "" };
    out.line(format_args!(
        "run {} {}{why} in {}: {tasks}",
        summary.id,
        palette.paint(run_paint(summary.state), summary.state),
        seconds(took)
    ));
}
