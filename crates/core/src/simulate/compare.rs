//! Compares the outcome of a run with what its test expects.

use serde_json::Value;

use crate::Workflow;
use crate::diagnostic::{Place, quoted};
use crate::state::{RunState, TaskState};
use crate::time::rfc3339;
use crate::work::{Failure, Order, OrderAction};

use super::check::split_item;
use super::outcome::{Outcome, Refusal};
use super::suite::{Case, ExpectedTask, Located};

/// One expectation that did not hold, with the place of the expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub place: Place,
    /// What it is about, like `tasks.load.attempts`.
    pub about: String,
    pub expected: String,
    pub actual: String,
}

/// Everything that differs; empty if the case holds.
pub fn compare(workflow: &Workflow, case: &Case, played: &Result<Outcome, Refusal>) -> Vec<Difference> {
    let mut differences = DifferenceList(Vec::new());
    match (played, &case.expect.refused) {
        (Ok(outcome), None) => differences.outcome(workflow, case, outcome),
        (Ok(outcome), Some(text)) => {
            let expected = format!("the inputs are refused: {}", text.value);
            differences.add(text.place, "refused", expected, format!("the run was {}", outcome.state));
        }
        (Err(Refusal::Inputs(problems)), Some(text)) => {
            let problems = problems.to_string();
            if !problems.contains(&text.value) {
                differences.add(text.place, "refused", format!("an error with {}", quoted(&text.value)), problems);
            }
        }
        (Err(Refusal::Inputs(problems)), None) => {
            let actual = format!("the inputs are refused: {problems}");
            differences.add(case.place, "inputs", "inputs that fit the workflow".into(), actual);
        }
    }
    differences.0
}

struct DifferenceList(Vec<Difference>);

/// A task or an item of one, as far as expectations go.
struct Observed<'a> {
    state: TaskState,
    attempts: u32,
    output: Option<&'a Value>,
    error: Option<&'a Failure>,
    order: Option<&'a Order>,
    child_inputs: Option<&'a Value>,
    items: Option<usize>,
}

impl DifferenceList {
    fn add(&mut self, place: Place, about: impl Into<String>, expected: String, actual: String) {
        self.0.push(Difference { place, about: about.into(), expected, actual });
    }

    fn same<T: PartialEq>(&mut self, about: &str, expected: &Located<T>, actual: &T, show: impl Fn(&T) -> String) {
        if expected.value != *actual {
            self.add(expected.place, about, show(&expected.value), show(actual));
        }
    }

    fn outcome(&mut self, workflow: &Workflow, case: &Case, outcome: &Outcome) {
        for name in &outcome.unmocked {
            let expected = "an outcome, because the test is strict".into();
            self.add(case.place, format!("tasks.{name}"), expected, "none".into());
        }
        if outcome.endless {
            self.add(case.place, "status", "an end".into(), "more than a million events".into());
        }
        self.status(workflow, case, outcome);
        for (name, expected) in &case.expect.tasks {
            self.task(workflow, name, expected, outcome);
        }
        for (name, expected) in &case.expect.outputs {
            let about = format!("outputs.{name}");
            match outcome.outputs.get(name) {
                Some(Ok(actual)) => self.same(&about, expected, actual, shown),
                Some(Err(error)) => self.add(expected.place, about, shown(&expected.value), error.clone()),
                None => self.add(expected.place, about, shown(&expected.value), "nothing".into()),
            }
        }
        self.order(workflow, case, outcome);
        for name in &case.expect.not_run {
            let began = outcome_of(workflow, &name.value, outcome).is_some_and(|observed| observed.attempts > 0);
            if began {
                self.add(name.place, format!("not_run: {}", name.value), "it does not run".into(), "it ran".into());
            }
        }
        if let Some(expected) = &case.expect.duration {
            let millis = ((outcome.ended - outcome.started) / 1_000) as u64;
            self.same("duration", expected, &millis, |millis| duration(*millis));
        }
    }

    fn status(&mut self, workflow: &Workflow, case: &Case, outcome: &Outcome) {
        let usual = Located { place: case.place, value: RunState::Success };
        let expected = case.expect.status.as_ref().unwrap_or(&usual);
        if expected.value == outcome.state {
            return;
        }
        let mut actual = outcome.state.to_string();
        if outcome.state.is_terminal() {
            let failed = outcome.tasks.iter().zip(&workflow.tasks).find(|(one, _)| one.state == TaskState::Failed);
            if let Some((outcome, task)) = failed {
                let cause = outcome.error.as_ref().map_or("", |failure| failure.message.as_str());
                actual = format!("{actual}: task {}: {cause}", quoted(&task.name));
            }
        } else {
            let waiting = outcome.tasks.iter().zip(&workflow.tasks).filter(|(one, _)| one.ended.is_none());
            let waiting = waiting.filter(|(one, _)| one.began.is_some()).map(|(_, task)| quoted(&task.name));
            let waiting: Vec<String> = waiting.take(10).collect();
            let since = rfc3339(outcome.ended);
            actual = format!("{actual} without end: {} waits from {since} on", waiting.join(", "));
        }
        self.add(expected.place, "status", expected.value.to_string(), actual);
    }

    fn task(&mut self, workflow: &Workflow, name: &str, expected: &Located<ExpectedTask>, outcome: &Outcome) {
        let about = format!("tasks.{name}");
        let Some(observed) = outcome_of(workflow, name, outcome) else {
            self.add(expected.place, about, "an item of this number".into(), "no such item".into());
            return;
        };
        let expected = &expected.value;
        if let Some(status) = &expected.status
            && status.value != observed.state
        {
            let cause = observed.error.filter(|_| observed.state == TaskState::Failed);
            let actual =
                cause.map_or(observed.state.to_string(), |failure| format!("{}: {}", observed.state, failure.message));
            self.add(status.place, format!("{about}.status"), status.value.to_string(), actual);
        }
        if let Some(attempts) = &expected.attempts {
            self.same(&format!("{about}.attempts"), attempts, &observed.attempts, u32::to_string);
        }
        if let Some(output) = &expected.output {
            self.same(&format!("{about}.output"), output, observed.output.unwrap_or(&Value::Null), shown);
        }
        if let Some(error) = &expected.error {
            let message = observed.error.map_or("no error", |failure| failure.message.as_str());
            if !message.contains(&error.value) {
                let wanted = format!("a message with {}", quoted(&error.value));
                self.add(error.place, format!("{about}.error"), wanted, message.to_owned());
            }
        }
        if let Some(items) = &expected.items {
            self.same(&format!("{about}.items"), items, &(observed.items.unwrap_or(0) as u32), u32::to_string);
        }
        self.given(&about, expected, &observed);
    }

    /// What the task was given to do.
    fn given(&mut self, about: &str, expected: &ExpectedTask, observed: &Observed<'_>) {
        for (name, text) in &expected.env {
            let about = format!("{about}.env.{name}");
            // Later ones win.
            let env = observed.order.map_or(&[][..], |order| &order.env);
            match env.iter().rev().find(|(variable, _)| variable == name) {
                Some((_, actual)) => self.same(&about, text, actual, |text| format!("{text:?}")),
                None => self.add(text.place, about, format!("{:?}", text.value), "not set".into()),
            }
        }
        let action = observed.order.map(|order| &order.action);
        if let Some(payload) = &expected.payload {
            let actual = match action {
                Some(OrderAction::Function { payload, .. } | OrderAction::Remote { payload, .. }) => payload,
                _ => &Value::Null,
            };
            self.same(&format!("{about}.payload"), payload, actual, shown);
        }
        if let Some(url) = &expected.url {
            let actual = match action {
                Some(OrderAction::Http(http)) => http.url.clone(),
                _ => String::new(),
            };
            self.same(&format!("{about}.url"), url, &actual, |text| format!("{text:?}"));
        }
        if let Some(inputs) = &expected.inputs {
            self.same(&format!("{about}.inputs"), inputs, observed.child_inputs.unwrap_or(&Value::Null), shown);
        }
    }

    fn order(&mut self, workflow: &Workflow, case: &Case, outcome: &Outcome) {
        for pair in case.expect.order.windows(2) {
            let moments = |name: &str| {
                let index = workflow.task_index(split_item(name).0)?;
                Some((outcome.tasks[index].began, outcome.tasks[index].ended))
            };
            let (Some((_, Some(ended))), Some((began, _))) = (moments(&pair[0].value), moments(&pair[1].value)) else {
                continue;
            };
            let about = format!("order: {}", pair[1].value);
            let expected = format!("it begins when {} has ended", quoted(&pair[0].value));
            match began {
                None => self.add(pair[1].place, about, expected, "it never began".into()),
                Some(began) if began < ended => {
                    self.add(pair[1].place, about, expected, "it began before".into());
                }
                Some(_) => {}
            }
        }
    }
}

fn outcome_of<'a>(workflow: &Workflow, name: &str, outcome: &'a Outcome) -> Option<Observed<'a>> {
    let (base, item) = split_item(name);
    let task = &outcome.tasks[workflow.task_index(base)?];
    Some(match item {
        None => Observed {
            state: task.state,
            attempts: task.attempts,
            output: task.output.as_ref(),
            error: task.error.as_ref(),
            order: task.order.as_ref(),
            child_inputs: task.child_inputs.as_ref(),
            items: task.items.as_ref().map(Vec::len),
        },
        Some(number) => {
            let item = task.items.as_ref()?.get(number)?;
            Observed {
                state: item.state,
                attempts: item.attempts,
                output: item.output.as_ref(),
                error: item.error.as_ref(),
                order: item.order.as_ref(),
                child_inputs: item.child_inputs.as_ref(),
                items: None,
            }
        }
    })
}

fn shown(value: &Value) -> String {
    const LONGEST: usize = 300;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("…".chars()).collect()
}

/// `1d2h`, `5m`, `1m30s`, `1s500ms`.
pub(super) fn duration(millis: u64) -> String {
    crate::time::duration(millis)
}
