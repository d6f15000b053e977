//! The words at the end of a run.

use mainspring_core::Workflow;
use mainspring_core::state::{RunState, TaskState};
use mainspring_store::TaskRunRow;

use super::follow::Look;
use crate::output::{Output, Paint, plain, seconds};
use crate::views::{self, run_paint};

/// How many failed tasks are shown with their last lines.
const FAILURES_SHOWN: usize = 10;
const LINES_SHOWN: usize = 10;

/// A task or an item that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    name: String,
    error: String,
    detail: String,
}

/// What failed in a run, in the order of its tasks.
pub(crate) fn failed(rows: &[TaskRunRow], workflow: &Workflow) -> Vec<Failed> {
    rows.iter()
        .filter(|row| row.state == TaskState::Failed)
        .map(|row| Failed {
            name: views::task_name(workflow, row).into_owned(),
            error: row.error.clone().unwrap_or_else(|| "failed".into()),
            detail: row.detail.clone().unwrap_or_default(),
        })
        .collect()
}

/// What failed, with its last lines, what was found by keys, and how the run ended.
pub(crate) fn print_summary(out: &Output, look: &Look, failed: &[Failed], caches: &[String]) {
    if out.quiet && look.summary.state == RunState::Success {
        return;
    }
    let palette = out.palette();
    for task in failed.iter().take(FAILURES_SHOWN) {
        out.line("");
        out.line(palette.paint(Paint::Red, format_args!("{}: {}", task.name, plain(&task.error))));
        let lines: Vec<&str> = task.detail.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(LINES_SHOWN)) {
            out.line(format_args!("  {} {}", palette.paint(Paint::Dim, "|"), plain(line)));
        }
    }
    if failed.len() > FAILURES_SHOWN {
        out.line(format_args!("… and {} more", failed.len() - FAILURES_SHOWN));
    }
    for line in caches {
        out.line(palette.paint(Paint::Dim, plain(line)));
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
