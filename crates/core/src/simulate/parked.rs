//! Tasks that no worker executes: child workflows, approvals and waits.
//!
//! They are not tried again: a refusal stays a refusal, and a timeout has had its time.

use serde_json::{Map, Value, json};

use crate::diagnostic::quoted;
use crate::expr::{evaluate, is_true, render_json, render_text};
use crate::state::RunState;
use crate::work::Failure;
use crate::workflow::{Action, Approval, Child, OnTimeout, Wait};
use crate::{Micros, author};

use super::mock::StepResult;
use super::play::{Conclusion, MAX_DEPTH, Outcome, Player, Refusal, Setting, micros, play_run};

type Ends = Option<(Micros, Conclusion)>;

impl Player<'_> {
    /// When and how it ends; `None` if it never does.
    pub(super) fn parked(&mut self, index: usize, item: Option<usize>, attempt: u32) -> Ends {
        let task = &self.workflow.tasks[index];
        let env = match self.env() {
            Ok(env) => env,
            Err(cause) => return now(failed("expression", format!("`env` of the workflow: {cause}"))),
        };
        match &task.action {
            Action::Workflow(child) => Some(self.child(index, item, attempt, child, &env)),
            Action::Approval(approval) => self.approval(index, item, attempt, approval),
            Action::Wait(Wait::For(template)) => now_or(self.wait_for(template, &env), &task.name),
            Action::Wait(Wait::Until(template)) => now_or(self.wait_until(template, &env), &task.name),
            Action::Wait(Wait::Event { name, key, condition, timeout_ms }) => {
                let event = Waited { name, key: key.as_deref(), condition: condition.as_deref() };
                self.event(index, item, attempt, event, *timeout_ms, &env)
            }
            Action::Wait(Wait::Result { timeout_ms }) => {
                let step = self.step(index, item, attempt);
                let conclusion = match step.result {
                    StepResult::Fail(failure) => Some(Conclusion::Failed(Failure { permanent: true, ..failure })),
                    StepResult::Never => None,
                    StepResult::Output(output) => Some(Conclusion::Success(output)),
                    _ => Some(Conclusion::Success(empty())),
                };
                within(conclusion.map(|one| (micros(step.takes_ms), one)), *timeout_ms, expired)
            }
            Action::Run { .. } | Action::Function { .. } | Action::Http(_) | Action::Remote { .. } => None,
        }
    }

    fn wait_for(&self, template: &str, env: &Map<String, Value>) -> Result<Micros, String> {
        let text = render_text(template, &self.scope, env).map_err(|error| error.to_string())?;
        let millis =
            author::parse_duration(&text).map_err(|cause| format!("{} is no duration: {cause}", quoted(&text)))?;
        Ok(micros(millis))
    }

    fn wait_until(&self, template: &str, env: &Map<String, Value>) -> Result<Micros, String> {
        let text = render_text(template, &self.scope, env).map_err(|error| error.to_string())?;
        let at = crate::time::parse(&text).ok_or_else(|| format!("{} is no time", quoted(&text)))?;
        Ok((at - self.now).max(0))
    }

    fn approval(&mut self, index: usize, item: Option<usize>, attempt: u32, approval: &Approval) -> Ends {
        let step = self.step(index, item, attempt);
        let conclusion = match step.result {
            StepResult::Never => None,
            StepResult::Reject => Some(failed("rejected", "the approval was refused".into())),
            _ => Some(Conclusion::Success(json!({"approved": true, "by": "test", "reason": null}))),
        };
        let on_timeout = approval.on_timeout;
        within(conclusion.map(|one| (micros(step.takes_ms), one)), approval.timeout_ms, |limit| match on_timeout {
            OnTimeout::Fail => expired(limit),
            OnTimeout::Approve => Conclusion::Success(json!({"approved": true, "by": "timeout", "reason": null})),
            OnTimeout::Skip => Conclusion::Skipped,
        })
    }

    fn event(
        &mut self,
        index: usize,
        item: Option<usize>,
        attempt: u32,
        waited: Waited<'_>,
        timeout_ms: Option<u64>,
        env: &Map<String, Value>,
    ) -> Ends {
        let step = self.step(index, item, attempt);
        let data = match step.result {
            StepResult::Never => None,
            StepResult::Fail(failure) => {
                return Some((micros(step.takes_ms), Conclusion::Failed(Failure { permanent: true, ..failure })));
            }
            StepResult::Event(data) | StepResult::Output(data) => Some(data),
            StepResult::Approve | StepResult::Reject => Some(empty()),
        };
        let key = waited.key.map(|key| render_text(key, &self.scope, env)).transpose();
        let arrives = match (data, key) {
            (_, Err(error)) => return now(failed("expression", format!("`key`: {error}"))),
            (None, _) => None,
            (Some(data), Ok(key)) => {
                let event = json!({"name": waited.name, "key": key, "data": data, "source": "test"});
                let outer = self.scope.event.replace(event.clone());
                let wanted = waited.condition.map(|condition| evaluate(condition, &self.scope, env)).transpose();
                self.scope.event = outer;
                match wanted {
                    Err(error) => return now(failed("expression", format!("`if`: {error}"))),
                    Ok(Some(value)) if !is_true(&value) => None,
                    Ok(_) => Some((micros(step.takes_ms), Conclusion::Success(event))),
                }
            }
        };
        within(arrives, timeout_ms, expired)
    }

    fn child(
        &mut self,
        index: usize,
        item: Option<usize>,
        attempt: u32,
        child: &Child,
        env: &Map<String, Value>,
    ) -> (Micros, Conclusion) {
        let rendered = render_text(&child.name, &self.scope, env).and_then(|name| {
            let inputs =
                child.inputs.iter().map(|(name, value)| Ok((name.clone(), render_json(value, &self.scope, env)?)));
            Ok((name, inputs.collect::<Result<Map<String, Value>, _>>()?))
        });
        let (name, inputs) = match rendered {
            Ok(rendered) => rendered,
            Err(error) => return (0, failed("expression", format!("`workflow`: {error}"))),
        };
        match item {
            None => self.tasks[index].child_inputs = Some(inputs.clone().into()),
            Some(item) => self.items_of(index).outcomes[item].child_inputs = Some(inputs.clone().into()),
        }
        let (delay, conclusion) = if self.mock(index, item).is_some_and(|mock| mock.says_the_end()) {
            let step = self.step(index, item, attempt);
            let conclusion = match step.result {
                StepResult::Fail(failure) => Conclusion::Failed(Failure { permanent: true, ..failure }),
                StepResult::Output(output) => Conclusion::Success(output),
                _ => Conclusion::Success(empty()),
            };
            (micros(step.takes_ms), conclusion)
        } else {
            self.play_child(index, item, child, &name, inputs)
        };
        match self.workflow.tasks[index].timeout_ms {
            Some(limit) if delay > micros(limit) => (micros(limit), expired(limit)),
            _ => (delay, conclusion),
        }
    }

    fn play_child(
        &mut self,
        index: usize,
        item: Option<usize>,
        child: &Child,
        name: &str,
        inputs: Map<String, Value>,
    ) -> (Micros, Conclusion) {
        let namespace = child.namespace.as_deref().unwrap_or(&self.workflow.namespace);
        let Some(subject) = self.setting.children.find(namespace, name) else {
            self.object(index);
            return (0, Conclusion::Success(empty()));
        };
        if self.setting.depth + 1 >= MAX_DEPTH {
            let message = format!("workflows call each other more than {MAX_DEPTH} deep");
            return (0, failed("depth", message));
        }
        let nothing = Default::default();
        let mocks = self.mock(index, item).map_or(&nothing, |mock| &mock.tasks);
        let setting = Setting { mocks, event: None, depth: self.setting.depth + 1, ..self.setting };
        match play_run(subject, inputs, self.now, setting) {
            Err(Refusal::Inputs(problems)) => {
                let message = format!("the inputs do not fit workflow {}: {problems}", quoted(name));
                (0, failed("inputs", message))
            }
            Ok(outcome) => {
                for task in &outcome.unmocked {
                    self.unmocked.push(format!("{}/{task}", self.workflow.tasks[index].name));
                }
                (outcome.ended - outcome.started, end_of_child(name, subject.workflow(), outcome))
            }
        }
    }
}

/// What a wait looks for.
#[derive(Clone, Copy)]
struct Waited<'a> {
    name: &'a str,
    key: Option<&'a str>,
    condition: Option<&'a str>,
}

fn end_of_child(name: &str, workflow: &crate::Workflow, outcome: Outcome) -> Conclusion {
    if outcome.state == RunState::Success {
        let outputs: Result<Map<String, Value>, String> =
            outcome.outputs.into_iter().map(|(name, value)| Ok((name, value?))).collect();
        return match outputs {
            Ok(outputs) => Conclusion::Success(outputs.into()),
            Err(error) => failed("expression", format!("`outputs` of workflow {}: {error}", quoted(name))),
        };
    }
    let cause = outcome.tasks.iter().zip(&workflow.tasks).find_map(|(outcome, task)| {
        let failure = outcome.error.as_ref()?;
        Some(format!("; task {}: {}", quoted(&task.name), failure.message))
    });
    let word = if outcome.state.is_terminal() { outcome.state.word() } else { "without end" };
    failed("child", format!("the run of workflow {} is {word}{}", quoted(name), cause.unwrap_or_default()))
}

fn empty() -> Value {
    Value::Object(Map::new())
}

fn failed(kind: &str, message: String) -> Conclusion {
    Conclusion::Failed(Failure { kind: kind.into(), message, permanent: true, ..Failure::default() })
}

fn expired(limit_ms: u64) -> Conclusion {
    let message = format!("nothing happened within {}", super::compare::duration(limit_ms));
    failed("timeout", message)
}

fn now(conclusion: Conclusion) -> Ends {
    Some((0, conclusion))
}

fn now_or(delay: Result<Micros, String>, task: &str) -> Ends {
    match delay {
        Ok(delay) => Some((delay, Conclusion::Success(empty()))),
        Err(cause) => now(failed("expression", format!("`wait` of task {}: {cause}", quoted(task)))),
    }
}

/// What happens in time, or what the end of the time brings.
fn within(ends: Ends, timeout_ms: Option<u64>, late: impl FnOnce(u64) -> Conclusion) -> Ends {
    match (ends, timeout_ms) {
        (Some((delay, conclusion)), Some(limit)) if delay <= micros(limit) => Some((delay, conclusion)),
        (_, Some(limit)) => Some((micros(limit), late(limit))),
        (ends, None) => ends,
    }
}
