//! What a task of a run does next, given what is known about the run: run or skip, and with which values.

use serde_json::{Map, Value};

use crate::Workflow;
use crate::expr::{EvalError, Scope, evaluate, has_expression, is_true, render_json, render_text};
use crate::work::{Failure, Order, OrderAction};
use crate::workflow::{Action, Limits};

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
        let decided = self.rendered_env(scope).and_then(|env| evaluate(condition, scope, &env));
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
        let within = |part: &str, error: EvalError| failure(&format!("{part} of task `{}`", task.name), error);
        let mut env = self.rendered_env(scope).map_err(|error| failure("`env` of the workflow", error))?;
        let mut own = Vec::with_capacity(task.env.len());
        for (name, text) in &task.env {
            own.push((
                name.clone(),
                render_text(text, scope, &env).map_err(|error| within(&format!("`env.{name}`"), error))?,
            ));
        }
        for (name, text) in own {
            env.insert(name, Value::String(text));
        }
        let mut variables: Vec<(String, String)> = Vec::new();
        let action = match &task.action {
            Action::Run { script, bindings, shell, cwd } => {
                for (variable, expression) in bindings {
                    let value = evaluate(expression, scope, &env).map_err(|error| within("`run`", error))?;
                    variables.push((variable.clone(), text_of(value)));
                }
                let cwd = cwd.as_ref().map(|cwd| render_text(cwd, scope, &env)).transpose();
                let cwd = cwd.map_err(|error| within("`cwd`", error))?;
                OrderAction::Run { script: script.clone(), shell: shell.clone(), cwd }
            }
            Action::Function { handler, payload } => {
                let payload = render_json(payload, scope, &env).map_err(|error| within("`payload`", error))?;
                OrderAction::Function { handler: handler.clone(), payload }
            }
        };
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
            artifacts: Vec::new(),
            limits: Limits::default(),
            secrets: Vec::new(),
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
        let nothing = Map::new();
        let mut env = Map::with_capacity(self.env.len());
        for (name, text) in &self.env {
            env.insert(name.clone(), Value::String(render_text(text, scope, &nothing)?));
        }
        Ok(env)
    }
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn failure(place: &str, error: EvalError) -> Failure {
    Failure { kind: "expression".into(), message: format!("{place}: {error}"), permanent: true, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::TaskState;
    use crate::{TaskView, parse};

    fn example() -> (Workflow, Scope) {
        let workflow = parse(
            "name: w
namespace: n
inputs: {region: {default: eu}, dry: {type: boolean, default: false}}
env: {HOST: 'db.${{ inputs.region }}', PLAIN: p}
concurrency: {key: 'k-${{ inputs.region }}'}
tasks:
  extract: {function: noop}
  load:
    needs: extract
    if: not inputs.dry and tasks.extract.output.rows > 0
    run: load ${{ tasks.extract.output.rows }} \"${{ env.HOST }}\" ${{ tasks.extract.output.rows }}
    env: {PLAIN: mine, ROWS: '${{ tasks.extract.output.rows }}', URL: 'x://${{ env.HOST }}'}
    cwd: /tmp/${{ env.ROWS }}
    timeout: 3s
  send: {needs: load, function: {handler: send, payload: {all: '${{ tasks.extract.output }}', note: 'n=${{ tasks.extract.output.rows }}'}}}
",
        )
        .unwrap_or_else(|errors| panic!("{errors}"));
        let mut scope = Scope::default();
        scope.inputs = workflow.resolve_inputs(Map::new(), &scope).unwrap();
        let output = Some(json!({"rows": 3}));
        scope.tasks.insert("extract".into(), TaskView { status: TaskState::Success, attempts: 1, output });
        (workflow, scope)
    }

    #[test]
    fn conditions_decide() {
        let (workflow, mut scope) = example();
        assert_eq!(workflow.decide(0, &scope), Decision::Start);
        assert_eq!(workflow.decide(1, &scope), Decision::Start);
        scope.inputs.insert("dry".into(), json!(true));
        assert_eq!(workflow.decide(1, &scope), Decision::Skip);
        scope.inputs.insert("dry".into(), json!(false));
        scope.tasks.get_mut("extract").unwrap().output = Some(json!({"count": 1}));
        let Decision::Fail(failure) = workflow.decide(1, &scope) else { panic!() };
        assert_eq!(failure.kind, "expression");
        assert_eq!(
            failure.message,
            "`if` of task `load`: `tasks.extract.output.rows` is undefined: output has keys count"
        );
    }

    #[test]
    fn orders_hold_values() {
        let (workflow, scope) = example();
        let order = workflow.order(1, &scope).unwrap();
        let OrderAction::Run { script, shell, cwd } = &order.action else { panic!() };
        assert_eq!(script, "load \"${MAINSPRING_EXPR_0}\" \"${MAINSPRING_EXPR_1}\" \"${MAINSPRING_EXPR_0}\"");
        assert_eq!((shell, cwd.as_deref()), (&None, Some("/tmp/3")));
        let env: Vec<(&str, &str)> = order.env.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(
            env,
            [
                ("HOST", "db.eu"),
                ("PLAIN", "mine"),
                ("ROWS", "3"),
                ("URL", "x://db.eu"),
                ("MAINSPRING_EXPR_0", "3"),
                ("MAINSPRING_EXPR_1", "db.eu"),
            ]
        );
        assert_eq!((order.timeout_ms, order.task.as_str(), order.namespace.as_str()), (Some(3_000), "load", "n"));

        let OrderAction::Function { handler, payload } = workflow.order(2, &scope).unwrap().action else { panic!() };
        assert_eq!((handler.as_str(), payload), ("send", json!({"all": {"rows": 3}, "note": "n=3"})));
        assert_eq!(workflow.concurrency_key(&scope).unwrap().as_deref(), Some("k-eu"));
    }

    #[test]
    fn missing_values_fail_the_order() {
        let (workflow, mut scope) = example();
        scope.tasks.clear();
        let failure = workflow.order(2, &scope).unwrap_err();
        assert_eq!(failure.message, "`payload` of task `send`: `tasks.extract` is undefined: the task has not run");
        assert!(failure.permanent);
        let nul = TaskView { status: TaskState::Success, attempts: 1, output: Some(json!({"rows": "a\u{0}b"})) };
        scope.tasks.insert("extract".into(), nul);
        assert!(workflow.order(1, &scope).unwrap_err().message.contains("NUL"));
    }

    #[test]
    fn an_order_without_expressions_serves_every_run() {
        let needs_scope = |yaml: &str| parse(yaml).unwrap().needs_scope(0);
        assert!(!needs_scope("{name: w, env: {A: b}, tasks: {a: {run: x, if: 'run.id', env: {B: c}}}}"));
        assert!(needs_scope("{name: w, env: {A: '${{ run.id }}'}, tasks: {a: {run: x}}}"));
        assert!(needs_scope("{name: w, tasks: {a: {run: 'x ${{ run.id }}'}}}"));
        assert!(needs_scope("{name: w, tasks: {a: {function: {handler: h, payload: ['${{ run.id }}']}}}}"));
        assert_eq!(parse("{name: w}").unwrap().concurrency_key(&Scope::default()), Ok(None));
    }
}
