//! Conditions over facts that belong to no run, such as the answer of a server.

use minijinja::value::Serde;
use serde_json::{Map, Value};

use crate::diagnostic::quoted;

use super::evaluate::{environment, is_true};
use super::multiplication::check_literals;
use super::reference::{describe, references};
use super::{MAX_EXPRESSION, filters};

/// Whether an expression over these names is true; else why it cannot be evaluated.
pub fn holds(source: &str, facts: &Map<String, Value>) -> Result<bool, String> {
    if source.len() > MAX_EXPRESSION {
        return Err(format!("the expression is longer than {MAX_EXPRESSION} bytes"));
    }
    let explain = |reason: String| format!("{} cannot be evaluated: {reason}", quoted(source));
    // Multiplied texts and lists grow beyond any bound, so only numbers are let through.
    if source.contains('*') {
        check_literals(source)?;
        for reference in references(source) {
            let start = facts.get(&reference.root);
            let found = reference.path.iter().try_fold(start, |value, segment| Some(value?.get(segment))).flatten();
            if !matches!(found, Some(Value::Number(_)) | None) {
                return Err(explain(format!("`*` multiplies numbers, but `{}` is none", reference.root)));
            }
        }
    }
    let expression = environment().compile_expression(source).map_err(|error| explain(describe(&error)))?;
    filters::begin();
    let context = minijinja::Value::from(Serde(facts));
    let value = expression.eval(context).map_err(|error| explain(describe(&error)))?;
    if value.is_undefined() {
        return Err(explain("it is undefined".into()));
    }
    let value = serde_json::to_value(&value).map_err(|error| explain(error.to_string()))?;
    Ok(is_true(&value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_decide() {
        let Value::Object(facts) = json!({"status": 200, "body": {"rows": 3, "name": "x"}, "headers": {}}) else {
            panic!()
        };
        for (source, expected) in [
            ("body.rows == 3", Some(true)),
            ("body.rows * 2 > 6", Some(false)),
            ("status == 200 and body.name == 'x'", Some(true)),
            ("body.missing == 1", None),
            ("body.name * 100000000", None),
            ("'x' * 100000000", None),
            ("body * 3", None),
            ("nonsense(", None),
        ] {
            assert_eq!(holds(source, &facts).ok(), expected, "{source}: {:?}", holds(source, &facts));
        }
    }
}
