//! `reuse` and `cache`: results and files of earlier runs, in a kept store, in a server's pool and in remote workers.

use crate::remote_workers::{Worker, token, url};
use crate::support::{Place, on_both_databases, task};

const WORKFLOW: &str = r#"name: caching
inputs: {day: {type: string, default: monday}}
tasks:
  build:
    run: |
      if [ -e deps/tool ]; then echo "found=$(deps/tool)" >> "$MAINSPRING_OUTPUT"; exit; fi
      mkdir -p deps/deep && head -c 400000 /dev/zero > deps/deep/big
      printf '#!/bin/sh\necho yes\n' > deps/tool && chmod +x deps/tool
      echo found=no >> "$MAINSPRING_OUTPUT"
    cache: {key: deps-1, paths: deps/, ttl: 1h}
  report:
    needs: build
    run: echo "made=$MAINSPRING_RUN_ID" >> "$MAINSPRING_OUTPUT"
    reuse: {key: "${{ inputs.day }}", ttl: 1h}
"#;

#[test]
fn the_report_of_a_run_says_what_was_found() {
    let place = Place::new();
    place.write("caching.yaml", WORKFLOW);
    let run = |more: &[&str]| place.call(&[&["run", "caching.yaml", "--keep"], more].concat()).expect(0);
    run(&[]).says(&["build: cache miss (key deps-1)", "report: reuse miss (key monday)"]);
    run(&[]).says(&["build: cache hit (key deps-1)", "report: reuse hit (key monday)"]);
    let report = run(&["--json", "--input", "day=tuesday"]).json();
    assert_eq!(task(&report, "build")["cache"]["hit"], true, "{report:#}");
    assert_eq!(task(&report, "build")["output"]["found"], "yes", "{report:#}");
    assert_eq!(task(&report, "report")["reuse"]["hit"], false, "{report:#}");
}

fn what_is_kept_survives_the_server_and_reaches_other_workers(database: &str) {
    let place = Place::on(database);
    place.write("caching.yaml", WORKFLOW);
    let first = {
        let server = place.server(&[]);
        let first = place.submit("caching.yaml", &[]);
        let shown = place.ended(&first);
        assert_eq!(task(&shown, "build")["output"]["found"], "no", "{shown:#}");
        server.kill();
        first
    };
    let server = place.server(&[("MAINSPRING_SERVER_ROLES", "api,scheduler")]);
    let _worker = Worker::start(&place, "other", &url(&server), &token(&place), &[]);
    let shown = place.ended(&place.submit("caching.yaml", &[]));
    assert_eq!(shown["status"], "success", "{shown:#}");
    assert_eq!(task(&shown, "build")["output"]["found"], "yes", "{shown:#}");
    assert_eq!(task(&shown, "report")["output"]["made"], first.as_str(), "{shown:#}");
    assert_eq!(task(&shown, "report")["reuse"]["run_id"], first.as_str(), "{shown:#}");
}

on_both_databases! {
    what_is_kept_survives_the_server_and_reaches_other_workers
}
