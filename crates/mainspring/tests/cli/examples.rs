//! Every example is valid, runs, and does what its comments say.

use std::path::Path;

use crate::support::{Place, on_both_databases, task};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

fn example(name: &str) -> String {
    folder().join(name).display().to_string()
}

/// The workflows, sorted; not their tests.
fn workflows() -> Vec<String> {
    let mut paths: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|path| path.ends_with(".yaml") && !path.ends_with(".test.yaml"))
        .collect();
    paths.sort();
    paths
}

/// Those that any machine can run: images are fetched, and need an engine.
fn without_images() -> Vec<String> {
    workflows().into_iter().filter(|path| !path.ends_with("/containers.yaml")).collect()
}

/// What the examples need besides themselves: a server to ask, and leave to ask it.
const OUTSIDE: [(&str, &str); 3] = [
    ("MAINSPRING_HTTP_ALLOW", "127.0.0.1"),
    ("MAINSPRING_SECRET_API_KEY", "not-so-secret"),
    ("MAINSPRING_WORKER_SERVES_REMOTE", "true"),
];

/// The inputs that lead an example to the server.
fn inputs(path: &str, address: &str) -> Vec<String> {
    match Path::new(path).file_name().and_then(|name| name.to_str()) {
        Some("http.yaml") => vec!["-i".into(), format!("base=http://{address}")],
        Some("orders.yaml") => vec!["-i".into(), format!("rates=http://{address}/live")],
        _ => Vec::new(),
    }
}

#[test]
fn all_of_them_are_valid_and_pass_their_own_tests() {
    let place = Place::new();
    let all = workflows();
    assert!(all.len() >= 14, "{} examples", all.len());
    for path in &all {
        place.call(&["validate", path]).expect(0);
        let test = path.replace(".yaml", ".test.yaml");
        assert!(Path::new(&test).exists(), "{path} has no test");
        place.call(&["test", &test]).expect(0);
        place.call(&["graph", path]).expect(0);
        place.call(&["fmt", "--check", path]).expect(0);
    }
}

#[test]
fn they_show_every_key_of_the_dialect() {
    let schema = Place::new().call(&["schema"]).expect(0).json();
    let mut keys = std::collections::BTreeSet::new();
    let mut open = vec![&schema];
    while let Some(value) = open.pop() {
        if let Some(properties) = value.get("properties").and_then(serde_json::Value::as_object) {
            keys.extend(properties.keys().cloned());
        }
        match value {
            serde_json::Value::Object(fields) => open.extend(fields.values()),
            serde_json::Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    assert!(keys.len() > 90, "{keys:?}");
    let text: String = workflows().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let shown = |key: &str| {
        text.match_indices(&format!("{key}:")).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            before.is_none_or(|before| matches!(before, ' ' | '{' | '\n' | '-'))
        })
    };
    let missing: Vec<&String> = keys.iter().filter(|key| !shown(key)).collect();
    assert!(missing.is_empty(), "no example shows {missing:?}");
}

#[test]
fn all_of_them_run_on_a_laptop() {
    let place = Place::new();
    let outside = Place::new();
    let server = outside.server(&[]);
    for path in without_images() {
        let inputs = inputs(&path, &server.address);
        let arguments: Vec<&str> = ["run", &path].into_iter().chain(inputs.iter().map(String::as_str)).collect();
        place.call_with(&arguments, &OUTSIDE).expect(0);
    }
}

on_both_databases! { all_of_them_run_on_a_server }

fn all_of_them_run_on_a_server(database: &str) {
    let place = Place::on(database);
    let server = place.server(&OUTSIDE);
    for calendar in ["fr-bank", "holidays"] {
        place.call(&["calendars", "set", calendar, &example(&format!("calendars/{calendar}.json"))]).expect(0);
    }
    place.call(&["apply", &example("load-part.yaml")]).expect(0);
    for path in without_images() {
        let inputs = inputs(&path, &server.address);
        let arguments: Vec<&str> =
            ["submit", &path, "--wait"].into_iter().chain(inputs.iter().map(String::as_str)).collect();
        place.call(&arguments).expect(0);
    }
}

#[test]
fn the_pipeline_skips_the_load_of_a_dry_run() {
    let report = Place::new().call(&["run", &example("etl.yaml"), "-i", "dry=true", "--json"]).expect(0).json();
    assert_eq!(task(&report, "load")["status"], "skipped");
    assert_eq!(task(&report, "report")["status"], "success");
    assert_eq!(task(&report, "rates")["attempts"], 2);
}

#[test]
fn finalisers_follow_a_failure() {
    let report =
        Place::new().call(&["run", &example("finalisers.yaml"), "-i", "break=true", "--json"]).expect(1).json();
    for (name, status) in [
        ("work", "failed"),
        ("measure", "success"),
        ("nice-to-have", "failed"),
        ("page", "success"),
        ("release", "success"),
    ] {
        assert_eq!(task(&report, name)["status"], status, "{name}");
    }
    let report = Place::new().call(&["run", &example("finalisers.yaml"), "--json"]).expect(0).json();
    assert!(
        report["tasks"].as_array().unwrap().iter().all(|task| task["task"] != "page" || task["status"] == "skipped")
    );
}
