//! Schema, parser and examples agree.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{schema, test_schema};
use crate::author::as_json;
use crate::author::dialect::{Shape, Table, WORKFLOW};
use crate::parse;

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&schema()).expect("the schema is a schema")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A text that tries every key of every table, one at a time, with nothing as its value.
fn probes(shape: Shape, wrap: &dyn Fn(Value) -> Value, found: &mut Vec<Value>, seen: &mut Vec<&'static str>) {
    match shape {
        Shape::Table(table) => probe_table(table, wrap, found, seen),
        Shape::List(inner) | Shape::OneOrMany(inner) => probes(*inner, &|value| wrap(json!([value])), found, seen),
        Shape::Map(inner) => probes(*inner, &|value| wrap(json!({"x": value})), found, seen),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| probes(*shape, wrap, found, seen)),
        _ => {}
    }
}

fn probe_table(
    table: &'static Table,
    wrap: &dyn Fn(Value) -> Value,
    found: &mut Vec<Value>,
    seen: &mut Vec<&'static str>,
) {
    if seen.contains(&table.what) {
        return;
    }
    seen.push(table.what);
    for key in table.keys {
        let alone = |value: Value| wrap(json!({key.name: value}));
        found.push(alone(Value::Null));
        for kind in table.one_of {
            let kind_value = if *kind == "contains" { json!("x") } else { json!(null) };
            found.push(wrap(json!({*kind: kind_value, key.name: null})));
        }
        probes(key.shape, &alone, found, seen);
    }
}

/// `unread` panics in a build with assertions, so a key of a table that no code reads is found here.
#[test]
fn every_key_of_every_table_is_read() {
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    probe_table(&WORKFLOW, &|value| value, &mut found, &mut seen);
    assert!(seen.len() >= 20 && found.len() > 300, "{} tables, {} texts", seen.len(), found.len());
    let (kinds, cron) = (["run", "http", "function", "workflow", "remote", "approval", "wait"], json!("0 2 * * *"));
    for mut text in found {
        // Options are only read beside a kind that reads well.
        for stage in ["tasks", "on_failure", "finally"] {
            if let Some(task) = text.pointer_mut(&format!("/{stage}/x")).and_then(Value::as_object_mut)
                && !kinds.iter().any(|kind| task.contains_key(*kind))
            {
                task.insert("run".into(), json!("x"));
            }
        }
        if let Some(trigger) = text.pointer_mut("/triggers/0").and_then(Value::as_object_mut)
            && trigger.len() == 1
        {
            trigger.insert("cron".into(), cron.clone());
        }
        _ = parse(&text.to_string());
    }
}

#[test]
fn every_key_of_every_table_is_in_the_schema() {
    let text = schema().to_string();
    let mut tables = vec![&WORKFLOW];
    let mut at = 0;
    while at < tables.len() {
        for key in tables[at].keys {
            assert!(text.contains(&format!("\"{}\":", key.name)), "{}", key.name);
            let mut shapes = vec![key.shape];
            while let Some(shape) = shapes.pop() {
                match shape {
                    Shape::Table(table) if !tables.iter().any(|known| std::ptr::eq(*known, table)) => {
                        tables.push(table)
                    }
                    Shape::List(inner) | Shape::OneOrMany(inner) | Shape::Map(inner) => shapes.push(*inner),
                    Shape::Either(several) => shapes.extend(several),
                    _ => {}
                }
            }
        }
        at += 1;
    }
    // Each table but the root is one definition; two of the same name would hide each other.
    assert_eq!(schema()["$defs"].as_object().map(serde_json::Map::len), Some(tables.len() - 1));
}

fn complaints(text: &str) -> Vec<String> {
    let value = as_json(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    validator().iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn every_example_fits_the_schema() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if name.ends_with(".yaml") && !name.ends_with(".test.yaml") {
            assert_eq!(
                complaints(&std::fs::read_to_string(&path).unwrap()),
                Vec::<String>::new(),
                "{}",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count >= 5);
}

/// The tests beside the examples, and the two forms that a test file has.
#[test]
fn every_test_of_an_example_fits_the_schema_of_tests() {
    let schema = jsonschema::draft202012::new(&test_schema()).expect("the schema is a schema");
    let complaints = |text: &str| -> Vec<String> {
        let value = as_json(text).unwrap_or_else(|errors| panic!("{errors}"));
        schema.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    };
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.display().to_string().ends_with(".test.yaml") {
            let wrong = complaints(&std::fs::read_to_string(&path).unwrap());
            assert_eq!(wrong, Vec::<String>::new(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 10, "{count}");
    assert_eq!(
        complaints("{workflow: a.yaml, strict: true, cases: [{tasks: {a: {fail: x, times: 2}}}]}"),
        Vec::<String>::new()
    );
    for wrong in [
        "[]",
        "{}",
        "[{task: {}}]",
        "[{expect: {status: sucess}}]",
        "[{tasks: {a: {otput: 1}}}]",
        "[{tasks: {a: {takes: soon}}}]",
    ] {
        assert!(!complaints(wrong).is_empty(), "{wrong}");
    }
}

/// The texts of `tests/cases`: what the parser accepts, the schema accepts.
#[test]
fn every_accepted_case_fits_the_schema() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("crates/core/tests/cases")).unwrap() {
        let content = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for block in content.split("=== ").skip(1) {
            let text = &block[block.find('\n').unwrap()..block.find("\n--- ").unwrap()];
            if parse(text).is_ok() {
                assert_eq!(complaints(text), Vec::<String>::new(), "{text}");
                count += 1;
            }
        }
    }
    assert!(count > 70, "{count}");
}

#[test]
fn what_is_plainly_wrong_does_not_fit() {
    for text in [
        "name: W",
        "{}",
        "name: w\ntask: {}",
        "name: w\ntasks: {a: {}}",
        "name: w\ntasks: [a]",
        "name: w\ntasks: [{name: a, run: x}]",
        "name: w\ntasks: [{name: a}]",
        r#"{"name": "w", "tasks": [{"name": "a", "command": "x", "retry_count": "2"}]}"#,
        r#"{"name": "w", "tasks": [{"name": "a", "command": "x", "depends_on": [{}]}]}"#,
        "name: w\ntasks: {a: {run: x, http: 'http://h'}}",
        "name: w\ntasks: {a: {run: x, timeout: 30}}",
        "name: w\ntasks: {a: {run: x, retry: {attempts: 0}}}",
        "name: w\ntasks: {a: {wait: {for: soon}}}",
        "name: w\ntriggers: [{every: 1h, cron: x}]",
        "name: w\ntriggers: [{every: 1h, timezone: Europe/Paris}]",
        "name: w\ntasks: {a: {foreach: [1], wait: {for: 1m}}}",
        "name: w\ntasks: {a: {http: {url: 'http://h', json: {}, form: {a: b}}}}",
        "name: w\ntimeout: 30m1h",
        "name: w\ntimeout: ''",
        "name: w\npriority: urgent",
        "name: w\ninputs: {a: {type: int}}",
    ] {
        assert!(!complaints(text).is_empty(), "{text}");
    }
}
