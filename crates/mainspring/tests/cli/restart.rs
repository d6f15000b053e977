//! What a server that is killed leaves to the next one.

use crate::support::{Place, hear, is_alive, on_both_databases, task, until};

const QUICK: &[(&str, &str)] =
    &[("MAINSPRING_WORKER_LEASE_TTL", "500ms"), ("MAINSPRING_WORKER_HEARTBEAT_INTERVAL", "100ms")];

on_both_databases! { a_retry_survives_a_restart running_work_is_killed_and_done_again }

fn a_retry_survives_a_restart(database: &str) {
    let place = Place::on(database);
    let script = "test \"$MAINSPRING_ATTEMPT\" = 2";
    place.write(
        "w.yaml",
        format!("name: w\ntasks:\n  t: {{run: {script:?}, retry: {{attempts: 2, delay: 2s, jitter: 0}}}}\n"),
    );
    let server = place.server(QUICK);
    let run = place.submit("w.yaml", &[]);
    let retrying = || {
        let shown = place.call(&["runs", "show", &run]).expect(0).json();
        task(&shown, "t")["next_retry_at"].as_str().map(str::to_owned)
    };
    // Each look is a process: that is wait enough.
    let due = until("a retry", retrying);
    server.kill();
    assert_eq!(retrying(), Some(due.clone()));
    let _server = place.server(QUICK);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    let second = task(&shown, "t");
    assert_eq!(second["attempt"], 2);
    assert!(second["started_at"].as_str().unwrap() >= due.as_str(), "{due} {second:#}");
}

fn running_work_is_killed_and_done_again(database: &str) {
    let place = Place::on(database);
    let begun = place.fifo("begun");
    let script = "echo begun; echo $$ > begun; test \"$MAINSPRING_ATTEMPT\" -gt 1 || sleep 1000";
    place.write("w.yaml", format!("name: w\ntasks:\n  t: {{run: {script:?}, cwd: ., retry: {{attempts: 1}}}}\n"));
    let server = place.server(QUICK);
    let run = place.submit("w.yaml", &[]);
    let shell: i32 = hear(&begun).parse().unwrap();
    // Once its output arrives, the watchdog knows of the process; in the instant before, no process does.
    let begins = || place.call(&["runs", "logs", &run]).expect(0).stdout.contains("begun").then_some(());
    until("the first line", begins);
    server.kill();
    let _server = place.server(QUICK);
    hear(&begun);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    assert_eq!(task(&shown, "t")["attempt"], 2);
    assert!(!is_alive(shell), "process {shell} outlived its worker");
}
