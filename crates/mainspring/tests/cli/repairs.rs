//! `mainspring workflows`, `why`, and what people do about single tasks.

use crate::support::{Place, on_both_databases};

on_both_databases! { a_failed_task_is_resolved_and_its_run_goes_on workflows_are_looked_at_switched_and_deleted }

const BREAKS: &str = "name: w\ntasks:\n  bad: {run: exit 3, retry: {attempts: 1}}\n  after:\n    needs: bad\n    run: echo \"got ${{ tasks.bad.output.rows }}\"\n";

fn a_failed_task_is_resolved_and_its_run_goes_on(database: &str) {
    let place = Place::on(database);
    place.write("w.yaml", BREAKS);
    let run = place.submit("w.yaml", &[]);
    place.call(&["why", &run, "after", "-o", "table"]).expect(0).says(&["after is pending", "bad"]);
    let _server = place.server(&[]);
    assert_eq!(place.ended(&run)["status"], "failed");
    // Without a task, every one that has not succeeded is explained.
    place.call(&["why", &run, "-o", "table"]).expect(0).says(&[
        "bad has failed: exited with code 3",
        &format!("mainspring tasks retry {run} bad"),
        "after is upstream_failed:",
    ]);
    assert_eq!(place.call(&["why", &run]).expect(0).json()["items"].as_array().unwrap().len(), 2);
    place.call(&["why", &run, "nobody"]).expect(2).says(&["no task `nobody`", "mainspring runs get RUN"]);
    place.call(&["tasks", "skip", &run, "nobody"]).expect(2).says(&["nobody"]);
    let resolved = ["tasks", "resolve", &run, "bad", "--result", "{\"rows\": 7}", "--reason", "done by hand"];
    assert_eq!(place.call(&resolved).expect(0).json()["status"], "resolved_manually");
    assert_eq!(place.ended(&run)["status"], "success");
    place.call(&["runs", "logs", &run]).expect(0).says(&["got 7"]);
    place.call(&["why", &run, "-o", "table"]).expect(0).says(&["is success; no task of it waits or has failed"]);
    let run = place.submit("w.yaml", &[]);
    assert_eq!(place.ended(&run)["status"], "failed");
    let skip = ["tasks", "skip", &run, "after", "-o", "table"];
    place.call(&skip).expect(0).says(&["task after of run", "is left out; its status is skipped"]);
}

fn workflows_are_looked_at_switched_and_deleted(database: &str) {
    let place = Place::on(database);
    place.write("w.yaml", BREAKS);
    place.call(&["apply", "w.yaml"]).expect(0);
    place.call(&["workflows", "list", "-o", "table"]).expect(0).says(&["default", "w", "yes"]);
    assert_eq!(place.call(&["workflows", "show", "w"]).expect(0).json()["version"], 1);
    assert_eq!(place.call(&["workflows", "versions", "w"]).expect(0).json()["items"][0]["version"], 1);
    place.call(&["workflows", "pause", "w", "-o", "table"]).expect(0).says(&["workflow w is paused"]);
    assert_eq!(place.call(&["workflows", "show", "w"]).expect(0).json()["is_active"], false);
    place.call(&["workflows", "activate", "w"]).expect(0);
    place.call(&["submit", "w.yaml"]).expect(0);
    place.call(&["workflows", "delete", "w"]).expect(2).says(&["runs that go on"]);
    place.call(&["workflows", "delete", "w", "--cancel"]).expect(0);
    place.call(&["workflows", "show", "w"]).expect(2).says(&["w"]);
}
