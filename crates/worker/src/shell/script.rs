//! The scripts of one attempt: the one of `run`, or those of `steps`, one after the other in the same folder.

use std::time::Duration;

use mainspring_core::work::{Failure, OrderAction};

use crate::text;

/// What one attempt executes.
#[derive(Debug)]
pub(crate) struct Scripts<'a> {
    pub(super) all: Vec<Script<'a>>,
    /// The working directory of all scripts.
    pub(super) cwd: Option<&'a str>,
}

/// One script.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script<'a> {
    pub(super) text: &'a str,
    pub(super) shell: Option<&'a str>,
    pub(super) step: Option<StepOf<'a>>,
}

/// The step that a script belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepOf<'a> {
    pub(super) name: &'a str,
    number: usize,
    count: usize,
    pub(super) skipped: bool,
    pub(super) cwd: Option<&'a str>,
    pub(super) env: &'a [(String, String)],
    pub(super) continue_on_error: bool,
}

impl<'a> Scripts<'a> {
    /// `None` if the order is not executed as a process.
    pub(crate) fn of(action: &'a OrderAction) -> Option<Self> {
        match action {
            OrderAction::Run { script, shell, cwd } => {
                let script = Script { text: script, shell: shell.as_deref(), step: None };
                Some(Self { all: vec![script], cwd: cwd.as_deref() })
            }
            OrderAction::Steps { steps, cwd } => {
                let all = steps.iter().enumerate().map(|(index, step)| Script {
                    text: &step.script,
                    shell: step.shell.as_deref(),
                    step: Some(StepOf {
                        name: &step.name,
                        number: index + 1,
                        count: steps.len(),
                        skipped: step.skipped,
                        cwd: step.cwd.as_deref(),
                        env: &step.env,
                        continue_on_error: step.continue_on_error,
                    }),
                });
                Some(Self { all: all.collect(), cwd: cwd.as_deref() })
            }
            OrderAction::Function { .. } | OrderAction::Http(_) | OrderAction::Remote { .. } => None,
        }
    }
}

impl StepOf<'_> {
    /// The line that the log shows before the step.
    pub(super) fn heading(&self) -> String {
        let left_out = if self.skipped { ", left out: its `if` is false" } else { "" };
        format!("step {} of {}: {}{left_out}", self.number, self.count, self.name)
    }

    /// The line that the log shows after the step.
    pub(super) fn ending(&self, failure: Option<&Failure>, taken: Duration) -> String {
        let taken = text::duration(taken);
        match failure {
            None => format!("step {} succeeded after {taken}", self.name),
            Some(failure) if self.continue_on_error => {
                format!("step {} failed after {taken} and the task goes on: {}", self.name, failure.message)
            }
            Some(failure) => format!("step {} failed after {taken}: {}", self.name, failure.message),
        }
    }

    /// The failure of the task, made from the failure of its step.
    pub(super) fn failed(&self, failure: Failure) -> Failure {
        Failure { message: format!("step `{}`: {}", self.name, failure.message), ..failure }
    }
}
