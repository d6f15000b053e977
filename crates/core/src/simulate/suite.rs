//! The test file: what is played, and what is expected of it.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostics, Place, Report, did_you_mean, quoted};
use crate::state::{RunState, TaskState};
use crate::{Micros, yaml};

use super::mock::{self, Mock};
use crate::document::{Doc, unknown_key};

/// 2026-01-01T00:00:00Z: when a case begins that does not say when.
const USUAL_NOW: Micros = 1_767_225_600_000_000;

pub(crate) const SUITE_KEYS: &[&str] = &["workflow", "strict", "cases"];
pub(crate) const CASE_KEYS: &[&str] = &["name", "inputs", "now", "secrets", "event", "strict", "tasks", "expect"];
pub(crate) const EXPECT_KEYS: &[&str] = &["status", "tasks", "outputs", "order", "not_run", "duration", "refused"];
pub(crate) const TASK_KEYS: &[&str] =
    &["status", "attempts", "output", "error", "env", "payload", "url", "inputs", "items"];

/// A value and where the file says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    pub place: Place,
    pub value: T,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// The file of the workflow, relative to the test's own; `None`: the one with the same name.
    pub workflow: Option<Located<String>>,
    pub cases: Vec<Case>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub place: Place,
    pub name: String,
    pub inputs: Map<String, Value>,
    pub now: Micros,
    pub secrets: Map<String, Value>,
    /// What started the run, for inputs that look at it.
    pub event: Option<Value>,
    /// Every task that would run must have an outcome here.
    pub strict: bool,
    pub tasks: IndexMap<String, Mock>,
    pub expect: Expect,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expect {
    /// `None`: success, unless the inputs are to be refused.
    pub status: Option<Located<RunState>>,
    pub tasks: IndexMap<String, Located<ExpectedTask>>,
    pub outputs: IndexMap<String, Located<Value>>,
    /// Each begins when the one before it has ended.
    pub order: Vec<Located<String>>,
    pub not_run: Vec<Located<String>>,
    /// Milliseconds.
    pub duration: Option<Located<u64>>,
    /// The inputs do not fit, and the message holds this text.
    pub refused: Option<Located<String>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExpectedTask {
    pub status: Option<Located<TaskState>>,
    pub attempts: Option<Located<u32>>,
    pub output: Option<Located<Value>>,
    /// A text that the error holds.
    pub error: Option<Located<String>>,
    /// Variables that the task is given, among others.
    pub env: IndexMap<String, Located<String>>,
    pub payload: Option<Located<Value>>,
    pub url: Option<Located<String>>,
    /// Of a child workflow.
    pub inputs: Option<Located<Value>>,
    /// How many items a `foreach` had.
    pub items: Option<Located<u32>>,
}

impl Suite {
    /// Reads a list of cases, or a mapping with `cases`.
    pub fn read(source: &str) -> Result<Self, Diagnostics> {
        let tree = yaml::parse(source)?;
        let mut report = Report::default();
        let root = Doc::root(&tree);
        let (mut workflow, mut strict, mut cases) = (None, false, root);
        if !root.is_list() {
            let mut found = None;
            for entry in root.entries("a test file", &mut report) {
                match entry.key {
                    "workflow" => {
                        let text = entry.value.text("`workflow`", &mut report);
                        workflow = text.map(|text| at(entry.value, text.to_owned()));
                    }
                    "strict" => strict = entry.value.boolean("`strict`", &mut report).unwrap_or(false),
                    "cases" => found = Some(entry.value),
                    _ => unknown_key(entry, "a test file", SUITE_KEYS, &mut report),
                }
            }
            match found {
                Some(found) => cases = found,
                None => {
                    let help = "write a list of cases, or `cases:` with one";
                    report.add_with_help(root.place(), "", "the test file has no cases", help);
                    return report.finish(None);
                }
            }
        }
        let cases: Vec<Case> = cases
            .items("the cases", &mut report)
            .into_iter()
            .enumerate()
            .map(|(number, doc)| read_case(doc, number, strict, &mut report))
            .collect();
        if cases.is_empty() && report.is_empty() {
            report.add(root.place(), "", "the test file has no cases");
        }
        report.finish(Some(Self { workflow, cases }))
    }
}

fn at<T>(doc: Doc<'_>, value: T) -> Located<T> {
    Located { place: doc.place(), value }
}

fn read_case(doc: Doc<'_>, number: usize, strict: bool, report: &mut Report) -> Case {
    let mut case = Case {
        place: doc.place(),
        name: format!("case {}", number + 1),
        inputs: Map::new(),
        now: USUAL_NOW,
        secrets: Map::new(),
        event: None,
        strict,
        tasks: IndexMap::new(),
        expect: Expect::default(),
    };
    for entry in doc.entries("a case", report) {
        let value = entry.value;
        match entry.key {
            "name" => {
                case.name = value.text("`name`", report).unwrap_or_default().to_owned();
                case.place = value.place();
            }
            "inputs" => case.inputs = value.object("`inputs`", report),
            "now" => case.now = value.instant("`now`", report).unwrap_or(USUAL_NOW),
            "secrets" => case.secrets = value.object("`secrets`", report),
            "event" => case.event = Some(value.value()),
            "strict" => case.strict = value.boolean("`strict`", report).unwrap_or(strict),
            "tasks" => case.tasks = mock::read_all(value, report),
            "expect" => case.expect = read_expect(value, report),
            _ => unknown_key(entry, "a case", CASE_KEYS, report),
        }
    }
    case
}

fn read_expect(doc: Doc<'_>, report: &mut Report) -> Expect {
    let mut expect = Expect::default();
    for entry in doc.entries("`expect`", report) {
        let value = entry.value;
        match entry.key {
            "status" => expect.status = word(value, "`status`", RunState::ALL, RunState::is_terminal, report),
            "tasks" => {
                for task in value.entries("`expect.tasks`", report) {
                    let expected = Located { place: task.place, value: read_task(task.value, report) };
                    expect.tasks.insert(task.key.to_owned(), expected);
                }
            }
            "outputs" => {
                for output in value.entries("`outputs`", report) {
                    expect.outputs.insert(output.key.to_owned(), at(output.value, output.value.value()));
                }
            }
            "order" => expect.order = names(value, "`order`", report),
            "not_run" => expect.not_run = names(value, "`not_run`", report),
            "duration" => expect.duration = value.duration("`duration`", report).map(|millis| at(value, millis)),
            "refused" => expect.refused = value.text("`refused`", report).map(|text| at(value, text.to_owned())),
            _ => unknown_key(entry, "`expect`", EXPECT_KEYS, report),
        }
    }
    expect
}

fn names(doc: Doc<'_>, what: &str, report: &mut Report) -> Vec<Located<String>> {
    let items = doc.items(what, report);
    items.into_iter().filter_map(|item| Some(at(item, item.text(what, report)?.to_owned()))).collect()
}

/// A status alone, or a mapping.
fn read_task(doc: Doc<'_>, report: &mut Report) -> ExpectedTask {
    let mut expected = ExpectedTask::default();
    if !doc.is_mapping() {
        expected.status = word(doc, "the status of a task", TaskState::ALL, TaskState::is_terminal, report);
        return expected;
    }
    for entry in doc.entries("what is expected of a task", report) {
        let value = entry.value;
        match entry.key {
            "status" => expected.status = word(value, "`status`", TaskState::ALL, TaskState::is_terminal, report),
            "attempts" => expected.attempts = value.count("`attempts`", report).map(|count| at(value, count)),
            "output" => expected.output = Some(at(value, value.value())),
            "error" => expected.error = value.text("`error`", report).map(|text| at(value, text.to_owned())),
            "env" => {
                for variable in value.entries("`env`", report) {
                    let text = variable.value.text("a variable", report).unwrap_or_default().to_owned();
                    expected.env.insert(variable.key.to_owned(), at(variable.value, text));
                }
            }
            "payload" => expected.payload = Some(at(value, value.value())),
            "url" => expected.url = value.text("`url`", report).map(|text| at(value, text.to_owned())),
            "inputs" => expected.inputs = Some(at(value, value.value())),
            "items" => expected.items = value.count("`items`", report).map(|count| at(value, count)),
            _ => unknown_key(entry, "what is expected of a task", TASK_KEYS, report),
        }
    }
    expected
}

/// One word for how something ended.
fn word<T: std::str::FromStr + std::fmt::Display + Copy>(
    doc: Doc<'_>,
    what: &str,
    all: &[T],
    is_end: fn(T) -> bool,
    report: &mut Report,
) -> Option<Located<T>> {
    let text = doc.text(what, report)?;
    if let Some(word) = text.parse().ok().filter(|word| is_end(*word)) {
        return Some(at(doc, word));
    }
    let words: Vec<String> = all.iter().filter(|word| is_end(**word)).map(ToString::to_string).collect();
    let help = did_you_mean(text, words.iter().map(String::as_str))
        .unwrap_or_else(|| format!("write one of {}", words.join(", ")));
    report.add_with_help(doc.place(), "", format!("{what} cannot be {}", quoted(text)), help);
    None
}
