//! JSON values as YAML. Texts are written as JSON texts, which every YAML reader takes for what they are.

use std::fmt::Write as _;

use serde_json::Value;

pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value, 0);
    text
}

/// Writes the value from the current column on and ends the line.
fn write_value(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (number, (name, field)) in fields.iter().enumerate() {
                if number > 0 {
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !is_word(name);
                if is_plain && !name.is_empty() {
                    text.push_str(name);
                } else {
                    let _ = write!(text, "{}", Value::String(name.clone()));
                }
                text.push(':');
                write_nested(text, field, indent + 2);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                text.push_str("- ");
                write_value(text, item, indent + 2);
            }
        }
        scalar => {
            let _ = writeln!(text, "{scalar}");
        }
    }
}

fn write_nested(text: &mut String, value: &Value, indent: usize) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', indent));
    } else {
        text.push(' ');
    }
    write_value(text, value, indent);
}

/// A key that a reader would take for something else than a text.
fn is_word(name: &str) -> bool {
    matches!(name, "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::write;

    #[test]
    fn blocks_are_nested_by_two() {
        let value = json!({"items": [{"id": "a", "tags": [], "on": {"x": 1}}, [1, [2]]], "next": null});
        let expected = "items:\n  - id: \"a\"\n    tags: []\n    \"on\":\n      x: 1\n  - - 1\n    - - 2\nnext: null\n";
        assert_eq!(write(&value), expected);
    }
}
