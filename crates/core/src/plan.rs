//! What a task of a run does next, given what is known about the run: run or skip, and with which values.

mod answer;
mod ending;
mod env;
mod keys;
mod matrix;
mod parked;
mod steps;
mod trigger;

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::Workflow;
use crate::expr::{EvalError, Scope, evaluate, has_expression, is_true, render_json, render_text};
use crate::work::{Failure, HttpOrder, Order, OrderAction, ProcessOrder};
use crate::workflow::{Action, Container, Http, HttpAuth, HttpBody, Task};

pub use ending::EndedTasks;
use env::Needed;
pub use keys::CacheKeys;
pub use parked::{ApprovalView, Lapse, MAX_DEPTH, MAX_ITEMS, approved, child_failed, rejected, too_deep};

/// What a condition says.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Start,
    Skip,
    Fail(Failure),
}

impl Workflow {
    /// Evaluates a task's `if`. A task without one starts.
    pub fn decide(&self, index: usize, scope: &Scope) -> Decision {
        let task = &self.tasks[index];
        let Some(condition) = &task.condition else { return Decision::Start };
        let env = self.needed_env(None, Needed::expression(condition), scope);
        let decided = env.and_then(|env| evaluate(condition, scope, &env));
        match decided {
            Ok(value) if is_true(&value) => Decision::Start,
            Ok(_) => Decision::Skip,
            Err(error) => Decision::Fail(failure(&format!("`if` of task `{}`", task.name), error)),
        }
    }

    /// Whether [`Workflow::order`] looks at the scope at all. If not, one order serves every run.
    pub fn needs_scope(&self, index: usize) -> bool {
        self.tasks[index].reads.any || self.env.values().any(|text| has_expression(text))
    }

    /// The order for a worker: every expression replaced by its value.
    pub fn order(&self, index: usize, scope: &Scope) -> Result<Order, Failure> {
        let task = &self.tasks[index];
        let within = |part: &str, error: EvalError| within_task(part, &task.name, error);
        let mut env = self.rendered_env(scope).map_err(|error| failure("`env` of the workflow", error))?;
        for (name, text) in &task.env {
            let value = render_text(text, scope, &env).map_err(|error| within(&format!("`env.{name}`"), error))?;
            env.insert(name.clone(), Value::String(value));
        }
        let (action, mut variables) = ordered(task, scope, &env)?;
        let container = task.container.as_deref().map(|container| rendered(container, scope, &env)).transpose();
        let container = container.map_err(|error| within("`image`", error))?.map(Box::new);
        let mut all: Vec<(String, String)> = env.into_iter().map(|(name, value)| (name, text_of(value))).collect();
        all.append(&mut variables);
        if let Some((name, _)) = all.iter().find(|(_, text)| text.contains('\0')) {
            return Err(within("`env`", EvalError(format!("the value of `{name}` holds a NUL character"))));
        }
        Ok(Order {
            namespace: self.namespace.clone(),
            workflow: self.name.clone(),
            task: task.name.clone(),
            action,
            env: all,
            timeout_ms: task.timeout_ms,
            files: None,
            artifacts: task.artifacts.clone(),
            limits: task.limits,
            process: ProcessOrder {
                output: task.output,
                exit_codes: task.exit_codes.clone(),
                env_files: self.env_files.iter().chain(&task.env_files).cloned().collect(),
                container,
                incoming: Vec::new(),
                artifacts_limit: None,
                cache: None,
                remarks: Vec::new(),
            },
            on_store_loss: task.on_store_loss,
            secrets: scope.secrets.values().filter_map(|value| value.as_str().map(Into::into)).collect(),
        })
    }

    /// The key under which this run counts for the concurrency limit; `None` without a limit.
    pub fn concurrency_key(&self, scope: &Scope) -> Result<Option<String>, Failure> {
        let Some(concurrency) = &self.concurrency else { return Ok(None) };
        let Some(key) = &concurrency.key else { return Ok(Some(String::new())) };
        let rendered = render_text(key, scope, &Map::new());
        rendered.map(Some).map_err(|error| failure("`concurrency.key`", error))
    }

    fn rendered_env(&self, scope: &Scope) -> Result<Map<String, Value>, EvalError> {
        let mut env = Map::with_capacity(self.env.len());
        for (name, text) in &self.env {
            let value = render_text(text, scope, &env)?;
            env.insert(name.clone(), Value::String(value));
        }
        Ok(env)
    }
}

/// The action of a task with its expressions replaced, and the variables that its script reads them from.
fn ordered(
    task: &Task,
    scope: &Scope,
    env: &Map<String, Value>,
) -> Result<(OrderAction, Vec<(String, String)>), Failure> {
    let within = |part: &str, error: EvalError| within_task(part, &task.name, error);
    let mut variables: Vec<(String, String)> = Vec::new();
    let action = match &task.action {
        Action::Run { script, bindings, shell, cwd } => {
            for (variable, expression) in bindings {
                let value = evaluate(expression, scope, env).map_err(|error| within("`run`", error))?;
                variables.push((variable.clone(), text_of(value)));
            }
            let cwd = cwd.as_ref().map(|cwd| render_text(cwd, scope, env)).transpose();
            let cwd = cwd.map_err(|error| within("`cwd`", error))?;
            OrderAction::Run { script: script.clone(), shell: shell.clone(), cwd }
        }
        Action::Steps { steps, shell, cwd } => {
            let cwd = cwd.as_ref().map(|cwd| render_text(cwd, scope, env)).transpose();
            let cwd = cwd.map_err(|error| within("`cwd`", error))?;
            let steps = steps::orders(steps, shell.as_deref(), scope, env);
            OrderAction::Steps { steps: steps.map_err(|(part, error)| within(&part, error))?, cwd }
        }
        Action::Function { handler, payload } => {
            let payload = render_json(payload, scope, env).map_err(|error| within("`payload`", error))?;
            OrderAction::Function { handler: handler.clone(), payload }
        }
        Action::Remote { handler, payload } => {
            let payload = render_json(payload, scope, env).map_err(|error| within("`payload`", error))?;
            OrderAction::Remote { handler: handler.clone(), payload }
        }
        Action::Http(http) => OrderAction::Http(request(http, scope, env).map_err(|error| within("`http`", error))?),
        Action::Workflow(_) | Action::Approval(_) | Action::Wait(_) => {
            let error = EvalError(format!("`{}` is not executed by a worker", task.action.kind()));
            return Err(within("the action", error));
        }
    };
    Ok((action, variables))
}

/// The image and how to get and start it, with values for expressions.
fn rendered(container: &Container, scope: &Scope, env: &Map<String, Value>) -> Result<Container, EvalError> {
    let text = |template: &String| render_text(template, scope, env);
    Ok(Container {
        image: text(&container.image)?,
        command: container.command.iter().map(text).collect::<Result<_, _>>()?,
        username: container.username.as_ref().map(text).transpose()?,
        password: container.password.as_ref().map(text).transpose()?,
        ..container.clone()
    })
}

fn request(http: &Http, scope: &Scope, env: &Map<String, Value>) -> Result<HttpOrder, EvalError> {
    let text = |template: &str| render_text(template, scope, env);
    let pairs = |fields: &IndexMap<String, String>| {
        fields.iter().map(|(name, value)| Ok((name.clone(), text(value)?))).collect::<Result<Vec<_>, EvalError>>()
    };
    let body = match &http.body {
        None => None,
        Some(HttpBody::Json(value)) => Some(HttpBody::Json(render_json(value, scope, env)?)),
        Some(HttpBody::Form(fields)) => Some(HttpBody::Form(pairs(fields)?.into_iter().collect())),
        Some(HttpBody::Text(template)) => Some(HttpBody::Text(text(template)?)),
    };
    let auth = match &http.auth {
        None => None,
        Some(HttpAuth::Bearer(token)) => Some(HttpAuth::Bearer(text(token)?)),
        Some(HttpAuth::Basic { username, password }) => {
            Some(HttpAuth::Basic { username: text(username)?, password: text(password)? })
        }
    };
    Ok(HttpOrder {
        method: http.method.clone(),
        url: text(&http.url)?,
        headers: pairs(&http.headers)?,
        query: pairs(&http.query)?,
        body,
        auth,
        expect: http.expect.clone(),
        follow_redirects: http.follow_redirects,
        max_response_bytes: http.max_response_bytes,
    })
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn within_task(part: &str, task: &str, error: EvalError) -> Failure {
    failure(&format!("{part} of task `{task}`"), error)
}

fn failure(place: &str, error: EvalError) -> Failure {
    Failure { kind: "expression".into(), message: format!("{place}: {error}"), permanent: true, ..Failure::default() }
}
