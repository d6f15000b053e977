//! The outcomes that a test gives to tasks.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::diagnostic::{Place, Report};
use crate::work::Failure;

use crate::document::{Doc, unknown_key};

pub(crate) const OUTCOME_KEYS: &[&str] =
    &["output", "fail", "times", "takes", "after", "approve", "event", "never", "tasks"];
pub(crate) const FAIL_KEYS: &[&str] = &["message", "kind", "exit_code", "permanent"];

/// The script of one task (or of one item of a `foreach`).
#[derive(Debug, Clone, PartialEq)]
pub struct Mock {
    pub place: Place,
    /// In the order of the attempts; the last one serves all that follow. Empty: success without output.
    pub steps: Vec<Step>,
    /// For the tasks of a child workflow that is played too.
    pub tasks: IndexMap<String, Mock>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub result: StepResult,
    /// How many attempts end so; `None`: all that follow.
    pub times: Option<u32>,
    /// How long it takes until it ends so.
    pub takes_ms: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StepResult {
    Output(Value),
    Fail(Failure),
    Approve,
    Reject,
    /// The data of the event that arrives.
    Event(Value),
    /// Nothing happens.
    Never,
}

impl Default for Step {
    fn default() -> Self {
        Self { result: StepResult::Output(Value::Object(Map::new())), times: None, takes_ms: 0 }
    }
}

impl Mock {
    /// What the n-th attempt (1, 2, …) comes to.
    pub(super) fn step(&self, attempt: u32) -> Step {
        let mut before = 0;
        for step in &self.steps {
            match step.times {
                Some(times) if attempt > before + times => before += times,
                _ => return step.clone(),
            }
        }
        match self.steps.last() {
            // A list ends with what goes on; `fail` with `times` is followed by success.
            Some(last) if !matches!(last.result, StepResult::Fail(_)) => last.clone(),
            _ => Step::default(),
        }
    }

    /// Whether it says how the task itself ends, rather than only how the tasks of its child do.
    pub(super) fn says_the_end(&self) -> bool {
        !self.steps.is_empty()
    }
}

/// Reads `tasks:` of a case, or of a child.
pub(super) fn read_all(doc: Doc<'_>, report: &mut Report) -> IndexMap<String, Mock> {
    let entries = doc.entries("`tasks`", report);
    entries.into_iter().map(|entry| (entry.key.to_owned(), read(entry.value, entry.place, report))).collect()
}

fn read(doc: Doc<'_>, place: Place, report: &mut Report) -> Mock {
    let mut mock = Mock { place, steps: Vec::new(), tasks: IndexMap::new() };
    if doc.is_list() {
        let items = doc.items("a list of outcomes", report);
        let last = items.len().saturating_sub(1);
        for (number, item) in items.into_iter().enumerate() {
            read_steps(item, &mut mock, report);
            // Each member is one attempt unless it says otherwise; the last one goes on.
            if let Some(step) = mock.steps.last_mut()
                && number < last
                && step.times.is_none()
            {
                step.times = Some(1);
            }
        }
    } else {
        read_steps(doc, &mut mock, report);
    }
    mock
}

/// One mapping: an outcome, or a failure that happens some times and the success behind it.
fn read_steps(doc: Doc<'_>, mock: &mut Mock, report: &mut Report) {
    let (mut output, mut failure, mut other) = (None, None, None);
    let (mut times, mut takes_ms, mut said) = (None, 0, false);
    for entry in doc.entries("the outcome of a task", report) {
        let value = entry.value;
        said |= entry.key != "tasks";
        match entry.key {
            "output" => output = Some(StepResult::Output(value.value())),
            "fail" => failure = read_failure(value, report).map(StepResult::Fail),
            "approve" => other = read_approval(value, report),
            "event" => other = Some(StepResult::Event(value.value())),
            "never" => other = value.boolean("`never`", report).filter(|never| *never).map(|_| StepResult::Never),
            "times" => times = value.count("`times`", report).map(|times| (times, entry.place)),
            "takes" | "after" => takes_ms = value.duration(&format!("`{}`", entry.key), report).unwrap_or(0),
            "tasks" => mock.tasks = read_all(value, report),
            _ => unknown_key(entry, "the outcome of a task", OUTCOME_KEYS, report),
        }
    }
    if let (Some((_, place)), None) = (times, &failure) {
        let help = "write `fail: …` beside it; the attempts that follow succeed";
        report.add_with_help(place, "", "`times` says how often an attempt fails, but there is no `fail`", help);
    }
    let times = times.map(|(times, _)| times);
    match (failure, output, other) {
        (Some(failure), output, None) => {
            mock.steps.push(Step { result: failure, times, takes_ms });
            match (output, times) {
                (Some(output), Some(_)) => mock.steps.push(Step { result: output, times: None, takes_ms }),
                (Some(_), None) => {
                    let help = "add `times: N` for how many attempts fail before";
                    report.add_with_help(doc.place(), "", "the task fails always, so it has no output", help);
                }
                (None, _) => {}
            }
        }
        (None, Some(output), None) => mock.steps.push(Step { result: output, times: None, takes_ms }),
        (None, None, Some(other)) => mock.steps.push(Step { result: other, times: None, takes_ms }),
        (None, None, None) if said => mock.steps.push(Step { takes_ms, ..Step::default() }),
        (None, None, None) => {}
        _ => report.add(doc.place(), "", "a task has one outcome: `output`, `fail`, `approve`, `event` or `never`"),
    }
}

fn read_approval(doc: Doc<'_>, report: &mut Report) -> Option<StepResult> {
    match doc.value() {
        Value::Bool(true) => Some(StepResult::Approve),
        Value::Bool(false) => Some(StepResult::Reject),
        Value::String(word) if word == "reject" => Some(StepResult::Reject),
        _ => {
            report.add_with_help(doc.place(), "", "`approve` is true or false", "`never: true` lets it time out");
            None
        }
    }
}

/// A message, or a mapping with the details that `retry.on` looks at.
fn read_failure(doc: Doc<'_>, report: &mut Report) -> Option<Failure> {
    if !doc.is_mapping() {
        let message = doc.text("`fail`", report)?.to_owned();
        return Some(Failure { kind: "exit".into(), message, exit_code: Some(1), ..Failure::default() });
    }
    let mut failure = Failure { kind: "exit".into(), message: "failed".into(), ..Failure::default() };
    for entry in doc.entries("`fail`", report) {
        match entry.key {
            "message" => failure.message = entry.value.text("`message`", report)?.to_owned(),
            "kind" => failure.kind = entry.value.text("`kind`", report)?.to_owned(),
            "exit_code" => failure.exit_code = entry.value.count("`exit_code`", report).map(|code| code as i32),
            "permanent" => failure.permanent = entry.value.boolean("`permanent`", report)?,
            _ => unknown_key(entry, "`fail`", FAIL_KEYS, report),
        }
    }
    Some(failure)
}
