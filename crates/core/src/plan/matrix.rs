//! The combinations of a `matrix`.

use serde_json::{Map, Value};

use crate::diagnostic::quoted;
use crate::expr::{EvalError, Scope, render_json};
use crate::workflow::Matrix;

use super::MAX_ITEMS;

/// One mapping per combination. The last list varies fastest; what `include` adds comes last.
pub(super) fn combinations(matrix: &Matrix, scope: &Scope, env: &Map<String, Value>) -> Result<Vec<Value>, EvalError> {
    let axes = axes(&render_json(&matrix.axes, scope, env)?)?;
    let count = axes.iter().try_fold(1_usize, |count, (_, list)| count.checked_mul(list.len()));
    if count.is_none_or(|count| count > MAX_ITEMS) {
        return Err(EvalError(format!("there are more than {MAX_ITEMS} combinations")));
    }
    let mut combined: Vec<Map<String, Value>> = vec![Map::new()];
    for (name, list) in &axes {
        let extended = combined.iter().flat_map(|start| {
            list.iter().map(move |value| {
                let mut longer = start.clone();
                longer.insert(name.clone(), value.clone());
                longer
            })
        });
        combined = extended.collect();
    }
    let excluded = mappings("exclude", &render_json(&matrix.exclude, scope, env)?)?;
    combined.retain(|combination| !excluded.iter().any(|wanted| agrees(combination, wanted, |_| true)));
    for added in mappings("include", &render_json(&matrix.include, scope, env)?)? {
        include(&mut combined, added, |key| axes.iter().any(|(name, _)| name == key));
    }
    Ok(combined.into_iter().map(Value::Object).collect())
}

/// Adds to every combination with the same members of the lists; if there is none, it is a combination itself.
fn include(combined: &mut Vec<Map<String, Value>>, added: Map<String, Value>, is_axis: impl Fn(&str) -> bool) {
    let mut found = false;
    for combination in combined.iter_mut().filter(|one| agrees(one, &added, &is_axis)) {
        found = true;
        combination.extend(added.clone());
    }
    if !found {
        combined.push(added);
    }
}

/// Whether a combination has all the values that are asked for, as far as they are looked at.
fn agrees(combination: &Map<String, Value>, wanted: &Map<String, Value>, looks_at: impl Fn(&str) -> bool) -> bool {
    wanted.iter().filter(|(key, _)| looks_at(key)).all(|(key, value)| combination.get(key) == Some(value))
}

fn axes(rendered: &Value) -> Result<Vec<(String, Vec<Value>)>, EvalError> {
    let Value::Object(axes) = rendered else { return Ok(Vec::new()) };
    let mut lists = Vec::with_capacity(axes.len());
    for (name, list) in axes {
        let Value::Array(members) = list else {
            return Err(EvalError(format!("{} gives no list", quoted(name))));
        };
        lists.push((name.clone(), members.clone()));
    }
    Ok(lists)
}

fn mappings(what: &str, rendered: &Value) -> Result<Vec<Map<String, Value>>, EvalError> {
    let members = match rendered {
        Value::Null => return Ok(Vec::new()),
        Value::Array(members) => members.clone(),
        _ => return Err(EvalError(format!("`{what}` gives no list"))),
    };
    let read = members.into_iter().map(|member| match member {
        Value::Object(fields) => Ok(fields),
        other => Err(EvalError(format!("`{what}` has the member {other}, which is no mapping"))),
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(matrix: Value, expected: Value) {
        let matrix: Matrix = serde_json::from_value(matrix).unwrap();
        let scope = Scope { inputs: Map::from_iter([("list".to_owned(), json!([1, 2]))]), ..Scope::default() };
        let combined = combinations(&matrix, &scope, &Map::new()).map(Value::Array);
        assert_eq!(combined.unwrap_or_else(|error| error.to_string().into()), expected, "{matrix:?}");
    }

    #[test]
    fn lists_are_combined_and_entries_left_out_or_added() {
        check(json!({"axes": {"a": [1, 2]}}), json!([{"a": 1}, {"a": 2}]));
        check(
            json!({"axes": {"os": ["l", "m"], "v": "${{ inputs.list }}"}}),
            json!([{"os": "l", "v": 1}, {"os": "l", "v": 2}, {"os": "m", "v": 1}, {"os": "m", "v": 2}]),
        );
        check(
            json!({"axes": {"os": ["l", "m"], "v": [1, 2]}, "exclude": [{"os": "m", "v": 1}, {"v": 2}]}),
            json!([{"os": "l", "v": 1}]),
        );
        check(
            json!({"axes": {"os": ["l", "m"]}, "include": [{"os": "m", "fast": true}, {"os": "w"}, {"all": 1}]}),
            json!([{"os": "l", "all": 1}, {"os": "m", "fast": true, "all": 1}, {"os": "w", "all": 1}]),
        );
        check(json!({"axes": {"a": [], "b": [1]}}), json!([]));
        check(json!({"axes": {"a": "${{ 'x' }}"}}), json!("`a` gives no list"));
        let long: Vec<i32> = (0..101).collect();
        check(json!({"axes": {"a": long, "b": long}}), json!("there are more than 10000 combinations"));
    }
}
