//! Values that are used as paths or names of files.

use serde_json::json;

use crate::place::Place;
use crate::values;

const OUTSIDE: &[&str] = &["../outside", "/etc/passwd", "a/../../outside", "..", "a/../..", "./../outside"];

#[test]
fn path_traversal_through_files() {
    let place = Place::new();
    for path in OUTSIDE {
        let workflow = json!({"name": "w", "files": [path], "tasks": {"t": {"run": "true"}}});
        place.write("w.yaml", &workflow.to_string());
        place.call(&["run", "w.yaml"]).refused(&["w.yaml:1:"]);
    }
}

/// A link beside the workflow that leads elsewhere is not followed.
#[test]
fn path_traversal_through_a_link() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc/passwd", place.path("link")).expect("a link can be made");
    place.write("w.yaml", &json!({"name": "w", "files": ["link"], "tasks": {"t": {"run": "cat link"}}}).to_string());
    let ended = place.call(&["run", "w.yaml"]);
    assert!(!ended.stdout.contains("root:") && !ended.stderr.contains("root:"), "{ended:?}");
    ended.refused(&["link"]);
}

#[test]
fn path_traversal_through_artifacts() {
    let place = Place::new();
    for path in OUTSIDE {
        let workflow = json!({"name": "w", "tasks": {"t": {"run": "true", "artifacts": [path]}}});
        place.write("w.yaml", &workflow.to_string());
        place.call(&["run", "w.yaml"]).refused(&["w.yaml:1:"]);
    }
}

#[test]
fn path_traversal_through_names() {
    let place = Place::new();
    for name in values::paths(&place).iter().map(String::as_str).chain(["a/b", "a%2fb", "A", "", ".a", "a b"]) {
        for workflow in [
            json!({"name": name, "tasks": {"t": {"run": "true"}}}),
            json!({"name": "w", "namespace": name, "tasks": {"t": {"run": "true"}}}),
            json!({"name": "w", "tasks": {name: {"run": "true"}}}),
            json!({"name": "w", "tasks": {"t": {"run": "true", "queue": name}}}),
            json!({"name": "w", "tasks": {"t": {"run": "true", "pool": name}}}),
        ] {
            place.write("w.yaml", &workflow.to_string());
            place.call(&["validate", "w.yaml"]).refused(&["w.yaml:1:"]);
        }
    }
}

#[test]
fn path_traversal_through_ids() {
    let place = Place::new();
    for id in values::paths(&place) {
        for arguments in [&["runs", "show"][..], &["runs", "logs"], &["runs", "cancel"], &["tasks", "list"]] {
            let mut arguments = arguments.to_vec();
            arguments.push(&id);
            let ended = place.call(&arguments);
            assert!(ended.code == 2, "{arguments:?}: {ended:?}");
            assert!(!ended.stdout.contains("root:") && !ended.stderr.contains("root:"), "{ended:?}");
        }
    }
}
