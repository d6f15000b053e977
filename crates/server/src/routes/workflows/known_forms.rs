//! JSON workflows as other schedulers have them: `tasks` as a list of
//! `{name, command, retry_count, retry_delay_seconds, timeout_seconds, depends_on}`.

use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// Turns a list of tasks into the tasks by name that the dialect has; whether there was one.
pub(super) fn tasks_by_name(fields: &mut Map<String, Value>) -> Result<bool, Problem> {
    let Some(Value::Array(_)) = fields.get("tasks") else { return Ok(false) };
    let Some(Value::Array(list)) = fields.shift_remove("tasks") else { return Ok(false) };
    let mut tasks = Map::new();
    for (nth, task) in list.into_iter().enumerate() {
        let place = |field: &str| format!("/tasks/{nth}{field}");
        let Value::Object(mut task) = task else { return Err(Problem::invalid(&place(""), "a task is an object")) };
        let name = match task.shift_remove("name").or_else(|| task.shift_remove("id")) {
            Some(Value::String(name)) => name,
            _ => return Err(Problem::invalid(&place("/name"), "a task of a list has a `name`")),
        };
        rename(&mut task, "command", "run");
        rename(&mut task, "depends_on", "needs");
        if let Some(seconds) = task.shift_remove("timeout_seconds").filter(|seconds| !seconds.is_null()) {
            task.insert("timeout".into(), seconds_of(&seconds, &place("/timeout_seconds"))?);
        }
        retry(&mut task, &place)?;
        if tasks.insert(name.clone(), Value::Object(task)).is_some() {
            return Err(Problem::invalid(&place("/name"), format!("two tasks have the name `{name}`")));
        }
    }
    fields.insert("tasks".into(), Value::Object(tasks));
    Ok(true)
}

/// `retry_count` counts the attempts after the first one.
fn retry(task: &mut Map<String, Value>, place: &impl Fn(&str) -> String) -> Result<(), Problem> {
    let count = task.shift_remove("retry_count").filter(|count| !count.is_null());
    let delay = task.shift_remove("retry_delay_seconds").filter(|delay| !delay.is_null());
    let Some(count) = count else { return Ok(()) };
    let Some(count) = count.as_u64() else {
        return Err(Problem::invalid(&place("/retry_count"), "must be a whole number from 0"));
    };
    let mut retry = json!({"attempts": count + 1, "backoff": "fixed", "jitter": 0});
    if let Some(delay) = delay {
        let delay = seconds_of(&delay, &place("/retry_delay_seconds"))?;
        (retry["delay"], retry["max_delay"]) = (delay.clone(), delay);
    }
    task.insert("retry".into(), retry);
    Ok(())
}

fn seconds_of(value: &Value, pointer: &str) -> Result<Value, Problem> {
    match value.as_f64().filter(|seconds| *seconds >= 0.0 && *seconds <= 1e9) {
        Some(seconds) => Ok(format!("{}ms", (seconds * 1_000.0).round()).into()),
        None => Err(Problem::invalid(pointer, "must be a number of seconds")),
    }
}

fn rename(task: &mut Map<String, Value>, from: &str, to: &str) {
    if !task.contains_key(to)
        && let Some(value) = task.shift_remove(from)
    {
        task.insert(to.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tasks: Value) -> Result<Value, Problem> {
        let mut fields = Map::from_iter([("tasks".to_owned(), tasks)]);
        tasks_by_name(&mut fields)?;
        Ok(fields["tasks"].clone())
    }

    #[test]
    fn a_list_of_tasks_is_read() {
        let tasks = json!([{"name": "a", "command": "true", "retry_count": 2, "retry_delay_seconds": 5, "timeout_seconds": 30},
            {"name": "b", "command": "true", "depends_on": ["a"]}]);
        let retry = json!({"attempts": 3, "backoff": "fixed", "jitter": 0, "delay": "5000ms", "max_delay": "5000ms"});
        let expected =
            json!({"a": {"run": "true", "timeout": "30000ms", "retry": retry}, "b": {"run": "true", "needs": ["a"]}});
        assert_eq!(read(tasks).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (tasks, pointer) in [
            (json!([1]), "/tasks/0"),
            (json!([{"command": "true"}]), "/tasks/0/name"),
            (json!([{"name": "a"}, {"name": "a"}]), "/tasks/1/name"),
            (json!([{"name": "a", "retry_count": "x"}]), "/tasks/0/retry_count"),
            (json!([{"name": "a", "timeout_seconds": -1}]), "/tasks/0/timeout_seconds"),
        ] {
            let problem = read(tasks).unwrap_err();
            assert_eq!(problem.into_faults()[0].pointer.as_deref(), Some(pointer));
        }
    }
}
