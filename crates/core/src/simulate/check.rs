//! Checks that a test fits the workflow it is for.

use indexmap::IndexMap;

use crate::Workflow;
use crate::diagnostic::{Diagnostics, Place, Report, did_you_mean, quoted};
use crate::workflow::{Action, Task, Wait};

use super::mock::{Mock, StepResult};
use super::suite::Suite;

impl Suite {
    /// Every name must be one of the workflow's, and every outcome one that its kind of task can have.
    pub fn check(&self, workflow: &Workflow) -> Result<(), Diagnostics> {
        let mut report = Report::default();
        for case in &self.cases {
            check_mocks(workflow, &case.tasks, &mut report);
            for (name, expected) in &case.expect.tasks {
                check_name(workflow, name, expected.place, &mut report);
            }
            for name in case.expect.order.iter().chain(&case.expect.not_run) {
                check_name(workflow, &name.value, name.place, &mut report);
            }
            for (name, expected) in &case.expect.outputs {
                if !workflow.outputs.contains_key(name) {
                    let message = format!("the workflow has no output {}", quoted(name));
                    let help = did_you_mean(name, workflow.outputs.keys().map(String::as_str));
                    report.push(expected.place, "", message, help);
                }
            }
        }
        report.finish(Some(()))
    }
}

fn check_mocks(workflow: &Workflow, mocks: &IndexMap<String, Mock>, report: &mut Report) {
    for (name, mock) in mocks {
        let Some(task) = check_name(workflow, name, mock.place, report) else { continue };
        for step in &mock.steps {
            if let Some(message) = misfit(task, &step.result) {
                report.add(mock.place, "", format!("task {} {message}", quoted(&task.name)));
            }
        }
        if !mock.tasks.is_empty() && !matches!(task.action, Action::Workflow(_)) {
            let message = format!("task {} is no child workflow, so it has no tasks", quoted(&task.name));
            report.add(mock.place, "", message);
        }
    }
}

/// Why a task cannot come to this.
fn misfit(task: &Task, result: &StepResult) -> Option<&'static str> {
    let is_approval = matches!(task.action, Action::Approval(_));
    match result {
        StepResult::Approve | StepResult::Reject if !is_approval => Some("is no approval, so nobody approves it"),
        StepResult::Event(_) if !matches!(task.action, Action::Wait(Wait::Event { .. })) => {
            Some("does not wait for an event")
        }
        StepResult::Never if !matches!(task.action, Action::Approval(_) | Action::Wait(_)) => {
            Some("waits for nothing: say how long it takes with `takes`")
        }
        StepResult::Output(_) | StepResult::Fail(_) if is_approval => Some("is an approval: write `approve: true`"),
        StepResult::Fail(_) if matches!(task.action, Action::Wait(Wait::For(_) | Wait::Until(_))) => {
            Some("waits for a time, which always comes")
        }
        _ => None,
    }
}

/// The task of `name` or `name[3]`.
fn check_name<'w>(workflow: &'w Workflow, name: &str, place: Place, report: &mut Report) -> Option<&'w Task> {
    let (base, item) = split_item(name);
    let Some(index) = workflow.task_index(base) else {
        let help = did_you_mean(base, workflow.tasks.iter().map(|task| task.name.as_str())).or_else(|| {
            let names: Vec<&str> = workflow.tasks.iter().take(20).map(|task| task.name.as_str()).collect();
            Some(format!("there are {}", names.join(", ")))
        });
        report.push(place, "", format!("the workflow has no task {}", quoted(base)), help);
        return None;
    };
    let task = &workflow.tasks[index];
    if item.is_some() && task.foreach.is_none() {
        report.add(place, "", format!("task {} has no `foreach`, so it has no items", quoted(base)));
    }
    Some(task)
}

/// `load[3]` → `load` and 3.
pub(super) fn split_item(name: &str) -> (&str, Option<usize>) {
    let item = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    match item.and_then(|(base, number)| Some((base, number.parse().ok()?))) {
        Some((base, number)) => (base, Some(number)),
        None => (name, None),
    }
}
