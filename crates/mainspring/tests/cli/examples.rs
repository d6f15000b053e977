//! Every example is valid, runs, and does what its comments say.

use std::path::Path;

use crate::support::{Place, task};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

fn example(name: &str) -> String {
    folder().join(name).display().to_string()
}

#[test]
fn all_of_them_run() {
    let place = Place::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let path = path.display().to_string();
            place.call(&["validate", &path]).expect(0);
            place.call(&["run", &path]).expect(0);
            count += 1;
        }
    }
    assert!(count >= 5, "{count} examples");
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
