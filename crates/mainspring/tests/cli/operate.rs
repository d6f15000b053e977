//! `mainspring runs pause|resume|retry|rerun`, `pause` and `resume`.

use serde_json::json;

use crate::support::{Place, hear, on_both_databases, task};

on_both_databases! { a_run_is_paused_and_resumed failed_work_is_done_again a_queue_is_paused_and_resumed }

/// A handler and what it gives the work that it starts; `--config` stays the configuration file.
#[test]
fn a_handler_is_created_with_what_it_gives() {
    let place = Place::new();
    let create = ["handlers", "create", "order.*", "--handler", "noop", "--action", "create_job"];
    place.call(&[&create[..], &["--action-config", "{\"payload\": {\"n\": 1}}"]].concat()).expect(0);
    let found = place.call(&["handlers", "list"]).expect(0).json();
    assert_eq!(found["items"][0]["action_config"], json!({"payload": {"n": 1}}));
    place.call(&[&create[..], &["--action-config", "{"]].concat()).expect(2).says(&["--action-config is not JSON"]);
}

#[test]
fn the_address_of_the_interface_is_that_of_the_server_that_serves() {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntasks: {a: {run: 'true'}}\n");
    place.submit("w.yaml", &[]);
    place.call(&["ui"]).expect(2).says(&["there is no token", "start `mainspring server` here first"]);
    let server = place.server(&[]);
    place.call(&["ui"]).expect(0).says(&[&format!("http://{}/ui/#code=", server.address)]);
}

fn a_queue_is_paused_and_resumed(database: &str) {
    let place = Place::on(database);
    place.write("w.yaml", "name: w\ntasks: {t: {run: 'true', queue: gpu}}\n");
    let made = place.call(&["pause", "--queue", "gpu", "--reason", "a new driver"]).expect(0).json();
    assert_eq!((&made["queue"], &made["namespace"]), (&json!("gpu"), &json!(null)));
    let _server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    place.call(&["why", &run, "t"]).expect(0).says(&["queue `gpu` is paused by", ": a new driver"]);
    place.call(&["pause", "-n", "sales"]).expect(0);
    place.call(&["pause", "--list", "-o", "table"]).expect(0).says(&["NAMESPACE", "gpu", "sales", "a new driver"]);
    // What holds in all namespaces holds in each.
    let listed = place.call(&["pause", "--list", "-n", "sales"]).expect(0).json();
    assert_eq!((&listed["items"][0]["queue"], &listed["items"][1]["namespace"]), (&json!("gpu"), &json!("sales")));
    place.call(&["resume", "--queue", "gpu"]).expect(0);
    assert_eq!(place.ended(&run)["status"], "success");
    place.call(&["resume", "--all"]).expect(2).says(&["a pause of everything"]);
    place.call(&["pause"]).expect(2).says(&["pause what?", "--queue QUEUE"]);
}

fn a_run_is_paused_and_resumed(database: &str) {
    let place = Place::on(database);
    let (begun, go_on) = (place.fifo("begun"), place.fifo("go-on"));
    place.write(
        "w.yaml",
        "name: w\ntasks:\n  t: {run: 'echo x > begun; read x < go-on', cwd: .}\n  u: {needs: t, run: 'true'}\n",
    );
    let server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    hear(&begun);
    assert_eq!(place.call(&["runs", "pause", &run]).expect(0).json()["status"], "paused");
    place.call(&["runs", "pause", &run]).expect(2).says(&["only a running run can be paused"]);
    std::fs::write(go_on, "x\n").unwrap();
    // The server hands in what it did before it stops, so that nothing has to be waited for.
    server.terminate();
    let shown = place.call(&["runs", "show", &run]).expect(0).json();
    assert_eq!((&shown["status"], &task(&shown, "t")["status"]), (&json!("paused"), &json!("success")));
    assert_eq!(task(&shown, "u")["status"], "pending");
    let _server = place.server(&[]);
    place.call(&["runs", "resume", &run]).expect(0);
    assert_eq!(place.ended(&run)["status"], "success");
    place.call(&["runs", "resume", &run]).expect(2).says(&["only a paused run can be resumed"]);
}

fn failed_work_is_done_again(database: &str) {
    let place = Place::on(database);
    place.write("w.yaml", "name: w\ntasks:\n  a: {run: 'true'}\n  t: {needs: a, run: 'test -e mended', cwd: ., retry: {attempts: 1}}\n  u: {needs: t, run: 'true'}\n");
    let _server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    let shown = place.ended(&run);
    assert_eq!((&shown["status"], &task(&shown, "u")["status"]), (&json!("failed"), &json!("upstream_failed")));
    place.write("mended", "");
    place.call(&["runs", "retry", &run, "--reason", "mended", "-o", "table"]).expect(0).says(&["does 2 tasks again"]);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success");
    assert_eq!((&task(&shown, "a")["attempt"], &task(&shown, "t")["attempt"]), (&json!(1), &json!(2)));
    place.call(&["runs", "retry", &run]).expect(2).says(&["only a failed or cancelled run"]);

    std::fs::remove_file(place.path("mended")).unwrap();
    let run = place.submit("w.yaml", &[]);
    place.ended(&run);
    place.write("mended", "");
    place.call(&["runs", "rerun", &run, "--from", "aa"]).expect(2).says(&["did you mean `a`?"]);
    place.call(&["runs", "rerun", &run, "--from", "a"]).expect(0);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success");
    assert_eq!(task(&shown, "a")["attempt"], 2);
}
