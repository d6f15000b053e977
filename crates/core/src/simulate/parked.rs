//! Tasks that no worker executes: child workflows, approvals and waits.
//!
//! What they wait for, and what the end of the time brings, is worked out as for a real run. Of what went badly only a
//! child is tried again, if its task says `retry`: a refusal stays a refusal, and a wait has had its time.

use serde_json::{Map, Value, json};

use crate::Micros;
use crate::diagnostic::quoted;
use crate::plan::{Lapse, MAX_DEPTH, approved, child_failed, rejected, too_deep};
use crate::state::RunState;
use crate::work::Failure;
use crate::workflow::{Action, Wait};

use super::mock::StepResult;
use super::outcome::{Conclusion, Outcome, Refusal};
use super::play::{Player, Setting, micros, play_run};

/// When, counted from now, and how it ends; `None` if it never does.
type Ends = Option<(Micros, Conclusion)>;

impl Player<'_> {
    pub(super) fn parked(&mut self, index: usize, item: Option<usize>, attempt: u32) -> Ends {
        let due_at = match self.workflow.wait_until(index, self.now, &self.scope) {
            Ok(due_at) => due_at,
            Err(failure) => return now(failure),
        };
        let until = due_at.map(|at| (at - self.now).max(0));
        match &self.workflow.tasks[index].action {
            Action::Workflow(_) => {
                let ends = self.child(index, item, attempt);
                self.within(index, ends, self.workflow.tasks[index].timeout_ms.map(micros))
            }
            Action::Approval(_) => {
                if let Err(failure) = self.workflow.approval(index, self.now, &self.scope) {
                    return now(failure);
                }
                let ends = self.answer(index, item, attempt);
                self.within(index, ends, until)
            }
            Action::Wait(Wait::Event { name, .. }) => {
                let name = name.clone();
                match self.event(index, item, attempt, &name) {
                    Ok(ends) => self.within(index, ends, until),
                    Err(failure) => now(failure),
                }
            }
            Action::Wait(Wait::Result { .. }) => {
                let ends = self.result(index, item, attempt);
                self.within(index, ends, until)
            }
            Action::Wait(Wait::For(_) | Wait::Until(_)) => self.within(index, None, until),
            Action::Run { .. }
            | Action::Steps { .. }
            | Action::Function { .. }
            | Action::Http(_)
            | Action::Remote { .. } => None,
        }
    }

    /// What happens in time, or what the end of the time brings.
    fn within(&self, index: usize, ends: Ends, until: Option<Micros>) -> Ends {
        let Some(until) = until else { return ends };
        if let Some((delay, conclusion)) = ends
            && delay <= until
        {
            return Some((delay, conclusion));
        }
        let retries = matches!(self.workflow.tasks[index].action, Action::Workflow(_));
        let conclusion = match self.workflow.lapse(index) {
            Lapse::Success(output) => Conclusion::Success(output.unwrap_or_else(empty)),
            Lapse::Skip => Conclusion::Skipped,
            Lapse::Fail(failure) => Conclusion::Failed(Failure { permanent: failure.permanent || !retries, ..failure }),
        };
        Some((until, conclusion))
    }

    fn answer(&mut self, index: usize, item: Option<usize>, attempt: u32) -> Ends {
        let step = self.step(index, item, attempt);
        let conclusion = match step.result {
            StepResult::Never => return None,
            StepResult::Reject => Conclusion::Failed(rejected("test", None)),
            _ => Conclusion::Success(approved("test", None)),
        };
        Some((micros(step.takes_ms), conclusion))
    }

    fn result(&mut self, index: usize, item: Option<usize>, attempt: u32) -> Ends {
        let step = self.step(index, item, attempt);
        let conclusion = match step.result {
            StepResult::Never => return None,
            StepResult::Fail(failure) => Conclusion::Failed(Failure { permanent: true, ..failure }),
            StepResult::Output(output) => Conclusion::Success(output),
            _ => Conclusion::Success(empty()),
        };
        Some((micros(step.takes_ms), conclusion))
    }

    fn event(&mut self, index: usize, item: Option<usize>, attempt: u32, name: &str) -> Result<Ends, Failure> {
        let step = self.step(index, item, attempt);
        let key = self.workflow.event_key(index, &self.scope)?;
        let data = match step.result {
            StepResult::Never => return Ok(None),
            StepResult::Fail(failure) => {
                let failure = Failure { permanent: true, ..failure };
                return Ok(Some((micros(step.takes_ms), Conclusion::Failed(failure))));
            }
            StepResult::Event(data) | StepResult::Output(data) => data,
            StepResult::Approve | StepResult::Reject => empty(),
        };
        let event = json!({"name": name, "key": key, "data": data, "source": "test"});
        let outer = self.scope.event.replace(event.clone());
        let wanted = self.workflow.event_matches(index, &self.scope);
        self.scope.event = outer;
        Ok(wanted?.then(|| (micros(step.takes_ms), Conclusion::Success(event))))
    }

    fn child(&mut self, index: usize, item: Option<usize>, attempt: u32) -> Ends {
        let (namespace, name, inputs) = match self.workflow.child(index, &self.scope) {
            Ok(evaluated) => evaluated,
            Err(failure) => return now(failure),
        };
        match item {
            None => self.tasks[index].child_inputs = Some(inputs.clone().into()),
            Some(item) => self.items_of(index).outcomes[item].child_inputs = Some(inputs.clone().into()),
        }
        if !self.mock(index, item).is_some_and(|mock| mock.says_the_end()) {
            return self.play_child(index, item, &namespace, &name, inputs);
        }
        let step = self.step(index, item, attempt);
        let conclusion = match step.result {
            StepResult::Never => return None,
            StepResult::Fail(failure) => Conclusion::Failed(failure),
            StepResult::Output(output) => Conclusion::Success(output),
            _ => Conclusion::Success(empty()),
        };
        Some((micros(step.takes_ms), conclusion))
    }

    fn play_child(
        &mut self,
        index: usize,
        item: Option<usize>,
        namespace: &str,
        name: &str,
        inputs: Map<String, Value>,
    ) -> Ends {
        let Some(subject) = self.setting.children.find(namespace, name) else {
            self.object(index);
            return Some((0, Conclusion::Success(empty())));
        };
        if self.setting.depth + 1 > MAX_DEPTH {
            let chain = vec![self.workflow.name.clone(); self.setting.depth + 1];
            return now(too_deep(&chain, name));
        }
        let nothing = Default::default();
        let mocks = self.mock(index, item).map_or(&nothing, |mock| &mock.tasks);
        let setting = Setting { mocks, event: None, depth: self.setting.depth + 1, ..self.setting };
        match play_run(subject, inputs, self.now, setting) {
            Err(Refusal::Inputs(problems)) => {
                let message = format!("the inputs do not fit workflow {}: {problems}", quoted(name));
                now(Failure { kind: "inputs".into(), message, permanent: true, ..Failure::default() })
            }
            Ok(outcome) => {
                for task in &outcome.unmocked {
                    self.unmocked.push(format!("{}/{task}", self.workflow.tasks[index].name));
                }
                let delay = outcome.ended - outcome.started;
                end_of_child(name, subject.workflow(), outcome).map(|conclusion| (delay, conclusion))
            }
        }
    }
}

/// `None` if the child waits for something that never comes.
fn end_of_child(name: &str, workflow: &crate::Workflow, outcome: Outcome) -> Option<Conclusion> {
    if !outcome.state.is_terminal() {
        return None;
    }
    if outcome.state == RunState::Success {
        let outputs: Result<Map<String, Value>, String> =
            outcome.outputs.into_iter().map(|(name, value)| Ok((name, value?))).collect();
        return Some(match outputs {
            Ok(outputs) => Conclusion::Success(outputs.into()),
            Err(error) => {
                let message = format!("`outputs` of workflow {}: {error}", quoted(name));
                let kind = "expression".into();
                Conclusion::Failed(Failure { kind, message, permanent: true, ..Failure::default() })
            }
        });
    }
    let error = outcome.tasks.iter().zip(&workflow.tasks).find_map(|(outcome, task)| {
        let failure = outcome.error.as_ref()?;
        Some((task.name.as_str(), failure.message.as_str()))
    });
    let run = format!("the run of workflow {}", quoted(name));
    Some(Conclusion::Failed(child_failed(&run, outcome.state, error)))
}

fn empty() -> Value {
    Value::Object(Map::new())
}

fn now(failure: Failure) -> Ends {
    Some((0, Conclusion::Failed(failure)))
}
