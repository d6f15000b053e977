//! `mainspring dlq` and `stale`: from a failing workflow to a healed one.

use crate::support::{Place, on_both_databases};

on_both_databases! { a_cause_is_found_and_healed_as_the_guide_says wrong_words_are_refused }

/// The page itself is walked below; here both databases are.
fn a_cause_is_found_and_healed_as_the_guide_says(database: &str) {
    let place = Place::on(database);
    let flag = place.path("warehouse-is-up");
    place.write("orders.yaml", format!("name: orders\ntasks:\n  load: {{run: test -e {}}}\n", flag.display()));
    let run = place.submit("orders.yaml", &[]);
    let _server = place.server(&[]);
    assert_eq!(place.ended(&run)["status"], "failed");
    let groups = place.call(&["dlq", "groups"]).expect(0).json();
    assert_eq!((groups["items"].as_array().unwrap().len(), groups["items"][0]["count"].as_i64()), (1, Some(1)));
    let fingerprint = groups["items"][0]["fingerprint"].as_str().unwrap().to_owned();
    place.write("warehouse-is-up", "");
    let done = place.call(&["dlq", "retry", "--group", &fingerprint, "--reason", "it is up"]).expect(0).json();
    assert_eq!(
        (done["status"].as_str(), done["done"].as_i64(), done["failed"].as_i64()),
        (Some("done"), Some(1), Some(0))
    );
    assert_eq!(place.ended(&run)["status"], "success");
}

#[test]
fn entries_are_sent_edited_and_closed() {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntasks: {a: {run: 'true'}}\n");
    place.submit("w.yaml", &[]);
    place.call(&["stale", "-o", "table"]).expect(0).says(&["healthy", "waiting_for_dependencies"]);
    let sent = place.call(&["dlq", "send", "@last", "--reason", "look again"]).expect(0).json();
    let id = sent["id"].as_str().unwrap();
    place.call(&["dlq", "stats", "-o", "table"]).expect(0).says(&["1 pending"]);
    // Tables show as much of an id as tells it apart, and that is enough to name it.
    let listed = place.call(&["dlq", "list", "-o", "table"]).expect(0).stdout;
    assert!(listed.contains(&id[..13]) && !listed.contains(id), "{listed}");
    assert_eq!(place.call(&["dlq", "get", &id[..13]]).expect(0).json()["id"], id);
    assert_eq!(place.call(&["dlq", "get", "@last"]).expect(0).json()["id"], id);
    place.call(&["dlq", "get", "ffff"]).expect(2).says(&["no run has an id that begins with `ffff`"]);
    place.call(&["dlq", "batch", &id[..13]]).expect(2).says(&["is not the id of a batch"]);
    place.call(&["dlq", "retry", "--workflow", "w", "--dry-run", "-o", "table"]).expect(0).says(&["1 dead letter"]);
    place.call(&["dlq", "skip", id]).expect(2).says(&["whole run"]);
    place.call(&["dlq", "update", id, "--notes", "nothing", "--metadata", "{\"n\": 1}"]).expect(0);
    place.call(&["dlq", "resolve", id]).expect(0);
    place.call(&["dlq", "resolve", id]).expect(2).says(&["already"]);
    assert_eq!(place.call(&["dlq", "detect", "--dry-run"]).expect(0).json()["items"].as_array().unwrap().len(), 0);
}

fn wrong_words_are_refused(database: &str) {
    let place = Place::on(database);
    place.write("w.yaml", "name: w\ntasks: {a: {run: 'true'}}\n");
    place.call(&["apply", "w.yaml"]).expect(0);
    place.call(&["dlq", "get", "nonsense"]).expect(2).says(&["is not the id of a dead letter", "dlq list"]);
    let run = place.submit("w.yaml", &[]);
    place.call(&["dlq", "get", &run]).expect(2).says(&["no run or task run with this id has one", "dlq list"]);
    place.call(&["dlq", "retry", "--group", "0000", "-o", "table"]).expect(0).says(&["no pending dead letter matches"]);
    place.call(&["dlq", "list", "--status", "nonsense"]).expect(2).says(&["pending"]);
    place.call(&["dlq", "retry"]).expect(2);
    place.write("mainspring.toml", "[staleness_detection]\ndefault_task_max_lifetime_hours = 0\nbatch_size = -1\n");
    place.call(&["stale"]).expect(2).says(&["default_task_max_lifetime_hours", "batch_size"]);
}

/// Every command of the page, by the command line and by curl, against a real server.
#[test]
fn the_page_goes_from_a_failing_workflow_to_a_healed_one() {
    let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let walked = std::process::Command::new(home.join("scripts/docs-commands"))
        .arg(env!("CARGO_BIN_EXE_mainspring"))
        .arg(home.join("docs/dead-letters.md"))
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&walked.stdout), String::from_utf8_lossy(&walked.stderr));
    assert!(walked.status.success() && said.contains("2 blocks of commands ran, 0 failed"), "{said}");
}

#[test]
fn notifications_of_a_namespace_are_set_and_shown() {
    let place = Place::new();
    place.write("bad.yaml", "- {on: [run_failed], slack: 'ftp://x'}\n").write("none.yaml", "on: run_failed\n");
    place.write("broken.yaml", "- {on: [\n");
    place.write("who.yaml", "- {on: [run_failed, dead_letter], webhook: 'https://ops.example.com/hook'}\n- {on: [stale_warning], email: [ops@example.com]}\n");
    for (file, says) in [
        ("bad.yaml", "notifications.0: the address must begin"),
        ("none.yaml", "holds no list"),
        ("broken.yaml", "broken.yaml"),
        ("gone.yaml", "cannot be read"),
    ] {
        place.call(&["notifications", "set", file]).expect(2).says(&[says]);
    }
    let set = place.call(&["notifications", "set", "who.yaml"]).expect(0).json();
    assert_eq!(set["notifications"].as_array().unwrap().len(), 2);
    assert_eq!(place.call(&["notifications", "targets"]).expect(0).json(), set);
    place.call(&["notifications", "list", "-o", "table"]).expect(0).says(&["no notifications"]);
    place.call(&["notifications", "list", "--status", "nonsense"]).expect(2).says(&["given_up"]);
}

#[test]
fn a_task_is_retried_with_changed_inputs() {
    let place = Place::new();
    place.write(
        "w.yaml",
        "name: w\ninputs: {n: {type: integer, default: 7}}\ntasks: {a: {run: 'test ${{ inputs.n }} -gt 10'}}\n",
    );
    let run = place.submit("w.yaml", &[]);
    let _server = place.server(&[]);
    assert_eq!(place.ended(&run)["status"], "failed");
    place.call(&["tasks", "retry", &run, "a", "-i", "n=many"]).expect(2);
    place.call(&["tasks", "retry", &run, "a", "-i", "n"]).expect(2).says(&["key=value"]);
    place.call(&["tasks", "retry", &run, "a", "-i", "n=20", "--reason", "a typo"]).expect(0);
    let healed = place.ended(&run);
    assert_eq!((healed["status"].as_str(), healed["inputs"]["n"].as_i64()), (Some("success"), Some(20)));
}
