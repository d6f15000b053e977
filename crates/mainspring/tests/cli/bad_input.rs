//! Wrong inputs, and what each gets: exit 2 with a place, a cause and a remedy, quickly, with nothing done.

use std::time::{Duration, Instant};

use crate::support::Place;

/// For a build that is not optimised, beside other tests.
const LONG: Duration = Duration::from_secs(60);

#[track_caller]
fn check(text: impl AsRef<[u8]>, expected: &[&str]) {
    let place = Place::new();
    place.write("w.yaml", text);
    let started = Instant::now();
    let ended = place.call(&["run", "w.yaml"]).expect(2);
    assert!(started.elapsed() < LONG, "it took {:?}", started.elapsed());
    ended.says(expected);
    ended.says(&["nothing was done"]);
    assert!(ended.stderr.len() < 100_000, "{} bytes of complaint", ended.stderr.len());
    assert_eq!(ended.stdout, "");
}

#[test]
fn malformed_yaml() {
    check("name: x\ntasks: {t: {run: 'true'}\n", &["w.yaml:"]);
    check("name: x\n\ttasks: 1\n", &["w.yaml:", "found a tab"]);
    check("", &["w.yaml:1:1"]);
}

#[test]
fn unknown_and_duplicate_keys_and_wrong_types() {
    check("name: x\ntask: {}\n", &["w.yaml:2:1", "did you mean `tasks`?"]);
    check("name: x\nname: y\ntasks: {}\n", &["w.yaml:2:1", "name"]);
    check("name: x\ntasks:\n  t: {run: [1]}\n", &["w.yaml:3:"]);
}

#[test]
fn names_of_ten_megabytes_and_with_control_characters() {
    check(format!("name: {}\ntasks: {{}}\n", "a".repeat(10 << 20)), &["w.yaml:1:7"]);
    check("name: \"a\\0b\"\ntasks: {}\n", &["w.yaml:1:7"]);
    check(b"name: a\0b\ntasks: {}\n", &["w.yaml:1:"]);
    check("name: x\ntasks:\n  \"a\\u202eb\": {run: 'true'}\n", &["w.yaml:3:3"]);
}

#[test]
fn bombs_and_cycles() {
    let mut bomb = String::from("a: &a [x, x]\n");
    for level in 0..30 {
        let before = if level == 0 { "a".to_owned() } else { format!("a{}", level - 1) };
        bomb.push_str(&format!("b{level}: &a{level} [*{before}, *{before}, *{before}, *{before}]\n"));
    }
    check(bomb, &["w.yaml:"]);
    check("[".repeat(100_000), &["w.yaml:1:"]);
    check("name: x\ntasks:\n  t: {run: 'true', needs: t}\n", &["w.yaml:3:"]);
    let mut cycle = String::from("name: x\ntasks:\n");
    for index in 0..20_000 {
        cycle.push_str(&format!("  t{index}: {{run: 'true', needs: t{}}}\n", (index + 19_999) % 20_000));
    }
    check(cycle, &["w.yaml:3:", "in a circle: t0"]);
}

#[test]
fn files_that_are_no_text() {
    let place = Place::new();
    place.write("w.yaml", b"name: x\ntasks: \xff\xfe\n");
    place.call(&["run", "w.yaml"]).expect(2).says(&["w.yaml:2:8", "UTF-8"]);
    place.call(&["validate", "w.yaml"]).expect(2).says(&["w.yaml:2:8", "UTF-8"]);
    place.call(&["run", "."]).expect(2).says(&["cannot read .", "name a file"]);
    place.call(&["run", "missing.yaml"]).expect(2).says(&["cannot read missing.yaml", "check the path"]);
    place.call(&["submit", "/dev/zero"]).expect(2).says(&["16 MiB"]);
}

#[test]
fn command_lines() {
    let place = Place::new();
    for arguments in [&["rnu"][..], &["run"], &["run", "x", "--nope"], &["runs"], &["runs", "list", "--limit", "0"]] {
        place.call(arguments).expect(2);
    }
    place.call(&["runs", "get", "latest"]).expect(2).says(&["`latest` is not the id of a run", "runs list"]);
    place.call(&["runs", "list", "--status", "faild"]).expect(2).says(&["did you mean `failed`?"]);
    place.call(&["runs", "list", "--since", "yesterday"]).expect(2).says(&["--since", "2026-01-31T08:00:00Z"]);
    place.call(&["pools", "set", "Bad Name", "--slots", "1"]).expect(2).says(&["`Bad Name`"]);
    place.call(&["pools", "set", "x", "--slots", "-1"]).expect(2);
    place.call(&["help"]).expect(0).says(&["Inspect and repair", "Exit codes"]);
    place.call(&["--version"]).expect(0).says(&["mainspring 0."]);
    place.call(&["completions", "bash"]).expect(0).says(&["_mainspring"]);
}
