//! The execution context of a failed task: its inputs and everything rendered from them, without secrets.

use mainspring_core::work::{Order, OrderAction};
use mainspring_core::{Scope, TaskKey, TaskView};
use mainspring_store::{ExpressionData, IncompleteEntry};
use serde_json::{Map, Value, json};

use crate::client::run_scope;
use crate::specs::Spec;

const MASK: &str = "***";
/// A longer context is cut and marked as cut.
const MOST_CHARACTERS: usize = 65_536;

/// The execution context of an entry.
pub(super) fn context(spec: &Spec, letter: &IncompleteEntry, data: &ExpressionData) -> Value {
    let parsed = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut context = Map::new();
    context.insert("inputs".into(), parsed(&letter.inputs).unwrap_or_else(|| json!({})));
    context.insert("trigger".into(), parsed(&letter.trigger).unwrap_or(Value::Null));
    context.insert("correlation_id".into(), json!(letter.correlation_id));
    context.insert("attempt".into(), letter.total_attempts.into());
    if let Some(key) = letter.task {
        if let Some(item) = data.items.get(&key) {
            context.insert("item".into(), item.clone());
        }
        if let Some(rendered) = rendered(spec, key, data) {
            context.insert("rendered".into(), rendered);
        }
    }
    let whole = Value::Object(context);
    match whole.to_string().chars().count() {
        count if count <= MOST_CHARACTERS => whole,
        count => {
            let shown: String = whole.to_string().chars().take(MOST_CHARACTERS).collect();
            json!({"truncated": true, "characters": count, "text": shown})
        }
    }
}

/// The order of the worker; `None` for tasks that no worker executes and for expressions without a value.
fn rendered(spec: &Spec, key: TaskKey, data: &ExpressionData) -> Option<Value> {
    let index = usize::try_from(key.index).ok()?;
    let task = spec.workflow.tasks.get(index)?;
    let inputs = match data.inputs.get(&key.run) {
        Some(Value::Object(inputs)) => inputs.clone(),
        _ => Map::new(),
    };
    let upstream = task.reads.tasks.iter().filter_map(|upstream| {
        let (status, attempts, output) = data.tasks.get(&(key.run, *upstream))?;
        let name = spec.workflow.tasks.get(usize::try_from(*upstream).ok()?)?.name.clone();
        Some((name, TaskView { status: *status, attempts: *attempts, output: output.clone(), error: None }))
    });
    let secrets = spec.workflow.secrets_for(index).into_iter().map(|name| (name.to_string(), MASK.into())).collect();
    let scope = Scope {
        inputs,
        run: run_scope(key.run, data.triggers.get(&key.run)),
        workflow: spec.workflow_scope(),
        tasks: upstream.collect(),
        secrets,
        item: data.items.get(&key).cloned(),
        index: (key.item >= 0).then_some(key.item as u32),
        ..Scope::default()
    };
    match spec.workflow.order(index, &scope) {
        Ok(order) => Some(shown(&order)),
        Err(failure) => Some(json!({"error": failure.message})),
    }
}

fn shown(order: &Order) -> Value {
    let env: Map<String, Value> = order.env.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let action = match &order.action {
        OrderAction::Run { script, shell, cwd } => json!({"run": script, "shell": shell, "cwd": cwd}),
        OrderAction::Steps { steps, cwd } => json!({"steps": steps, "cwd": cwd}),
        OrderAction::Function { handler, payload } => json!({"function": handler, "payload": payload}),
        OrderAction::Remote { handler, payload } => json!({"remote": handler, "payload": payload}),
        OrderAction::Http(http) => {
            json!({"http": {"method": http.method, "url": http.url, "headers": http.headers, "query": http.query}})
        }
    };
    json!({"action": action, "env": env, "timeout_ms": order.timeout_ms})
}
