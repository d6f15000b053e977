//! `mainspring server` and what is sent to it.

use std::net::TcpListener;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Place, hear, is_alive, on_both_databases, task};

on_both_databases! {
    work_is_submitted_followed_and_shown
    a_running_run_is_cancelled
    shutting_down_lets_running_tasks_finish
    what_does_not_finish_in_time_is_handed_back
}

fn work_is_submitted_followed_and_shown(database: &str) {
    let place = Place::on(database);
    let workflow = "\
name: w
inputs: {who: {type: string, default: world}}
tasks:
  one: {run: 'echo \"hello ${{ inputs.who }}\"; echo n=1 >> \"$MAINSPRING_OUTPUT\"'}
  two: {needs: one, run: 'echo got ${{ tasks.one.output.n }}'}
";
    place.write("w.yaml", workflow).write("bad.yaml", "name: b\ntasks:\n  t: {run: 'exit 3', retry: {attempts: 1}}\n");
    let server = place.server(&[]);
    place.call(&["submit", "w.yaml", "--wait", "-i", "who=ada"]).expect(0).says(&["one | hello ada", "two | got 1"]);
    place.call(&["submit", "bad.yaml", "--wait"]).expect(1).says(&["t failed", "exited with code 3"]);
    let report = place.call(&["submit", "bad.yaml", "--wait", "-o", "json"]).expect(1).json();
    assert_eq!(task(&report, "t")["exit_code"], 3);

    let submit = ["--idempotency-key", "k", "--correlation-id", "c", "--priority", "high"];
    let run = place.submit("w.yaml", &submit);
    assert_eq!(place.submit("w.yaml", &submit), run);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success");
    for (field, expected) in
        [("workflow", json!("w")), ("version", json!(1)), ("priority", json!(750)), ("correlation_id", json!("c"))]
    {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert_eq!(shown["inputs"], json!({"who": "world"}));
    let one = task(&shown, "one");
    assert_eq!(one["id"], format!("{run}.0"));
    assert_eq!(one["workflow_run_id"], run.as_str());
    assert_eq!((&one["attempt"], &one["max_attempts"], &one["output"]), (&json!(1), &json!(1), &json!({"n": "1"})));
    assert!(one["worker_id"].is_string() && one["finished_at"].is_string());

    let list = |arguments: &[&str]| place.call(&[&["runs", "list"], arguments].concat()).expect(0).json();
    assert_eq!(list(&[])["items"].as_array().unwrap().len(), 4);
    assert_eq!(list(&["--status", "failed"])["items"].as_array().unwrap().len(), 2);
    assert_eq!(list(&["--workflow", "w", "--since", "1h"])["items"].as_array().unwrap().len(), 2);
    assert_eq!(list(&["--until", "2026-01-01"])["items"], json!([]));
    assert_eq!(list(&["-n", "other"])["items"], json!([]));
    assert_eq!(list(&["--correlation-id", "c"])["items"][0]["id"], run.as_str());
    let mut seen = Vec::new();
    let mut page = list(&["--limit", "3"]);
    loop {
        seen.extend(page["items"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()));
        let Value::String(next) = &page["next"] else { break };
        page = list(&["--limit", "3", "--cursor", next]);
    }
    let distinct: std::collections::HashSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (4, 4), "every run is on one page: {seen:?}");

    place.call(&["runs", "logs", &run, "two"]).expect(0).says(&["got 1"]);
    assert_eq!(place.call(&["runs", "get", &run[..30]]).expect(0).json()["id"], run.as_str(), "the beginning of an id");
    assert_eq!(place.call(&["runs", "get", "@last"]).expect(0).json()["id"], run.as_str(), "the newest run");
    place.call(&["runs", "get", "ffff"]).expect(2).says(&["no run has an id that begins with `ffff`"]);
    let table = place.call(&["runs", "list", "-o", "table"]).expect(0);
    table.says(&["RUN", "TRIGGER", "manual by ", &run[..13]]);
    assert!(
        !table.stdout.contains(&run) && !table.stdout.contains('T'.to_string().repeat(2).as_str()),
        "{}",
        table.stdout
    );
    let again = place.call(&["runs", "rerun", &run, "-i", "who=bob"]).expect(0).json();
    assert_ne!(again["id"], run.as_str(), "other inputs make a new run");
    assert_eq!(place.ended(again["id"].as_str().unwrap())["inputs"], json!({"who": "bob"}));
    place.call(&["runs", "rerun", &run, "--from", "two", "-i", "who=bob"]).expect(2).says(&["leave `from` out"]);
    let items = place.call(&["runs", "logs", &run, "-o", "json"]).expect(0).json()["items"].clone();
    assert_eq!(items[0]["message"], "hello world");
    assert_eq!(items[0]["stream"], "stdout");
    place.call(&["runs", "logs", &run, "tow"]).expect(2).says(&["did you mean `two`?"]);
    place.call(&["runs", "show", "01900000-0000-7000-8000-000000000000"]).expect(2).says(&["was not found"]);

    for (path, status, body) in [
        ("/live", 200, "\"ok\""),
        ("/ready", 200, "ready"),
        ("/healthz", 200, "{\"status\":\"ok\",\"service\":\"mainspring-api\"}"),
        ("/live/", 401, "\"status\":401"),
        ("/api/v1/pools", 401, "\"title\":\"Unauthorized\""),
        ("/ready/../api/v1/pools", 401, ""),
    ] {
        let (found, text) = server.get(path);
        assert_eq!(found, status, "{path}");
        assert!(text.contains(body), "{path}: {text}");
    }
    assert_eq!(server.request("POST", "/live").0, 401);
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!((&last["message"], &last["level"]), (&json!("stopped"), &json!("info")));
    assert!(last["duration_ms"].is_u64() && last["time"].is_string());
}

fn a_running_run_is_cancelled(database: &str) {
    let place = Place::on(database);
    let pipe = place.fifo("pipe");
    place.write(
        "w.yaml",
        "name: w\ntasks:\n  t: {run: 'echo $$ > pipe; sleep 1000', cwd: .}\n  u: {needs: t, run: 'true'}\n",
    );
    let _server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    let shell: i32 = hear(&pipe).parse().unwrap();
    place.call(&["runs", "cancel", &run, "--reason", "enough", "--by", "me"]).expect(0);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "cancelled");
    assert_eq!(task(&shown, "t")["status"], "cancelled");
    assert!(!is_alive(shell));
    place.call(&["runs", "cancel", &run, "-o", "table"]).expect(0).says(&["had ended before: cancelled"]);
}

fn shutting_down_lets_running_tasks_finish(database: &str) {
    let place = Place::on(database);
    let (begun, go_on) = (place.fifo("begun"), place.fifo("go-on"));
    place.write("w.yaml", "name: w\ntasks:\n  t: {run: 'echo x > begun; read line < go-on; echo $line', cwd: .}\n  u: {needs: t, run: 'true'}\n");
    let server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    hear(&begun);
    server.signal(Signal::SIGTERM);
    // The task ends only after the signal was taken in: the server says so by not being ready any more.
    while server.get("/ready").0 == 200 {}
    // A supervisor repeats it, and that changes nothing.
    server.signal(Signal::SIGTERM);
    std::fs::write(go_on, "finished after the signal\n").unwrap();
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{log}");
    let shown = place.call(&["runs", "show", &run]).expect(0).json();
    assert_eq!(task(&shown, "t")["status"], "success");
    assert_eq!(task(&shown, "u")["status"], "ready");
    let _server = place.server(&[]);
    assert_eq!(place.ended(&run)["status"], "success");
}

#[test]
fn listening_for_other_machines_without_tls_is_a_warning() {
    for (listen, warns) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let place = Place::new();
        let mut command = place.command(&["server", "--listen", listen]);
        let mut child =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let said = String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned();
        assert_eq!(said.contains("tokens pass in plain text"), warns, "{listen}: {said}");
    }
}

fn what_does_not_finish_in_time_is_handed_back(database: &str) {
    let place = Place::on(database);
    let begun = place.fifo("begun");
    let script = "echo $$ > begun; test \"$MAINSPRING_ATTEMPT\" -gt 1 || sleep 1000";
    place.write("w.yaml", format!("name: w\ntasks:\n  t: {{run: {script:?}, cwd: ., retry: {{attempts: 1}}}}\n"));
    let server = place.server(&[("MAINSPRING_SHUTDOWN_TIMEOUT", "10ms")]);
    let run = place.submit("w.yaml", &[]);
    let shell: i32 = hear(&begun).parse().unwrap();
    assert_eq!(server.terminate().0, Some(0));
    assert!(!is_alive(shell));
    let _server = place.server(&[]);
    hear(&begun);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success", "{shown:#}");
    assert_eq!(task(&shown, "t")["attempt"], 2);
}

#[test]
fn one_file_has_one_server() {
    let place = Place::new();
    let _server = place.server(&[]);
    place.call(&["server", "--listen", "127.0.0.1:0"]).expect(2).says(&["another server holds"]);
    place.write("w.yaml", "name: w\ntasks: {}\n");
    place.call(&["run", "w.yaml", "--keep"]).expect(2).says(&["another server holds"]);
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    Place::new().call(&["server", "--listen", &address]).expect(2).says(&["cannot listen on", "--listen"]);
    Place::new().call(&["server", "--listen", "here"]).expect(2).says(&["--listen is `here`"]);
    Place::new().call(&["server", "--roles", "api,wroker"]).expect(2).says(&["did you mean `worker`?"]);
}

#[test]
fn a_node_without_the_worker_role_executes_nothing() {
    let place = Place::new();
    // The scheduler ends the run at its timeout; a worker would have been faster.
    place.write("w.yaml", "name: w\ntimeout: 2s\ntasks:\n  t: {run: 'true'}\n  f: {function: {handler: noop}}\n");
    let server = place.server(&[("ENABLE_JOB_CONSUMER", "false")]);
    assert_eq!(server.get("/ready").0, 200);
    let shown = place.ended(&place.submit("w.yaml", &[]));
    assert_eq!(shown["status"], "failed");
    for name in ["t", "f"] {
        let task = task(&shown, name);
        assert_eq!((&task["status"], &task["attempt"]), (&json!("cancelled"), &json!(0)), "{task:#}");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new();
    let begun = place.fifo("begun");
    place.write("w.yaml", "name: w\ntasks:\n  t: {run: 'echo $$ > begun; sleep 1000', cwd: .}\n");
    let server = place.server(&[]);
    place.submit("w.yaml", &[]);
    hear(&begun);
    server.signal(Signal::SIGTERM);
    // The second one counts only once the first was taken in: the server says so by not being ready any more.
    while server.get("/ready").0 == 200 {}
    server.signal(Signal::SIGINT);
    assert_eq!(server.wait().0, Some(130));
}
