//! Polls: one run per new key, whatever is killed meanwhile; failures are shown and end nothing.

use serde_json::{Value, json};

use crate::support::{Place, on_both_databases, until};

on_both_databases! { a_poll_starts_one_run_per_key_and_shows_its_failures }

fn poll(place: &Place) -> Value {
    place.call(&["schedules", "show", "inbox/files"]).expect(0).json()["poll"].clone()
}

/// Waits until so many further checks have ended; how the poll does then.
fn after_checks(place: &Place, more: i64) -> Value {
    let before = poll(place)["checks"].as_i64().unwrap();
    until(&format!("{more} more checks"), || {
        Some(poll(place)).filter(|poll| poll["checks"].as_i64().unwrap() >= before + more)
    })
}

fn until_started(place: &Place, count: i64) -> Value {
    until(&format!("{count} runs"), || Some(poll(place)).filter(|poll| poll["started"] == count))
}

fn feed(place: &Place, ready: bool, id: &str) {
    // Renamed, so that no check reads half of it.
    place.write("feed.new", json!({"ready": ready, "id": id}).to_string());
    std::fs::rename(place.path("feed.new"), place.path("feed.json")).unwrap();
}

fn a_poll_starts_one_run_per_key_and_shows_its_failures(database: &str) {
    let place = Place::on(database);
    let file = place.path("feed.json").display().to_string();
    let workflow = format!(
        "name: inbox\n\
         inputs: {{id: {{type: string}}}}\n\
         triggers:\n  \
           - id: files\n    \
             poll: {{every: 1s, run: 'cat \"$FILE\"', env: {{FILE: '{file}'}}, output: json, if: event.data.ready, key: event.data.id}}\n    \
             inputs: {{id: '${{{{ event.data.id }}}}'}}\n\
         tasks:\n  t: {{run: 'echo got ${{{{ inputs.id }}}}'}}\n"
    );
    place.write("inbox.yaml", workflow);
    feed(&place, false, "a");
    let server = place.server(&[]);
    place.call(&["apply", "inbox.yaml"]).expect(0);
    assert_eq!(after_checks(&place, 2)["started"], 0, "its condition is not met");

    feed(&place, true, "a");
    let found = until_started(&place, 1);
    assert_eq!((&found["last_key"], &found["failures"]), (&json!("a"), &json!(0)));
    let run = found["last_run"].as_str().unwrap().to_owned();
    let shown = place.ended(&run);
    assert_eq!((&shown["status"], &shown["inputs"]["id"]), (&json!("success"), &json!("a")));
    assert_eq!(after_checks(&place, 2)["started"], 1);

    server.kill();
    let _server = place.server(&[]);
    assert_eq!(after_checks(&place, 2)["started"], 1, "what was found before is known after a restart");

    feed(&place, true, "b");
    until_started(&place, 2);
    feed(&place, true, "a");
    assert_eq!(after_checks(&place, 2)["started"], 2);

    std::fs::remove_file(place.path("feed.json")).unwrap();
    let failing = until("a failure", || Some(poll(&place)).filter(|poll| poll["failures"].as_i64() > Some(0)));
    let check = failing["last_check_run"].as_str().unwrap();
    place.call(&["runs", "logs", check]).says(&["No such file"]);
    place.call(&["schedules", "list", "-o", "table"]).expect(0).says(&["inbox", "files", "poll", "failing"]);
    place.call(&["schedules", "show", "inbox/files", "-o", "table"]).expect(0).says(&["failed: ", "last error"]);
    feed(&place, true, "c");
    assert_eq!(until_started(&place, 3)["failures"], 0);

    let runs = place.call(&["runs", "list", "--workflow", "inbox"]).expect(0).json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 3, "checks are runs of a workflow of their own: {runs:#}");
    let listed = place.call(&["workflows", "list"]).expect(0).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed:#}");
    place.call(&["backfill", "inbox", "--from", "2026-06-05", "--to", "2026-06-09"]).expect(2);
    place.call(&["workflows", "delete", "inbox", "--cancel"]).expect(0);
    let left = place.call(&["runs", "list"]).expect(0).json();
    assert_eq!(left["items"], json!([]), "checks go with their workflow");
}
