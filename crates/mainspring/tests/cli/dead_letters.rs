//! `mainspring dlq` and `stale`: from a failing workflow to a healed one.

use crate::support::{Place, on_both_databases};

on_both_databases! { a_cause_is_found_and_healed_as_the_guide_says wrong_words_are_refused }

fn a_cause_is_found_and_healed_as_the_guide_says(database: &str) {
    let place = Place::on(database);
    let flag = place.path("warehouse-is-up");
    let workflow = format!(
        "name: orders\ntasks:\n  load: {{run: test -e {}}}\n  report: {{needs: load, run: echo done}}\n",
        flag.display()
    );
    place.write("orders.yaml", workflow);
    let runs = [place.submit("orders.yaml", &[]), place.submit("orders.yaml", &[])];
    place.call(&["stale", "-o", "table"]).expect(0).says(&["healthy", "waiting_for_dependencies"]);
    let _server = place.server(&[]);
    for run in &runs {
        assert_eq!(place.ended(run)["status"], "failed");
    }
    place.call(&["dlq", "queue", "-o", "table"]).expect(0).says(&["max_retries_exceeded", "load"]);
    place.call(&["dlq", "stats", "-o", "table"]).expect(0).says(&["2 pending"]);
    place.call(&["dlq", "get", &runs[0], "-o", "table"]).expect(0).says(&["pending", "execution_context", "exit"]);
    let groups = place.call(&["dlq", "groups"]).expect(0).json();
    assert_eq!((groups["items"].as_array().unwrap().len(), groups["items"][0]["count"].as_i64()), (1, Some(2)));
    let fingerprint = groups["items"][0]["fingerprint"].as_str().unwrap().to_owned();
    place.write("warehouse-is-up", "");
    let dry = place.call(&["dlq", "retry", "--group", &fingerprint, "--dry-run"]).expect(0).json();
    assert_eq!((dry["status"].as_str(), dry["matched"].as_i64()), (Some("would"), Some(2)));
    let done = place.call(&["dlq", "retry", "--group", &fingerprint, "--reason", "it is up"]).expect(0).json();
    assert_eq!(
        (done["status"].as_str(), done["done"].as_i64(), done["failed"].as_i64()),
        (Some("done"), Some(2), Some(0))
    );
    for run in &runs {
        assert_eq!(place.ended(run)["status"], "success");
    }
    let list = place.call(&["dlq", "list", "--status", "retried"]).expect(0).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let sent = place.call(&["dlq", "send", &runs[0], "--reason", "look again"]).expect(0).json();
    let id = sent["id"].as_str().unwrap();
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
    place.call(&["dlq", "get", "nonsense"]).expect(2);
    place.call(&["dlq", "list", "--status", "nonsense"]).expect(2).says(&["pending"]);
    place.call(&["dlq", "retry"]).expect(2);
    place.write("mainspring.toml", "[staleness_detection]\ndefault_task_max_lifetime_hours = 0\nbatch_size = -1\n");
    place.call(&["stale"]).expect(2).says(&["default_task_max_lifetime_hours", "batch_size"]);
}
