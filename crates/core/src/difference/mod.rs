//! How two versions of a workflow differ, task by task. Order and layout do not count.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Workflow;

/// One key that is not the same. A value that is not there is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changed {
    pub key: String,
    pub old: Value,
    pub new: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum TaskChange {
    Added { task: String, definition: Value },
    Removed { task: String },
    Changed { task: String, keys: Vec<Changed> },
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Differences {
    /// Of the workflow itself.
    pub keys: Vec<Changed>,
    pub tasks: Vec<TaskChange>,
}

impl Differences {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tasks.is_empty()
    }
}

pub fn difference(old: &Workflow, new: &Workflow) -> Differences {
    let (old_whole, mut old_tasks) = split(old);
    let (new_whole, new_tasks) = split(new);
    let mut found = Differences { keys: changed(&old_whole, &new_whole), tasks: Vec::new() };
    for (task, definition) in new_tasks {
        match old_tasks.remove(&task) {
            None => found.tasks.push(TaskChange::Added { task, definition }),
            Some(before) => {
                let keys = changed(&before, &definition);
                if !keys.is_empty() {
                    found.tasks.push(TaskChange::Changed { task, keys });
                }
            }
        }
    }
    found.tasks.extend(old_tasks.into_keys().map(|task| TaskChange::Removed { task }));
    found
}

/// The workflow without its tasks, and the tasks by name; what is derived from other keys is left out.
fn split(workflow: &Workflow) -> (Value, BTreeMap<String, Value>) {
    let mut tasks = BTreeMap::new();
    for task in &workflow.tasks {
        let mut fields = object(task);
        let mut needs: Vec<&str> = task.needs.iter().map(|need| workflow.tasks[*need as usize].name.as_str()).collect();
        needs.sort_unstable();
        for derived in ["name", "needs", "dependents", "reads", "condition_reads"] {
            fields.shift_remove(derived);
        }
        if !needs.is_empty() {
            fields.insert("needs".into(), json!(needs));
        }
        tasks.insert(task.name.clone(), Value::Object(fields));
    }
    let mut whole = object(workflow);
    for apart in ["tasks", "output_reads", "reads_schedule"] {
        whole.shift_remove(apart);
    }
    (Value::Object(whole), tasks)
}

fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The innermost keys that differ, with dots between the names.
fn changed(old: &Value, new: &Value) -> Vec<Changed> {
    let mut found = Vec::new();
    collect("", old, new, &mut found);
    found.sort_by(|one, other| one.key.cmp(&other.key));
    found
}

/// Recursion as deep as the text was nested, which its reader bounds.
fn collect(key: &str, old: &Value, new: &Value, found: &mut Vec<Changed>) {
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                collect(&below(name), value, after.get(name).unwrap_or(&Value::Null), found);
            }
            for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                collect(&below(name), &Value::Null, value, found);
            }
        }
        _ if old == new => {}
        _ => found.push(Changed { key: key.to_owned(), old: old.clone(), new: new.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn order_does_not_count_and_everything_else_does() {
        let old = parse(
            "{name: w, env: {A: '1', B: '2'}, tasks: {a: {run: x}, b: {run: x, needs: a}, c: {run: x, needs: [a, b]}}}",
        )
        .unwrap();
        let same = parse(
            "{name: w, env: {B: '2', A: '1'}, tasks: {c: {run: x, needs: [b, a]}, b: {needs: [a], run: x}, a: {run: x}}}",
        )
        .unwrap();
        assert!(difference(&old, &same).is_empty(), "{:?}", difference(&old, &same));
        let new = parse(
            "{name: w, env: {A: '3', B: '2'}, timeout: 1h, tasks: {a: {run: y, timeout: 5s}, c: {run: x, needs: a}, d: {run: x}}}",
        )
        .unwrap();
        let found = difference(&old, &new);
        let keys: Vec<&str> = found.keys.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["env.A", "timeout_ms"]);
        let TaskChange::Changed { task, keys } = &found.tasks[0] else { panic!("{found:?}") };
        let keys: Vec<(&str, &Value, &Value)> = keys.iter().map(|one| (one.key.as_str(), &one.old, &one.new)).collect();
        assert_eq!(task, "a");
        assert_eq!(
            keys,
            [("action.run.script", &json!("x"), &json!("y")), ("timeout_ms", &json!(null), &json!(5_000))]
        );
        assert!(matches!(&found.tasks[1], TaskChange::Changed { task, keys } if task == "c" && keys[0].key == "needs"));
        assert!(matches!(&found.tasks[2], TaskChange::Added { task, .. } if task == "d"));
        assert!(matches!(&found.tasks[3], TaskChange::Removed { task } if task == "b"));
    }
}
