//! The JSON Schema (draft 2020-12) of the dialect, made from the tables that the parser reads by.
//!
//! It says what a text looks like, not all that makes it valid: names that must exist, cycles and expressions are the
//! parser's. What the parser accepts, the schema accepts.

mod test_file;

use serde_json::{Map, Value, json};

pub use test_file::test_schema;

use crate::author::dialect::{EXCLUSIVE, LISTED_KEYS, Shape, Table, WORKFLOW};

const NAME: &str = "^[a-z0-9][a-z0-9_.-]{0,127}$";
/// The system's own events have a colon.
const EVENT: &str = "^[a-z0-9][a-z0-9_.:-]{0,127}$";
const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";
const DURATION: &str = "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
const INSTANT: &str =
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$";
const TEMPLATE: &str = "[$][{][{]";

/// The whole schema. Mappings that occur more than once are definitions.
pub fn schema() -> Value {
    let mut definitions = Definitions::default();
    let mut root = definitions.object(&WORKFLOW);
    root.insert("$defs".into(), Value::Object(definitions.done));
    let mut whole = Map::new();
    whole.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    whole.insert("title".into(), "Mainspring workflow".into());
    whole.append(&mut root);
    Value::Object(whole)
}

#[derive(Default)]
struct Definitions {
    done: Map<String, Value>,
}

impl Definitions {
    fn object(&mut self, table: &'static Table) -> Map<String, Value> {
        let mut properties = Map::new();
        for key in table.keys {
            let mut shape = self.shape(key.shape);
            shape.insert("description".into(), key.about.into());
            properties.insert(key.name.into(), Value::Object(shape));
        }
        let mut object = Map::new();
        object.insert("type".into(), "object".into());
        object.insert("properties".into(), Value::Object(properties));
        object.insert("additionalProperties".into(), false.into());
        let required: Vec<&str> = table.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        if !required.is_empty() {
            object.insert("required".into(), json!(required));
        }
        if !table.one_of.is_empty() {
            let mut each: Vec<Value> = table.one_of.iter().map(|name| json!({"required": [name]})).collect();
            // An image has a command of its own, so a task may have nothing else.
            if table.has("image") {
                each.push(json!({"required": ["image"], "not": {"anyOf": each}}));
            }
            object.insert("oneOf".into(), Value::Array(each));
        }
        let exclusive: Vec<Value> = EXCLUSIVE
            .iter()
            .filter(|(what, ..)| *what == table.what)
            .map(|(_, one, other)| json!({"not": {"required": [one, other]}}))
            .collect();
        if !exclusive.is_empty() {
            object.insert("allOf".into(), exclusive.into());
        }
        object
    }

    /// A reference to a table, which is described once.
    fn table(&mut self, table: &'static Table) -> Map<String, Value> {
        let name = table.what.trim_start_matches("a ").trim_start_matches("an ").replace('`', "");
        // `body` and `workflow` are names of mappings in two places.
        let name = if table.what.starts_with('`') { name } else { format!("{name}-entry") };
        if !self.done.contains_key(&name) {
            self.done.insert(name.clone(), Value::Null);
            let object = Value::Object(self.object(table));
            self.done.insert(name.clone(), object);
        }
        let reference = json!({"$ref": format!("#/$defs/{name}")});
        // Nothing at all reads like an empty mapping, where nothing is required.
        let nullable = table.one_of.is_empty() && table.keys.iter().all(|key| !key.required);
        fields(if nullable { json!({"anyOf": [reference, {"type": "null"}]}) } else { reference })
    }

    fn shape(&mut self, shape: Shape) -> Map<String, Value> {
        fields(match shape {
            Shape::Text => json!({"type": ["string", "number", "boolean"]}),
            Shape::Name => json!({"type": ["string", "integer"], "pattern": NAME}),
            Shape::Event => json!({"type": ["string", "integer"], "pattern": EVENT}),
            Shape::Identifier => json!({"type": "string", "pattern": IDENTIFIER}),
            Shape::Duration => json!({"type": "string", "pattern": DURATION}),
            Shape::DurationTemplate => json!({"type": "string", "pattern": format!("{DURATION}|{TEMPLATE}")}),
            Shape::Instant => json!({"type": "string", "pattern": INSTANT}),
            Shape::InstantTemplate => json!({"type": "string", "pattern": format!("{INSTANT}|{TEMPLATE}")}),
            Shape::Size => json!({"type": ["integer", "string"], "pattern": "^[0-9]+ ?([KMG]i?|k)?B?$", "minimum": 1}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::True => json!({"const": true}),
            Shape::Integer(least, greatest) => json!({"type": "integer", "minimum": least, "maximum": greatest}),
            Shape::Number(least, greatest) => json!({"type": "number", "minimum": least, "maximum": greatest}),
            Shape::AnyNumber => json!({"type": "number"}),
            Shape::Priority => json!({"anyOf": [
                {"enum": ["low", "medium", "high", "critical"]},
                {"type": "integer", "minimum": 0, "maximum": 1000},
            ]}),
            Shape::Status => json!({"anyOf": [
                {"type": "integer", "minimum": 100, "maximum": 599},
                {"type": "string", "pattern": "^[1-5]([0-9]{2}|xx)(-[1-5][0-9]{2})?$"},
            ]}),
            Shape::Word(words) => json!({"enum": words()}),
            Shape::Any => json!({}),
            Shape::Object => json!({"type": ["object", "null"]}),
            Shape::List(item) => {
                json!({"type": ["array", "null"], "items": self.shape(*item)})
            }
            Shape::OneOrMany(item) => {
                let item = Value::Object(self.shape(*item));
                json!({"anyOf": [item, {"type": ["array", "null"], "items": item}]})
            }
            Shape::Map(value) => {
                let mut value = self.shape(*value);
                // A variable without a value is empty.
                if value.get("type") == Some(&json!(["string", "number", "boolean"])) {
                    value.insert("type".into(), json!(["string", "number", "boolean", "null"]));
                }
                json!({"type": ["object", "null"], "additionalProperties": value})
            }
            Shape::Table(table) => Value::Object(self.table(table)),
            Shape::Either(shapes) => {
                let each: Vec<Value> = shapes.iter().map(|shape| Value::Object(self.shape(*shape))).collect();
                json!({"anyOf": each})
            }
            Shape::ListedTasks => json!({"type": "array", "items": {
                "type": "object",
                "required": ["name", "command"],
                // Not `properties`: editors offer those, and people write a mapping.
                "propertyNames": {"enum": LISTED_KEYS},
                "patternProperties": {
                    "^name$": self.shape(Shape::Name),
                    "^command$": self.shape(Shape::Text),
                    "^(retry_count|retry_delay_seconds|timeout_seconds)$": {"type": "integer", "minimum": 0},
                    "^depends_on$": self.shape(Shape::OneOrMany(&Shape::Text)),
                },
            }}),
        })
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
