//! What is set going again: retries, repetitions, jobs by hand, and what an event starts.

use serde_json::json;

use crate::support::{Place, on_both_databases};

on_both_databases! { what_is_set_going_again_is_followed }

/// Retries, repetitions and jobs are waited for as submissions are, and the exit code tells how they went.
fn what_is_set_going_again_is_followed(database: &str) {
    let place = Place::on(database);
    place.write("w.yaml", "name: w\ntasks:\n  t: {run: 'test -e mended', cwd: .}\n");
    let _server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    place.ended(&run);
    let told = place.call(&["runs", "retry", &run, "--wait", "-o", "table"]).expect(1);
    told.says(&["t failed", &format!("run {run} failed")]);
    place.write("mended", "");
    let retried = place.call(&["runs", "retry", &run, "--follow", "-o", "json"]).expect(0).json()["run"].clone();
    assert_eq!((&retried["id"], &retried["status"]), (&json!(run), &json!("success")));
    let again = place.call(&["runs", "rerun", &run, "-f", "-o", "json"]).expect(0).json()["run"].clone();
    assert_eq!(again["status"], "success");
    assert_ne!(again["id"], json!(run));
    let create = ["jobs", "create", "breaks", "--every", "1h", "--run", "exit 3", "--max-retries", "0"];
    place.call(&create).expect(0);
    place.call(&["jobs", "trigger", "breaks", "--wait", "-o", "table"]).expect(1).says(&["exited with code 3"]);
}

/// A job is given another schedule by the flags with which it was created.
#[test]
fn jobs_are_rescheduled_by_the_flags_of_create() {
    let place = Place::new();
    let create = ["jobs", "create", "nightly", "--cron", "0 3 * * *", "--tz", "Europe/Paris", "--run", "true"];
    place.call(&create).expect(0).says(&["nothing serves the database: the job waits"]);
    place.call(&["jobs", "list", "-o", "table"]).expect(0).says(&["0 3 * * * Europe/Paris"]);
    let changed = place.call(&["jobs", "reschedule", "nightly", "--cron", "0 4 * * *"]).expect(0).json();
    assert_eq!(changed["schedule"], "0 4 * * *");
    place.call(&["jobs", "reschedule", "nightly", "0 5 * * *"]).expect(0);
    let other = place.call(&["jobs", "reschedule", "nightly", "--every", "10m"]).expect(2);
    other.says(&["job nightly was created with --cron", "delete the job and create it anew with --every"]);
    place.call(&["jobs", "reschedule", "nightly"]).expect(2).says(&["SCHEDULE"]);
    place.call(&["jobs", "create", "soon", "--at", "1h", "--run", "true"]).expect(0);
    place.call(&["jobs", "reschedule", "soon", "--at", "2999-01-01T08:00:00Z"]).expect(0);
    place.call(&["jobs", "list", "-o", "table"]).expect(0).says(&["one_time  active  2999-01-01 08:00:00  "]);
}

/// Paths of the API that create jobs are no names that jobs cannot have.
#[test]
fn a_job_may_be_called_like_a_path_of_the_api() {
    let place = Place::new();
    place.call(&["jobs", "get", "once"]).expect(2).says(&["there is no database file"]);
    place.call(&["jobs", "create", "once", "--at", "1h", "--run", "true"]).expect(0);
    assert_eq!(place.call(&["jobs", "get", "once"]).expect(0).json()["name"], "once");
    place.call(&["jobs", "reschedule", "once", "--at", "2h"]).expect(0);
    assert_eq!(place.call(&["jobs", "pause", "once"]).expect(0).json()["status"], "paused");
    place.call(&["jobs", "delete", "once"]).expect(0);
    assert_eq!(place.call(&["jobs", "get", "once"]).expect(0).json()["status"], "cancelled");
    place
        .call(&["jobs", "get", "bulk"])
        .expect(2)
        .says(&["job `bulk` in namespace `default` was not found", "mainspring jobs list"]);
}

/// The output names what an event has started as people named it.
#[test]
fn an_event_names_what_listens_to_it() {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntriggers: [{id: made, event: order.made}]\ntasks: {t: {run: 'true'}}\n");
    place.call(&["apply", "w.yaml"]).expect(0);
    place.call(&["handlers", "create", "order.*", "--handler", "noop", "--action", "create_job"]).expect(0);
    let told = place.call(&["events", "emit", "order.made", "-o", "table"]).expect(0);
    told.says(&["trigger w/made started run", "for noop started job"]);
    // A delivery that failed is printed once.
    let missing = ["handlers", "create", "order.*", "--handler", "gone", "--action", "trigger_workflow"];
    place.call(&missing).expect(0);
    let told = place.call(&["events", "emit", "order.made", "-o", "table"]).expect(0);
    told.says(&["for gone failed: workflow `gone`"]);
    assert_eq!(told.stderr, "");
}
