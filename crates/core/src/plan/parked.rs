//! What a node works out for tasks that no worker executes: lists to repeat over, child runs, waits, approvals; and what
//! it works out for triggers and for the end of a run. All of it is pure.

use serde_json::{Map, Value, json};

use crate::author::parse_duration;
use crate::diagnostic::quoted;
use crate::expr::{EvalError, Scope, evaluate, is_true, render_json, render_text};
use crate::state::RunState;
use crate::work::Failure;
use crate::workflow::{Action, Foreach, OnTimeout, Reads, Task, Trigger, Wait};
use crate::{Micros, Workflow, time};

use super::env::Needed;
use super::{failure, matrix};

/// The longest list a task is repeated over.
pub const MAX_ITEMS: usize = 10_000;

/// Sub-workflows are nested at most so deep.
pub const MAX_DEPTH: usize = 20;

/// What becomes of a task that has waited for as long as it may.
#[derive(Debug, Clone, PartialEq)]
pub enum Lapse {
    Success(Option<Value>),
    Skip,
    Fail(Failure),
}

/// An approval as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalView {
    /// The roles that may decide; empty: every role that may operate runs.
    pub roles: Vec<String>,
    pub message: Option<String>,
    pub expires_at: Option<Micros>,
    pub on_timeout: OnTimeout,
}

impl Workflow {
    /// Which data the decision about a task needs: that of `if` and `foreach`, and if the task parks that of its action.
    pub fn decision_reads(&self, index: usize) -> Reads {
        let task = &self.tasks[index];
        let mut reads = task.condition_reads.clone();
        if task.action.parks() {
            reads.any |= task.reads.any;
            reads.tasks.extend(&task.reads.tasks);
            reads.tasks.sort_unstable();
            reads.tasks.dedup();
        }
        reads
    }

    /// The items a task with `foreach` is repeated for; a task without has one, which is null.
    pub fn foreach_items(&self, index: usize, scope: &Scope) -> Result<Vec<Value>, Failure> {
        let task = &self.tasks[index];
        let within = |error| failure(&format!("`foreach` of task `{}`", task.name), error);
        let items = match &task.foreach {
            None => vec![Value::Null],
            Some(Foreach::Expression(source)) => {
                let env = self.needed_env(None, Needed::expression(source), scope).map_err(within)?;
                match evaluate(source, scope, &env).map_err(within)? {
                    Value::Array(items) => items,
                    other => {
                        let message = format!("{} is {}, but must be a list", quoted(source), describe(&other));
                        return Err(within(EvalError(message)));
                    }
                }
            }
            Some(Foreach::List(members)) => {
                let needed = members.iter().fold(Needed::default(), |needed, member| needed.and(Needed::value(member)));
                let env = self.needed_env(None, needed, scope).map_err(within)?;
                let rendered = members.iter().map(|member| render_json(member, scope, &env));
                rendered.collect::<Result<_, _>>().map_err(within)?
            }
            Some(Foreach::Matrix(written)) => {
                let within = |error| failure(&format!("`matrix` of task `{}`", task.name), error);
                let texts = [&written.axes, &written.include, &written.exclude].map(Needed::value);
                let needed = texts.into_iter().fold(Needed::default(), Needed::and);
                let env = self.needed_env(None, needed, scope).map_err(within)?;
                matrix::combinations(written, scope, &env).map_err(within)?
            }
        };
        if items.len() > MAX_ITEMS {
            let message = format!("the list has {} items, more than {MAX_ITEMS}", items.len());
            return Err(within(EvalError(message)));
        }
        Ok(items)
    }

    /// Name, namespace and inputs of the run that a `workflow` task starts.
    pub fn child(&self, index: usize, scope: &Scope) -> Result<(String, String, Map<String, Value>), Failure> {
        let task = &self.tasks[index];
        let within = |error| failure(&format!("`workflow` of task `{}`", task.name), error);
        let Action::Workflow(child) = &task.action else { return Err(within(wrong_kind(task, "workflow"))) };
        let env = self.needed_env(Some(task), Needed::template(&child.name), scope).map_err(within)?;
        let name = render_text(&child.name, scope, &env).map_err(within)?;
        if !crate::author::is_name(&name) {
            return Err(within(EvalError(format!("{} is not the name of a workflow", quoted(&name)))));
        }
        let namespace = child.namespace.clone().unwrap_or_else(|| self.namespace.clone());
        Ok((namespace, name, self.child_inputs(index, scope)?))
    }

    /// The inputs a `workflow` task gives to its child.
    pub fn child_inputs(&self, index: usize, scope: &Scope) -> Result<Map<String, Value>, Failure> {
        let task = &self.tasks[index];
        let within = |error| failure(&format!("`workflow.inputs` of task `{}`", task.name), error);
        let Action::Workflow(child) = &task.action else { return Err(within(wrong_kind(task, "workflow"))) };
        let needed = child.inputs.values().fold(Needed::default(), |needed, value| needed.and(Needed::value(value)));
        let env = self.needed_env(Some(task), needed, scope).map_err(within)?;
        let mut inputs = Map::with_capacity(child.inputs.len());
        for (name, template) in &child.inputs {
            inputs.insert(name.clone(), render_json(template, scope, &env).map_err(within)?);
        }
        Ok(inputs)
    }

    /// When a parked task stops waiting by itself: its time has come, or nothing else has. `None`: never.
    pub fn wait_until(&self, index: usize, now: Micros, scope: &Scope) -> Result<Option<Micros>, Failure> {
        let task = &self.tasks[index];
        let within = |error| failure(&format!("`wait` of task `{}`", task.name), error);
        let after = |timeout: &Option<u64>| timeout.map(|timeout| now.saturating_add(timeout as Micros * 1_000));
        let wait = match &task.action {
            Action::Approval(approval) => return Ok(after(&approval.timeout_ms)),
            Action::Wait(Wait::Event { timeout_ms, .. } | Wait::Result { timeout_ms }) => return Ok(after(timeout_ms)),
            Action::Wait(wait) => wait,
            _ => return Ok(None),
        };
        let (Wait::For(template) | Wait::Until(template)) = wait else { return Ok(None) };
        let env = self.needed_env(Some(task), Needed::template(template), scope).map_err(within)?;
        let text = render_text(template, scope, &env).map_err(within)?;
        if let Wait::For(_) = wait {
            let duration = parse_duration(&text)
                .map_err(|cause| within(EvalError(format!("{} is not a duration: {cause}", quoted(&text)))))?;
            return Ok(after(&Some(duration)));
        }
        match time::parse(&text) {
            Some(at) => Ok(Some(at)),
            None => {
                let message = format!("{} is not a time like 2026-01-31T08:00:00Z", quoted(&text));
                Err(within(EvalError(message)))
            }
        }
    }

    /// The key of the event that a task waits for; `None`: any.
    pub fn event_key(&self, index: usize, scope: &Scope) -> Result<Option<String>, Failure> {
        let task = &self.tasks[index];
        let Action::Wait(Wait::Event { key: Some(key), .. }) = &task.action else { return Ok(None) };
        let within = |error| failure(&format!("`wait.key` of task `{}`", task.name), error);
        let env = self.needed_env(Some(task), Needed::template(key), scope).map_err(within)?;
        let key = render_text(key, scope, &env).map_err(within)?;
        if key.contains('\0') {
            return Err(within(EvalError("the key holds a NUL character".into())));
        }
        Ok(Some(key))
    }

    /// Whether the event in the scope is one that the task waits for, its name and key aside.
    pub fn event_matches(&self, index: usize, scope: &Scope) -> Result<bool, Failure> {
        let task = &self.tasks[index];
        let Action::Wait(Wait::Event { condition: Some(condition), .. }) = &task.action else { return Ok(true) };
        let within = |error| failure(&format!("`wait.if` of task `{}`", task.name), error);
        let env = self.needed_env(Some(task), Needed::expression(condition), scope).map_err(within)?;
        evaluate(condition, scope, &env).map(|value| is_true(&value)).map_err(within)
    }

    /// What the end of the time brings to a parked task.
    pub fn lapse(&self, index: usize) -> Lapse {
        let task = &self.tasks[index];
        match &task.action {
            Action::Workflow(_) => Lapse::Fail(timed_out("the sub-workflow did not end", task.timeout_ms)),
            Action::Approval(approval) => match approval.on_timeout {
                OnTimeout::Fail => Lapse::Fail(timed_out("nobody approved", approval.timeout_ms)),
                OnTimeout::Approve => Lapse::Success(Some(approved("timeout", None))),
                OnTimeout::Skip => Lapse::Skip,
            },
            Action::Wait(Wait::Event { name, .. }) => Lapse::Fail(timed_out(&format!("no event `{name}` came"), None)),
            Action::Wait(Wait::Result { .. }) => Lapse::Fail(timed_out("nobody delivered a result", None)),
            _ => Lapse::Success(None),
        }
    }

    /// What an `approval` asks, and until when.
    pub fn approval(&self, index: usize, now: Micros, scope: &Scope) -> Result<ApprovalView, Failure> {
        let task = &self.tasks[index];
        let within = |error| failure(&format!("`approval` of task `{}`", task.name), error);
        let Action::Approval(approval) = &task.action else { return Err(within(wrong_kind(task, "approval"))) };
        let message = match &approval.message {
            None => None,
            Some(template) => {
                let env = self.needed_env(Some(task), Needed::template(template), scope).map_err(within)?;
                Some(render_text(template, scope, &env).map_err(within)?)
            }
        };
        let expires_at = self.wait_until(index, now, scope)?;
        Ok(ApprovalView { roles: approval.roles.clone(), message, expires_at, on_timeout: approval.on_timeout })
    }

    /// The run's own output, once all its tasks have ended.
    pub fn workflow_outputs(&self, scope: &Scope) -> Result<Map<String, Value>, Failure> {
        let mut outputs = Map::with_capacity(self.outputs.len());
        for (name, template) in &self.outputs {
            let value = render_json(template, scope, &Map::new());
            let value = value.map_err(|error| failure(&format!("`outputs.{name}` of the workflow"), error))?;
            outputs.insert(name.clone(), value);
        }
        Ok(outputs)
    }
}

impl Trigger {
    /// Whether the event in the scope starts a run; one that cannot be judged is a failure.
    pub fn matches(&self, scope: &Scope) -> Result<bool, Failure> {
        let Some(condition) = &self.condition else { return Ok(true) };
        evaluate(condition, scope, &Map::new())
            .map(|value| is_true(&value))
            .map_err(|error| failure(&format!("`if` of trigger `{}`", self.id), error))
    }

    /// The inputs it gives, before the workflow checks and completes them.
    pub fn run_inputs(&self, scope: &Scope) -> Result<Map<String, Value>, Failure> {
        let mut inputs = Map::with_capacity(self.inputs.len());
        for (name, template) in &self.inputs {
            let value = render_json(template, scope, &Map::new());
            let value = value.map_err(|error| failure(&format!("`inputs.{name}` of trigger `{}`", self.id), error))?;
            inputs.insert(name.clone(), value);
        }
        Ok(inputs)
    }

    /// Events with different keys do not wait for each other; without a key all of them share the empty one.
    pub fn debounce_key(&self, scope: &Scope) -> Result<String, Failure> {
        let Some(key) = self.debounce.as_ref().and_then(|debounce| debounce.key.as_ref()) else {
            return Ok(String::new());
        };
        render_text(key, scope, &Map::new())
            .map_err(|error| failure(&format!("`debounce.key` of trigger `{}`", self.id), error))
    }
}

/// The output of an approval that was given.
pub fn approved(by: &str, reason: Option<&str>) -> Value {
    json!({"approved": true, "by": by, "reason": reason})
}

/// The failure of an approval that was refused. A refusal stays one: it is not asked again.
pub fn rejected(by: &str, reason: Option<&str>) -> Failure {
    let why = reason.map_or(String::new(), |reason| format!(": {reason}"));
    Failure { permanent: true, ..plain("rejected", format!("rejected by {by}{why}")) }
}

/// The failure of a task whose child failed; `run` names it, `error` is the name and the error of a task of its.
pub fn child_failed(run: &str, state: RunState, error: Option<(&str, &str)>) -> Failure {
    let ended = if state == RunState::Cancelled { "was cancelled" } else { "failed" };
    let why = error.map_or(String::new(), |(task, error)| format!(": task `{task}`: {error}"));
    plain("workflow", format!("{run} {ended}{why}"))
}

/// The failure of a task whose child would be nested too deep; `chain` names the workflows on the way, `name` the child.
pub fn too_deep(chain: &[String], name: &str) -> Failure {
    let mut shown = chain.to_vec();
    if chain.len() > 6 {
        shown = chain[..3].to_vec();
        shown.push("…".into());
        shown.extend_from_slice(&chain[chain.len() - 2..]);
    }
    let message = format!("sub-workflows are nested deeper than {MAX_DEPTH}: {} → {name}", shown.join(" → "));
    Failure { permanent: true, ..plain("dependency_cycle_detected", message) }
}

fn timed_out(what: &str, timeout_ms: Option<u64>) -> Failure {
    let within = timeout_ms.map_or(String::new(), |ms| format!(" within {}", time::duration(ms)));
    plain("timeout", format!("{what}{within}"))
}

fn plain(kind: &str, message: String) -> Failure {
    Failure { kind: kind.into(), message, ..Failure::default() }
}

fn wrong_kind(task: &Task, wanted: &str) -> EvalError {
    EvalError(format!("the task is a `{}`, not a `{wanted}`", task.action.kind()))
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
