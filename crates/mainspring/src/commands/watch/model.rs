//! What is shown and what a key does about it: no terminal, no network, no clock.
//!
//! [`Model::update`] takes what happened and says what is to be done; the loop in `watch.rs` does it.

use std::collections::VecDeque;

use crate::failure::Exit;

use super::shapes::{LogLine, Run, Task, Worker};

/// How many lines of a log are kept.
pub(super) const MOST_LINES: usize = 500;
/// Rows that a page key moves.
const PAGE: isize = 10;

#[derive(Debug, Default)]
pub(super) struct Model {
    /// Where the answers come from.
    pub(super) place: String,
    /// `None` is every namespace that may be seen.
    pub(super) namespace: Option<String>,
    pub(super) runs: Vec<Run>,
    pub(super) selected: usize,
    pub(super) counts: Vec<Count>,
    pub(super) workers: Vec<Worker>,
    pub(super) opened: Option<Opened>,
    /// The run that is cancelled if the answer is yes, and its workflow.
    pub(super) question: Option<(String, String)>,
    /// What came of the last action.
    pub(super) note: Option<String>,
    /// Why there is no news.
    pub(super) trouble: Option<String>,
    /// Whether the server tells when something changes.
    pub(super) is_live: bool,
    pub(super) shows_help: bool,
    /// There is no list behind the run.
    began_with_run: bool,
}

/// How many runs are in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) status: &'static str,
    pub(super) runs: i64,
    /// Only of the last day.
    pub(super) is_recent: bool,
}

/// The run that is looked into.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub(super) id: String,
    pub(super) run: Option<Run>,
    pub(super) tasks: Vec<Task>,
    /// There are more tasks than are shown.
    pub(super) has_more: bool,
    pub(super) selected: usize,
    pub(super) log: Log,
}

/// The end of a task run's log, and how far it was read.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) task: String,
    pub(super) after: Option<String>,
    pub(super) lines: VecDeque<LogLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    End,
    Enter,
    Escape,
    Interrupt,
    Letter(char),
}

#[derive(Debug)]
pub(super) enum Message {
    Key(Key),
    Looked(Result<Look, String>),
    Acted(Result<String, String>),
    Live(bool),
}

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Runs,
    Run { id: String, task: Option<String>, after: Option<String> },
}

/// What a look at the server or the database found.
#[derive(Debug)]
pub(super) enum Look {
    Runs { runs: Vec<Run>, workers: Vec<Worker>, counts: Option<Vec<Count>> },
    Run { run: Box<Run>, tasks: Vec<Task>, has_more: bool, log: Option<LogPart> },
}

/// More of a log.
#[derive(Debug)]
pub(super) struct LogPart {
    pub(super) task: String,
    /// From where it was read on.
    pub(super) from: Option<String>,
    pub(super) after: Option<String>,
    pub(super) lines: Vec<LogLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Cancel,
    Retry,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// Look at once: something else is shown now.
    Look,
    Act(Act, String),
    End(Exit),
}

impl Model {
    pub(super) fn new(place: String, namespace: Option<String>, run: Option<String>) -> Self {
        let opened = run.map(|id| Opened { id, ..Opened::default() });
        Self { place, namespace, began_with_run: opened.is_some(), opened, ..Self::default() }
    }

    pub(super) fn wanted(&self) -> Wanted {
        let Some(opened) = &self.opened else { return Wanted::Runs };
        let task = opened.tasks.get(opened.selected).map(|task| task.id.clone());
        let after = opened.log.after.clone().filter(|_| task.as_ref() == Some(&opened.log.task));
        Wanted::Run { id: opened.id.clone(), task, after }
    }

    pub(super) fn update(&mut self, message: Message) -> Effect {
        match message {
            Message::Key(key) => self.press(key),
            Message::Looked(Ok(look)) => {
                self.trouble = None;
                self.take(look)
            }
            Message::Looked(Err(cause)) => {
                self.trouble = Some(cause);
                Effect::None
            }
            Message::Acted(Ok(words) | Err(words)) => {
                self.note = Some(words);
                Effect::Look
            }
            Message::Live(is_live) => {
                self.is_live = is_live;
                Effect::None
            }
        }
    }

    fn press(&mut self, key: Key) -> Effect {
        if key == Key::Interrupt {
            return Effect::End(Exit::Interrupted);
        }
        // Whatever is not a yes is a no, and does nothing else.
        if let Some((run, _)) = self.question.take() {
            return match key {
                Key::Letter('y' | 'Y') => Effect::Act(Act::Cancel, run),
                _ => Effect::None,
            };
        }
        self.note = None;
        match key {
            Key::Up | Key::Letter('k') => self.step(-1),
            Key::Down | Key::Letter('j') => self.step(1),
            Key::PageUp => self.step(-PAGE),
            Key::PageDown => self.step(PAGE),
            Key::First => self.step(isize::MIN),
            Key::End => self.step(isize::MAX),
            Key::Enter => self.open(),
            Key::Escape | Key::Letter('q') => self.back(),
            Key::Letter('?') => {
                self.shows_help = !self.shows_help;
                Effect::None
            }
            Key::Letter('c') => {
                self.ask_to_cancel();
                Effect::None
            }
            Key::Letter('r') => match self.current() {
                Some(run) => Effect::Act(Act::Retry, run.id.clone()),
                None => Effect::None,
            },
            Key::Interrupt | Key::Letter(_) => Effect::None,
        }
    }

    /// The run that keys are about.
    pub(super) fn current(&self) -> Option<&Run> {
        match &self.opened {
            Some(opened) => opened.run.as_ref(),
            None => self.runs.get(self.selected),
        }
    }

    fn ask_to_cancel(&mut self) {
        let Some(run) = self.current() else { return };
        if run.is_open() {
            self.question = Some((run.id.clone(), run.workflow.clone()));
        } else {
            self.note = Some(format!("the run has ended: it is {}", run.status));
        }
    }

    fn step(&mut self, by: isize) -> Effect {
        let (selected, count) = match &mut self.opened {
            Some(opened) => (&mut opened.selected, opened.tasks.len()),
            None => (&mut self.selected, self.runs.len()),
        };
        let moved = selected.saturating_add_signed(by).min(count.saturating_sub(1));
        let is_other = moved != *selected;
        *selected = moved;
        if is_other && self.opened.is_some() { Effect::Look } else { Effect::None }
    }

    fn open(&mut self) -> Effect {
        match (&self.opened, self.runs.get(self.selected)) {
            (None, Some(run)) => {
                self.opened = Some(Opened { id: run.id.clone(), run: Some(run.clone()), ..Opened::default() });
                Effect::Look
            }
            _ => Effect::None,
        }
    }

    fn back(&mut self) -> Effect {
        match self.opened.is_some() && !self.began_with_run {
            true => {
                self.opened = None;
                Effect::Look
            }
            false => Effect::End(Exit::Success),
        }
    }

    /// What was found for something that is not shown any more is dropped.
    fn take(&mut self, look: Look) -> Effect {
        match (look, &mut self.opened) {
            (Look::Runs { runs, workers, counts }, None) => {
                let selected = self.runs.get(self.selected).map(|run| run.id.clone());
                self.selected = kept(selected.as_deref(), self.selected, &runs, |run| &run.id);
                (self.runs, self.workers) = (runs, workers);
                if let Some(counts) = counts {
                    self.counts = counts;
                }
                Effect::None
            }
            (Look::Run { run, tasks, has_more, log }, Some(opened)) if opened.id == run.id => {
                opened.take(*run, tasks, has_more, log)
            }
            _ => Effect::None,
        }
    }
}

impl Opened {
    fn take(&mut self, run: Run, tasks: Vec<Task>, has_more: bool, log: Option<LogPart>) -> Effect {
        let is_first = self.tasks.is_empty() && !tasks.is_empty();
        let selected = self.tasks.get(self.selected).map(|task| task.id.clone());
        self.selected = match is_first {
            true => interesting(&tasks),
            false => kept(selected.as_deref(), self.selected, &tasks, |task| &task.id),
        };
        (self.run, self.tasks, self.has_more) = (Some(run), tasks, has_more);
        if let Some(part) = log
            && self.tasks.get(self.selected).is_some_and(|task| task.id == part.task)
        {
            self.log.take(part);
        }
        // Which task's log is wanted is known only now.
        if is_first { Effect::Look } else { Effect::None }
    }
}

impl Log {
    fn take(&mut self, part: LogPart) {
        if self.task != part.task {
            *self = Self { task: part.task.clone(), ..Self::default() };
        }
        // Two looks may have read the same part.
        if self.after != part.from {
            return;
        }
        self.after = part.after;
        self.lines.extend(part.lines);
        let surplus = self.lines.len().saturating_sub(MOST_LINES);
        self.lines.drain(..surplus);
    }
}

/// The first task worth a look: one that failed, else one that runs or waits, else the first.
fn interesting(tasks: &[Task]) -> usize {
    let first = |status: &str| tasks.iter().position(|task| task.status == status);
    ["failed", "running", "retrying", "waiting"].into_iter().find_map(first).unwrap_or(0)
}

/// Where what was selected is now, so that a key never hits something else than was aimed at.
fn kept<T>(id: Option<&str>, index: usize, items: &[T], id_of: impl Fn(&T) -> &String) -> usize {
    let found = id.and_then(|id| items.iter().position(|item| id_of(item) == id));
    found.unwrap_or_else(|| index.min(items.len().saturating_sub(1)))
}
