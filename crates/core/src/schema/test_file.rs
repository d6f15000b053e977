//! The JSON Schema of test files (`*.test.yaml`): what a case may say, and what it may expect.

use serde_json::{Map, Value, json};

use super::{DURATION, INSTANT};
use crate::simulate::{CASE_KEYS, EXPECT_KEYS, FAIL_KEYS, OUTCOME_KEYS, SUITE_KEYS, TASK_KEYS};
use crate::state::{RunState, TaskState};

/// The whole schema: a list of cases, or a mapping with them.
pub fn test_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Mainspring test",
        "anyOf": [
            {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/case"}},
            object(SUITE_KEYS, &["cases"]),
        ],
        "$defs": {
            "case": object(CASE_KEYS, &[]),
            "expect": object(EXPECT_KEYS, &[]),
            "expected-task": {"anyOf": [{"enum": ends(TaskState::ALL, TaskState::is_terminal)}, object(TASK_KEYS, &[])]},
            "outcome": nullable(object(OUTCOME_KEYS, &[])),
            "outcomes": {"type": ["object", "null"], "additionalProperties": {"anyOf": [
                {"$ref": "#/$defs/outcome"},
                {"type": "array", "items": {"$ref": "#/$defs/outcome"}},
            ]}},
            "failure": {"anyOf": [{"type": ["string", "number", "boolean"]}, object(FAIL_KEYS, &[])]},
        },
    })
}

/// A mapping with these keys, described under the name of its table.
fn object(keys: &'static [&'static str], required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), shape(keys, key))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false, "required": required})
}

fn nullable(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn ends<T: Copy + std::fmt::Display>(all: &[T], is_end: fn(T) -> bool) -> Vec<String> {
    all.iter().filter(|state| is_end(**state)).map(ToString::to_string).collect()
}

/// What a key holds: some mean different things in different mappings.
fn shape(keys: &'static [&'static str], key: &str) -> Value {
    let within = |table: &[&str]| keys == table;
    let text = || json!({"type": ["string", "number", "boolean"]});
    let open = || json!({"type": ["object", "null"]});
    match key {
        "cases" => json!({"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/case"}}),
        "strict" | "never" | "permanent" => json!({"type": "boolean"}),
        "tasks" if within(EXPECT_KEYS) => {
            json!({"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/expected-task"}})
        }
        "tasks" => json!({"$ref": "#/$defs/outcomes"}),
        "expect" => nullable(json!({"$ref": "#/$defs/expect"})),
        "fail" => json!({"$ref": "#/$defs/failure"}),
        "status" if within(EXPECT_KEYS) => json!({"enum": ends(RunState::ALL, RunState::is_terminal)}),
        "status" => json!({"enum": ends(TaskState::ALL, TaskState::is_terminal)}),
        "now" => json!({"type": "string", "pattern": INSTANT}),
        "takes" | "after" | "duration" => json!({"type": "string", "pattern": DURATION}),
        "times" | "attempts" | "items" | "exit_code" => json!({"type": "integer", "minimum": 0}),
        "approve" => json!({"enum": [true, false, "reject"]}),
        "order" | "not_run" => json!({"type": ["array", "null"], "items": text()}),
        "env" => json!({"type": ["object", "null"], "additionalProperties": text()}),
        "secrets" | "outputs" => open(),
        "inputs" if within(CASE_KEYS) => open(),
        // Any value: what a task gets or returns.
        "inputs" | "output" | "event" | "payload" => json!({}),
        _ => text(),
    }
}
