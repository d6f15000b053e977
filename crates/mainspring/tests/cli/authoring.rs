//! `init`, `test`, `graph`, `fmt`, `diff`, `import` and `schema`.

use crate::support::Place;

#[test]
fn a_new_folder_is_valid_tested_and_runs() {
    let place = Place::new();
    place.call(&["init", "demo"]).expect(0).says(&["wrote demo/workflows/etl.yaml"]);
    place.call(&["validate", "demo/workflows/hello.yaml", "demo/workflows/etl.yaml"]).expect(0);
    place.call(&["test", "demo"]).expect(0).says(&["5 cases in 1 file: 5 passed"]);
    place
        .call(&["run", "demo/workflows/hello.yaml", "--config", "demo/mainspring.toml"])
        .expect(0)
        .says(&["hello world"]);
    place.call(&["run", "demo/workflows/etl.yaml"]).expect(0).says(&["loading 3 rows"]);
    let files = ["demo/workflows/hello.yaml", "demo/workflows/etl.yaml", "demo/workflows/etl.test.yaml"];
    place.call(&[&["fmt", "--check"], &files[..]].concat()).expect(0);
    place.call(&["init", "demo"]).expect(2).says(&["demo/mainspring.toml exists already; nothing was written"]);
}

const WORKFLOW: &str = "name: w\ntasks:\n  a: {run: x}\n  b: {run: x, needs: a}\n";

#[test]
fn failing_tests_say_where_and_what() {
    let place = Place::new();
    place.write("w.yaml", WORKFLOW);
    place.write("w.test.yaml", "- name: <one> & \"two\"\n  expect:\n    tasks: {b: skipped}\n- name: good\n");
    let ended = place.call(&["test", "--junit", "junit.xml"]).expect(1);
    ended.says(&[
        "tasks.b.status  w.test.yaml:3:16",
        "expected skipped",
        "but was  success",
        "2 cases in 1 file: 1 passed, 1 failed",
    ]);
    let xml = std::fs::read_to_string(place.path("junit.xml")).unwrap();
    assert!(xml.contains("name=\"&lt;one&gt; &amp; &quot;two&quot;\"") && xml.contains("failures=\"1\""), "{xml}");
    let report = place.call(&["test", "w.test.yaml", "-o", "json"]).expect(1).json();
    assert_eq!(report["files"][0]["cases"][0]["differences"][0]["actual"], "success");
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &1.into()));
    place.call(&["test", "--only", "good"]).expect(0).says(&["1 case in 1 file: 1 passed"]);
    place.call(&["test", "--only", "nobody"]).expect(2);

    place.write("w.test.yaml", "- tasks: {aa: {}}\n");
    place.call(&["test"]).expect(2).says(&["w.test.yaml:1:11", "the workflow has no task `aa`", "did you mean `a`?"]);
    place.write("lost.test.yaml", "- name: x\n");
    place.call(&["test", "lost.test.yaml"]).expect(2).says(&["there is no workflow file lost.yaml"]);
    place.call(&["test", "nowhere"]).expect(2).says(&["cannot read nowhere"]);
}

#[test]
fn a_child_of_the_same_folder_is_played_too() {
    let place = Place::new();
    place.write("parent.yaml", "name: parent\ntasks:\n  sub: {workflow: {name: child, inputs: {n: 2}}}\n");
    place.write(
        "child.yaml",
        "name: child\ninputs: {n: {type: integer}}\ntasks: {a: {run: x}}\noutputs: {twice: '${{ inputs.n * 2 }}'}\n",
    );
    place.write("parent.test.yaml", "- expect: {tasks: {sub: {output: {twice: 4}}}}\n");
    place.call(&["test"]).expect(0);
}

#[test]
fn graphs_are_drawn_in_every_format() {
    let place = Place::new();
    place.write("w.yaml", WORKFLOW);
    let utf8 = place.call_with(&["graph", "w.yaml"], &[("LANG", "C.UTF-8")]).expect(0).stdout;
    assert!(utf8.contains("┌─────┐") && !utf8.contains('\x1b'), "{utf8}");
    assert!(place.call(&["graph", "w.yaml"]).expect(0).stdout.is_ascii(), "no locale, no box characters");
    let ascii = place.call_with(&["graph", "--ascii", "w.yaml"], &[("LANG", "C.UTF-8")]).expect(0).stdout;
    assert!(ascii.contains("+-----+"), "{ascii}");
    place.call(&["graph", "w.yaml", "--format", "dot"]).expect(0).says(&["digraph \"w\"", "t0 -> t1"]);
    place.call(&["graph", "w.yaml", "--format", "mermaid"]).expect(0).says(&["flowchart TD", "t0 --> t1"]);
    place.call(&["graph", "w.yaml", "--format", "svg"]).expect(0).says(&["<svg xmlns", "</svg>"]);
    place.write("bad.yaml", "name: w\ntasks: 7\n");
    place.call(&["graph", "bad.yaml"]).expect(2).says(&["bad.yaml:2:8"]);
}

#[test]
fn formatting_keeps_comments_and_refuses_what_it_cannot_read() {
    let place = Place::new();
    let ugly = "name: w   # mine\n\n\n\ntasks:\n      # first\n      a:\n            run: |\n                one\n                  two\n";
    let fine = "name: w   # mine\n\ntasks:\n  # first\n  a:\n    run: |\n      one\n        two\n";
    place.write("w.yaml", ugly);
    place.call(&["fmt", "--check", "w.yaml"]).expect(1).says(&["-      a:", "+  a:", "1 file would change"]);
    assert_eq!(std::fs::read_to_string(place.path("w.yaml")).unwrap(), ugly, "a check writes nothing");
    place.call(&["fmt", "w.yaml"]).expect(0).says(&["formatted w.yaml"]);
    assert_eq!(std::fs::read_to_string(place.path("w.yaml")).unwrap(), fine);
    place.call(&["fmt", "--check", "w.yaml"]).expect(0);
    assert_eq!(place.call_reading(&["fmt", "-"], ugly).expect(0).stdout, fine);
    place.write("bad.yaml", "name: [\n");
    place.call(&["fmt", "w.yaml", "bad.yaml"]).expect(2).says(&["bad.yaml:"]);
}

#[test]
fn a_file_is_compared_with_what_is_stored() {
    let place = Place::new();
    place.write("w.yaml", WORKFLOW);
    let database = ["--database", "sqlite://w.db"];
    let diff = |more: &[&str]| place.call(&[&["diff", "w.yaml"], &database[..], more].concat());
    diff(&[]).expect(2).says(&["there is no database file"]);
    place.call(&[&["submit", "w.yaml"], &database[..]].concat()).expect(0);
    diff(&[]).expect(0).says(&["default/w is the same as version 1"]);
    place.write("w.yaml", "name: w\ntasks:\n  c: {run: z}\n  a: {run: y, timeout: 5s}\n");
    diff(&[]).expect(1).says(&["~ task a", "timeout_ms: (none) -> 5000", "+ task c  run", "- task b"]);
    let report = diff(&["-o", "json"]).expect(1).json();
    assert_eq!(report["differences"]["tasks"][0]["task"], "a");
    place.write("w.yaml", "name: other\ntasks: {a: {run: x}}\n");
    diff(&[]).expect(1).says(&["default/other is not stored yet; w.yaml has 1 task\n"]);
}

#[test]
fn other_programs_files_become_workflows() {
    let place = Place::new();
    place.write("crontab", "0 2 * * * /opt/backup.sh\n@reboot /opt/agent\n");
    place.call(&["import", "crontab", "crontab"]).expect(0).says(&["# backup.yaml", "cron: \"0 2 * * *\"", "@reboot"]);
    std::fs::create_dir(place.path("out")).unwrap();
    place.call(&["import", "crontab", "crontab", "--out", "out"]).expect(0);
    place.call(&["validate", "out/backup.yaml", "out/agent.yaml"]).expect(0);
    place.call(&["import", "crontab", "crontab", "--out", "out"]).expect(2).says(&["out/backup.yaml exists already"]);
    place.call(&["import", "crontab", "crontab", "--out", "new.yaml"]).expect(2).says(&["is no folder"]);
    place.write("ci.yml", "name: CI\non: push\njobs: {build: {steps: [{uses: a/b@v1}, {run: make}]}}\n");
    place.call(&["import", "github-actions", "ci.yml", "--out", "ci.yaml"]).expect(0).says(&["not carried over"]);
    place.call(&["validate", "ci.yaml"]).expect(0);
    place.write("binary", [0_u8, 159, 146, 150, 255]);
    for kind in ["crontab", "github-actions", "tasker"] {
        place.call(&["import", kind, "binary"]).expect(2).says(&["not UTF-8"]);
    }
}

#[test]
fn the_schema_is_json() {
    let schema = Place::new().call(&["schema"]).expect(0).json();
    assert_eq!(schema["title"], "Mainspring workflow");
}
