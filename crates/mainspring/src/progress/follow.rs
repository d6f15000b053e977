//! Polls a run and reports what changed.
//!
//! The cost is bounded: a look at a run that did not move is one small read, and a run of very many tasks is looked at
//! less often the longer a look takes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mainspring_core::state::TaskState;
use mainspring_core::work::{LogChunk, LogLine, LogStream};
use mainspring_core::workflow::Task;
use mainspring_core::{Micros, TaskKey, Workflow};
use mainspring_store::{LogCursor, RunSummary, TaskRunRow};
use tokio::sync::mpsc;

use super::caches::RunCaches;
use super::source::{Plan, Source};
use crate::failure::Result;
use crate::views;

/// A look may take at most this share of the time between looks.
const SHARE: u32 = 5;

/// A task, or one item of a task that is repeated over a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskOrItem {
    pub(crate) task: usize,
    /// Below 0: the task itself.
    pub(crate) item: i32,
}

/// How a task or an item ended.
#[derive(Debug, Clone)]
pub(crate) struct TaskEnd {
    pub(crate) state: TaskState,
    pub(crate) took: Option<Micros>,
    pub(crate) error: Option<String>,
}

/// Something that happened to a task.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Started {
        who: TaskOrItem,
        attempt: i32,
        at: Micros,
    },
    Logged {
        who: TaskOrItem,
        stream: LogStream,
        text: String,
        at: Micros,
    },
    /// An attempt failed and another will follow.
    Retrying {
        who: TaskOrItem,
        attempt: i32,
        error: String,
        due_at: Micros,
        at: Micros,
    },
    /// Without an attempt: skipped, or something it needs has failed.
    NotRun {
        who: TaskOrItem,
        end: TaskEnd,
        at: Micros,
    },
    Ended {
        who: TaskOrItem,
        end: TaskEnd,
        at: Micros,
    },
}

impl Change {
    fn order(&self) -> (Micros, u8) {
        match self {
            Self::NotRun { at, .. } => (*at, 0),
            Self::Started { at, .. } => (*at, 1),
            Self::Logged { at, .. } => (*at, 2),
            Self::Retrying { at, .. } => (*at, 3),
            Self::Ended { at, .. } => (*at, 4),
        }
    }
}

/// A task as it was seen last.
#[derive(Debug, Clone)]
pub(crate) struct TaskLook {
    pub(crate) name: String,
    /// It waits for something instead of being executed.
    pub(crate) parks: bool,
    /// What it waits for, in words.
    pub(crate) waits_for: String,
    /// `None` while it has no row: a finaliser whose stage has not begun.
    pub(crate) state: Option<TaskState>,
    pub(crate) attempt: i32,
    pub(crate) max_attempts: i32,
    pub(crate) started_at: Option<Micros>,
    pub(crate) finished_at: Option<Micros>,
    pub(crate) due_at: Option<Micros>,
    pub(crate) error: Option<String>,
    pub(crate) last_line: Option<String>,
    pub(crate) items: Items,
}

/// The items of a task, counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Items {
    pub(crate) total: usize,
    pub(crate) ended: usize,
    pub(crate) failed: usize,
}

/// A run as it was seen last.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) summary: RunSummary,
    pub(crate) tasks: Vec<TaskLook>,
}

/// A line that arrived before the start of its attempt was read. It waits for the next pass.
#[derive(Debug)]
struct PendingLine {
    who: TaskOrItem,
    attempt: i32,
    line: LogLine,
}

pub(crate) struct Follower {
    source: Source,
    /// What tasks of this process print; without it, log lines are read from the store.
    tap: Option<mpsc::Receiver<LogChunk>>,
    pub(crate) plan: Plan,
    pub(crate) look: Look,
    rows: HashMap<TaskKey, (TaskState, i32)>,
    cursors: HashMap<TaskKey, LogCursor>,
    pending_lines: Vec<PendingLine>,
    is_watched: bool,
    seen_seq: Option<i64>,
    busy: bool,
    took: Duration,
}

impl Follower {
    pub(crate) async fn new(
        source: Source,
        plan: Plan,
        tap: Option<mpsc::Receiver<LogChunk>>,
        is_watched: bool,
    ) -> Result<Self> {
        let summary = source.summary().await?;
        let tasks = if is_watched { unseen(&plan) } else { Vec::new() };
        Ok(Self {
            source,
            tap,
            plan,
            look: Look { summary, tasks },
            rows: HashMap::new(),
            cursors: HashMap::new(),
            pending_lines: Vec::new(),
            is_watched,
            seen_seq: None,
            busy: true,
            took: Duration::ZERO,
        })
    }

    /// How long to wait before the next look.
    pub(crate) fn pause(&self, usual: Duration) -> Duration {
        usual.max(self.took * SHARE)
    }

    /// Returns when another look is worth its cost.
    pub(crate) async fn rest(&self, usual: Duration) {
        self.source.rest(self.pause(usual)).await;
    }

    /// The task runs as they are.
    pub(crate) async fn task_runs(&self) -> Result<Vec<TaskRunRow>> {
        self.source.task_runs().await
    }

    /// What its tasks found by their keys.
    pub(crate) async fn caches(&self) -> Result<RunCaches> {
        match RunCaches::are_used(&self.plan) {
            true => self.source.caches().await,
            false => Ok(RunCaches::default()),
        }
    }

    /// Takes in what tasks of this process print, for ever. Dropping it loses nothing.
    pub(crate) async fn listen(&mut self) {
        loop {
            match &mut self.tap {
                Some(tap) => match tap.recv().await {
                    Some(chunk) => self.hear(chunk.key, chunk.attempt, chunk.lines),
                    None => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        }
    }

    /// Log lines are not waited for any more.
    pub(crate) fn stop_listening(&mut self) {
        self.tap = None;
    }

    /// One full look, also without a viewer.
    pub(crate) async fn look_at_the_end(&mut self) -> Result<()> {
        if !self.is_watched {
            self.is_watched = true;
            self.look.tasks = unseen(&self.plan);
            self.look().await?;
        }
        Ok(())
    }

    /// Where the run stands: one small read, whatever its size.
    async fn glance(&mut self) -> Result<()> {
        self.look.summary = self.source.summary().await?;
        Ok(())
    }

    fn hear(&mut self, key: TaskKey, attempt: i32, lines: Vec<LogLine>) {
        // Lines that are only read so that tasks are not held up are not shown.
        if key.run == self.source.run()
            && self.is_watched
            && let Some(task) = self.task(key)
        {
            let who = TaskOrItem { task, item: key.item };
            self.pending_lines.extend(lines.into_iter().map(|line| PendingLine { who, attempt, line }));
        }
    }

    fn task(&self, key: TaskKey) -> Option<usize> {
        usize::try_from(key.index).ok().filter(|index| *index < self.look.tasks.len())
    }

    /// Looks once; returns what changed since the last look, in the order it happened. Without a viewer, only
    /// whether the run has ended is looked at.
    pub(crate) async fn look(&mut self) -> Result<Vec<Change>> {
        if !self.is_watched {
            self.glance().await?;
            return Ok(Vec::new());
        }
        let started = Instant::now();
        let summary = self.source.summary().await?;
        let has_moved = self.seen_seq != Some(summary.seq) || summary.state != self.look.summary.state;
        self.look.summary = summary;
        let mut changes = Vec::new();
        // A claim does not move the run's event number, so a run with open work is looked at anyway.
        if has_moved || self.busy {
            let rows = self.source.task_runs().await?;
            self.seen_seq = Some(self.look.summary.seq);
            self.busy = rows.iter().any(|row| !row.state.is_terminal());
            for row in &rows {
                self.compare(row, &mut changes).await?;
            }
        }
        // After the rows: what ended by then has said everything.
        match self.tap.take() {
            Some(mut tap) => {
                while let Ok(chunk) = tap.try_recv() {
                    self.hear(chunk.key, chunk.attempt, chunk.lines);
                }
                self.tap = Some(tap);
            }
            None => self.read_logs(&changes).await?,
        }
        self.tell_lines(&mut changes);
        changes.sort_by_key(Change::order);
        self.took = started.elapsed();
        Ok(changes)
    }

    /// Lines of attempts that are known to have begun.
    fn tell_lines(&mut self, changes: &mut Vec<Change>) {
        for line in std::mem::take(&mut self.pending_lines) {
            let key = TaskKey { run: self.source.run(), index: line.who.task as i32, item: line.who.item };
            if self.rows.get(&key).is_none_or(|row| row.1 < line.attempt) {
                self.pending_lines.push(line);
                continue;
            }
            self.look.tasks[line.who.task].last_line = Some(line.line.text.clone());
            let LogLine { at, stream, text } = line.line;
            changes.push(Change::Logged { who: line.who, stream, text, at });
        }
    }

    async fn compare(&mut self, row: &TaskRunRow, changes: &mut Vec<Change>) -> Result<()> {
        let Some(task) = self.task(row.key) else { return Ok(()) };
        let who = TaskOrItem { task, item: row.key.item };
        let before = self.rows.insert(row.key, (row.state, row.attempt));
        let (state_before, attempt_before) = before.map_or((None, 0), |(state, attempt)| (Some(state), attempt));
        if state_before == Some(row.state) && attempt_before == row.attempt {
            return Ok(());
        }
        let had_started = attempt_before == row.attempt
            && attempt_before > 0
            && state_before.is_some_and(|state| !state.is_terminal());
        let is_attempt = row.attempt > 0 && row.started_at.is_some();
        // Attempts that began and failed between two looks left a record each.
        let told = before.map_or(0, |(state, attempt)| if is_under_way(state) { attempt - 1 } else { attempt });
        let is_newest_open = is_under_way(row.state) || row.state.is_terminal();
        let failed = if is_newest_open { row.attempt - 1 } else { row.attempt };
        if failed > told {
            for attempt in self.source.attempts(row.key).await? {
                if attempt.attempt <= told || attempt.attempt > failed {
                    continue;
                }
                if attempt.attempt > attempt_before
                    && let Some(at) = attempt.started_at
                {
                    changes.push(Change::Started { who, attempt: attempt.attempt, at });
                }
                changes.push(Change::Retrying {
                    who,
                    attempt: attempt.attempt,
                    error: attempt.error.unwrap_or_else(|| "failed".into()),
                    due_at: row.due_at.unwrap_or(attempt.finished_at),
                    at: attempt.finished_at,
                });
            }
        }
        if is_attempt && !had_started && row.state != TaskState::Retrying {
            let at = row.started_at.unwrap_or_default();
            changes.push(Change::Started { who, attempt: row.attempt, at });
        }
        if row.state.is_terminal() {
            let at = row.finished_at.unwrap_or_default();
            let took = row.started_at.zip(row.finished_at).map(|(started, finished)| finished - started);
            let end = TaskEnd { state: row.state, took, error: row.error.clone() };
            changes.push(if is_attempt { Change::Ended { who, end, at } } else { Change::NotRun { who, end, at } });
        }
        let look = &mut self.look.tasks[task];
        if who.item >= 0 {
            look.items.total += usize::from(before.is_none());
            if row.state.is_terminal() {
                look.items.ended += 1;
                look.items.failed += usize::from(row.state == TaskState::Failed);
            } else if state_before.is_some_and(TaskState::is_terminal) {
                // Reopened.
                look.items.ended -= 1;
            }
            return Ok(());
        }
        look.state = Some(row.state);
        look.attempt = row.attempt;
        look.max_attempts = views::max_attempts(&self.plan, row);
        look.started_at = row.started_at.or(look.started_at.filter(|_| row.state == TaskState::Retrying));
        look.finished_at = row.finished_at;
        look.due_at = row.due_at;
        look.error = row.error.clone();
        Ok(())
    }

    /// Reads new lines of what runs and of what just ended.
    async fn read_logs(&mut self, changes: &[Change]) -> Result<()> {
        let mut keys: Vec<TaskKey> =
            self.rows.iter().filter(|(_, row)| row.0 == TaskState::Running).map(|(key, _)| *key).collect();
        keys.extend(changes.iter().filter_map(|change| match change {
            Change::Ended { who, .. } | Change::Retrying { who, .. } => {
                Some(TaskKey { run: self.source.run(), index: who.task as i32, item: who.item })
            }
            _ => None,
        }));
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            loop {
                let cursor = self.cursors.get(&key).copied().unwrap_or_default();
                let printed = self.source.printed(key, None, cursor).await?;
                self.cursors.insert(key, printed.after);
                for (attempt, lines) in printed.parts {
                    self.hear(key, attempt, lines);
                }
                if printed.is_last {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Whether the newest attempt goes on.
fn is_under_way(state: TaskState) -> bool {
    matches!(state, TaskState::Running | TaskState::Waiting)
}

/// The tasks of a run before the first look.
fn unseen(workflow: &Workflow) -> Vec<TaskLook> {
    let unseen = |task: &Task| TaskLook {
        name: task.name.clone(),
        parks: task.foreach.is_some() || task.action.parks(),
        waits_for: views::waits_for(task),
        state: None,
        attempt: 0,
        max_attempts: i32::from(task.retry.attempts),
        started_at: None,
        finished_at: None,
        due_at: None,
        error: None,
        last_line: None,
        items: Items::default(),
    };
    workflow.tasks.iter().map(unseen).collect()
}
