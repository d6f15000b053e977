//! What client generators need and the derives leave out.

use serde_json::{Value, json};

/// Objects without named properties are open, and a `null` default is no default: generators take a property with a
/// default for one that is always there.
pub(super) fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("default").is_some_and(Value::is_null) {
                fields.shift_remove("default");
            }
            // Anything or null is anything; a null would fit both.
            let holds_any = |choices: &Value| choices.as_array().is_some_and(|all| all.contains(&json!({})));
            if fields.get("oneOf").is_some_and(holds_any) {
                fields.shift_remove("oneOf");
            }
            let has_type = |wanted: &str| match fields.get("type") {
                Some(Value::String(word)) => word == wanted,
                Some(Value::Array(words)) => words.iter().any(|word| word == wanted),
                _ => false,
            };
            if has_type("object") && !fields.contains_key("properties") && !fields.contains_key("additionalProperties")
            {
                fields.insert("additionalProperties".into(), Value::Bool(true));
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::tidy;

    #[test]
    fn objects_without_properties_are_open_and_null_is_no_default() {
        let mut schema = json!({"a": {"type": "object"}, "b": {"type": ["object", "null"], "default": null},
            "c": {"type": "object", "properties": {}}, "d": {"type": "object", "additionalProperties": false},
            "e": {"oneOf": [{"type": "null"}, {}], "description": "any"}});
        tidy(&mut schema);
        let expected = json!({"a": {"type": "object", "additionalProperties": true},
            "b": {"type": ["object", "null"], "additionalProperties": true},
            "c": {"type": "object", "properties": {}}, "d": {"type": "object", "additionalProperties": false},
            "e": {"description": "any"}});
        assert_eq!(schema, expected);
    }
}
