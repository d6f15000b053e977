//! `mainspring validate`.

use serde_json::json;

use crate::support::Place;

#[test]
fn every_problem_of_every_file_is_shown_with_its_line() {
    let place = Place::new();
    place.write("good.yaml", "name: good\ntasks:\n  t: {run: 'true'}\n");
    place.write("bad.yaml", "name: bad\ntasks:\n  a: {run: 'true', need: b}\n  b: {run: 'true', needs: [c, b]}\n");
    place.write("worse.yaml", "name: [\n");
    let ended = place.call(&["validate", "good.yaml", "bad.yaml", "worse.yaml", "missing.yaml"]).expect(2);
    ended.says(&[
        "good.yaml: valid, workflow `good` with 1 task",
        " --> bad.yaml:3:20",
        "3 |   a: {run: 'true', need: b}",
        "  |                    ^^^^",
        "did you mean `needs`?",
        "bad.yaml: 3 problems",
        " --> worse.yaml:",
        "cannot read missing.yaml",
    ]);
}

#[test]
fn problems_can_be_read_by_programs() {
    let place = Place::new();
    place.write("bad.yaml", "name: bad\ntasks:\n  a: {run: 'true', need: b}\n");
    let report = place.call(&["validate", "bad.yaml", "-o", "json"]).expect(2).json();
    assert_eq!(report["valid"], json!(false));
    let problem = &report["files"][0]["errors"][0];
    assert_eq!((&problem["line"], &problem["column"], &problem["length"]), (&json!(3), &json!(20), &json!(4)));
    assert_eq!(problem["help"], "did you mean `needs`?");
}

#[test]
fn standard_input_is_read() {
    let place = Place::new();
    place.call_reading(&["validate", "-"], "name: x\ntasks: {t: {run: 'true'}}\n").expect(0).says(&["<stdin>: valid"]);
    place.call_reading(&["validate", "-"], "name: x\ntasks: 7\n").expect(2).says(&["<stdin>:2:8"]);
}

#[test]
fn colour_is_for_those_who_ask() {
    let place = Place::new();
    place.write("bad.yaml", "nam: bad\n");
    assert!(!place.call(&["validate", "bad.yaml"]).stderr.contains('\x1b'));
    assert!(place.call(&["validate", "bad.yaml", "--color", "always"]).stderr.contains("\x1b[31m"));
    let ended = place.call_with(&["validate", "bad.yaml", "--color", "never"], &[("TERM", "xterm")]);
    assert!(!ended.stderr.contains('\x1b'));
}
