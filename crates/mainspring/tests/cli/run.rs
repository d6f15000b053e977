//! `mainspring run`.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::{Ended, Place, hear, is_alive, task};

const HELLO: &str = "name: hello\ntasks:\n  greet: {run: echo \"hello from $MAINSPRING_RUN_ID\"}\n";

#[test]
fn metrics_of_every_type_are_collected() {
    let place = Place::new();
    let task = |kind: &str| {
        format!("  {kind}: {{function: {{handler: 'metrics:collect', payload: {{metric_type: {kind}}}}}}}\n")
    };
    let tasks: String = ["all", "runs", "workers", "pools", "performance"].into_iter().map(task).collect();
    place.write("w.yaml", format!("name: w\ntasks:\n{tasks}"));
    place.call(&["run", "w.yaml"]).expect(0);
}

#[test]
fn two_lines_of_yaml_run() {
    let place = Place::new();
    let ended = place.write("hello.yaml", HELLO).call(&["run", "hello.yaml"]).expect(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ended.stdout);
    assert!(lines[0].ends_with(" greet started"), "{}", lines[0]);
    assert!(lines[1].contains(" greet | hello from 0"), "{}", lines[1]);
    assert!(lines[2].contains(" greet success in 0."), "{}", lines[2]);
    assert!(lines[3].contains(" success in ") && lines[3].ends_with(": 1 success"), "{}", lines[3]);
    // An embedded store leaves nothing behind.
    assert_eq!(std::fs::read_dir(place.path(".")).unwrap().count(), 1);
}

#[test]
fn the_report_has_the_agreed_shape() {
    let place = Place::new();
    let ended = place.write("hello.yaml", HELLO).call(&["run", "hello.yaml", "--json"]).expect(0);
    assert_eq!(ended.stdout.lines().count(), 1);
    assert_eq!(ended.stderr, "");
    let report = ended.json();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&report), ["run", "tasks"]);
    assert_eq!(keys(&report["run"]), ["id", "workflow", "status", "started_at", "finished_at"]);
    assert_eq!(report["run"]["workflow"], "hello");
    assert_eq!(report["run"]["status"], "success");
    let greet = task(&report, "greet");
    assert_eq!(keys(greet), ["task", "status", "attempts", "exit_code", "output", "duration_ms"]);
    assert_eq!((&greet["status"], &greet["attempts"], &greet["exit_code"]), (&json!("success"), &json!(1), &json!(0)));
    assert!(greet["duration_ms"].is_u64());
}

#[test]
fn outputs_flow_and_conditions_decide() {
    let workflow = "\
name: flow
inputs:
  region: {type: string, default: eu}
tasks:
  count: {run: 'echo \"{\\\"rows\\\": 3}\" > \"$MAINSPRING_OUTPUT\"'}
  double:
    needs: count
    run: |
      rows=${{ tasks.count.output.rows }}
      echo \"twice=$((rows * 2))\" >> \"$MAINSPRING_OUTPUT\"
  only-us: {needs: count, if: inputs.region == 'us', run: echo never}
  after-us: {needs: only-us, run: echo never}
  both: {needs: [double, only-us], trigger_rule: none_failed, run: 'echo \"status=${{ tasks.only-us.status }}\" >> \"$MAINSPRING_OUTPUT\"'}
";
    let place = Place::new();
    place.write("flow.yaml", workflow);
    let report = place.call(&["run", "flow.yaml", "--json"]).expect(0).json();
    assert_eq!(task(&report, "double")["output"], json!({"twice": "6"}));
    assert_eq!(task(&report, "only-us")["status"], "skipped");
    assert_eq!(task(&report, "after-us")["status"], "skipped");
    assert_eq!(task(&report, "both")["output"], json!({"status": "skipped"}));
    let report = place.call(&["run", "flow.yaml", "-i", "region=us", "--json"]).expect(0).json();
    assert_eq!(task(&report, "after-us")["status"], "success");
}

#[test]
fn failures_are_retried_then_finalised() {
    let workflow = "\
name: fails
tasks:
  flaky:
    run: test \"$MAINSPRING_ATTEMPT\" = 2
    retry: {attempts: 3, delay: 1ms, jitter: 0}
  broken:
    run: echo it is broken >&2; exit 9
    retry: {attempts: 2, delay: 1ms, jitter: 0}
  after: {needs: broken, run: echo never}
on_failure: {page: {run: echo paging}}
finally: {tidy: {run: echo tidying}}
";
    let place = Place::new();
    place.write("fails.yaml", workflow);
    let report = place.call(&["run", "fails.yaml", "--json"]).expect(1).json();
    assert_eq!(report["run"]["status"], "failed");
    assert_eq!(task(&report, "flaky")["attempts"], 2);
    assert_eq!(task(&report, "flaky")["status"], "success");
    let broken = task(&report, "broken");
    assert_eq!(
        (&broken["status"], &broken["attempts"], &broken["exit_code"]),
        (&json!("failed"), &json!(2), &json!(9))
    );
    assert!(broken["error"].as_str().unwrap().contains('9'));
    assert_eq!(task(&report, "after")["status"], "upstream_failed");
    assert_eq!(task(&report, "page")["status"], "success");
    assert_eq!(task(&report, "tidy")["status"], "success");
    let ended = place.call(&["run", "fails.yaml"]).expect(1);
    ended.says(&["broken attempt 1 failed: exited with code 9", "broken | it is broken", "after upstream_failed"]);
}

#[test]
fn a_command_that_does_not_exist_fails_its_task() {
    let place = Place::new();
    place.write(
        "w.yaml",
        "name: w\ntasks:\n  t: {run: no-such-command-here, retry: {attempts: 1}}\n  u: {run: 'true'}\n",
    );
    let report = place.call(&["run", "w.yaml", "--json"]).expect(1).json();
    assert_eq!(task(&report, "t")["exit_code"], 127);
    assert_eq!(task(&report, "u")["status"], "success");
}

#[test]
fn an_output_that_is_too_large_fails_its_task() {
    let place = Place::new();
    let script = "head -c 3000000 /dev/zero | tr '\\\\0' x > \"$MAINSPRING_OUTPUT\"";
    place.write("w.yaml", format!("name: w\ntasks:\n  t: {{run: {script:?}, retry: {{attempts: 1}}}}\n"));
    let report = place.call(&["run", "w.yaml", "--json"]).expect(1).json();
    assert!(task(&report, "t")["error"].as_str().unwrap().contains("1 MiB"), "{report:#}");
}

#[test]
fn tasks_see_only_what_is_allowed() {
    let workflow = "name: w\ntasks:\n  t: {run: env}\n";
    let place = Place::new();
    let variables = [
        ("DATABASE_URL", "sqlite://secret-place"),
        ("AWS_SECRET_ACCESS_KEY", "secret-key"),
        ("MAINSPRING_SECRET_X", "secret-x"),
        ("SHARED", "shared-value"),
        ("MAINSPRING_WORKER_ENVIRONMENT", "SHARED"),
    ];
    let ended = place.write("w.yaml", workflow).call_with(&["run", "w.yaml"], &variables).expect(0);
    assert!(!ended.stdout.contains("secret"), "{}", ended.stdout);
    ended.says(&["SHARED=shared-value", "PATH=", "MAINSPRING_TASK=t"]);
}

#[test]
fn inputs_are_checked_before_anything_runs() {
    let workflow =
        "name: w\ninputs:\n  day: {type: date}\n  count: {type: integer, default: 1}\ntasks:\n  t: {run: touch ran}\n";
    let place = Place::new();
    place.write("w.yaml", workflow);
    let check = |arguments: &[&str], expected: &[&str]| {
        let ended = place.call(&[&["run", "w.yaml"], arguments].concat()).expect(2);
        ended.says(expected);
        assert_eq!(ended.stdout, "");
    };
    check(&[], &["input `day` is missing", "-i day="]);
    check(&["-i", "day=yesterday", "-i", "count=many"], &["`yesterday`", "`many`, but must be a whole number"]);
    check(&["-i", "day=2026-01-31", "-i", "cuont=2"], &["no input `cuont`", "did you mean `count`?"]);
    check(&["-i", "day=2026-01-31", "-i", "day=2026-02-01"], &["given twice"]);
    check(&["-i", "day"], &["write it as -i key=value"]);
    assert!(!place.path("ran").exists());
}

#[test]
fn runs_can_be_kept() {
    let place = Place::new();
    place.write("hello.yaml", HELLO).call(&["run", "hello.yaml", "--keep"]).expect(0);
    let list = place.call(&["runs", "list"]).expect(0).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["next"], json!(null));
    let run = list["items"][0]["id"].as_str().unwrap();
    place.call(&["runs", "logs", run]).expect(0).says(&["greet | hello from"]);
    place
        .call(&["run", "hello.yaml", "--keep", "--database", "postgres://localhost/x"])
        .expect(2)
        .says(&["submit --wait"]);
}

#[test]
fn an_interrupt_cancels_and_kills() {
    let place = Place::new();
    let pipe = place.fifo("pipe");
    let workflow = "name: w\ntasks:\n  t: {run: 'echo $$ > pipe; sleep 1000', cwd: .}\n  u: {needs: t, run: 'true'}\nfinally:\n  f: {run: 'true'}\n";
    place.write("w.yaml", workflow);
    let mut command = place.command(&["run", "w.yaml", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let shell: i32 = hear(&pipe).parse().unwrap();
    assert!(is_alive(shell));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap()).expect(130);
    assert!(!is_alive(shell));
    let report = ended.json();
    assert_eq!(report["run"]["status"], "cancelled");
    assert_eq!(task(&report, "t")["status"], "cancelled");
    assert_eq!(task(&report, "f")["status"], "success");
}

#[test]
fn a_second_interrupt_quits_and_leaves_no_process() {
    let place = Place::new();
    let pipe = place.fifo("pipe");
    // It does not listen to TERM; the log says when it was sent one.
    let script = "trap 'echo told > pipe' TERM; echo $$ > pipe; while true; do read x < never; done";
    place.fifo("never");
    place.write("w.yaml", format!("name: w\ntasks:\n  t: {{run: {script:?}, cwd: .}}\n"));
    std::fs::create_dir(place.path("tmp")).unwrap();
    let mut command = place.command(&["run", "w.yaml"]);
    command.env("TMPDIR", place.path("tmp"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let shell: i32 = hear(&pipe).parse().unwrap();
    let program = Pid::from_raw(child.id() as i32);
    kill(program, Signal::SIGINT).unwrap();
    assert_eq!(hear(&pipe), "told");
    kill(program, Signal::SIGINT).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap()).expect(130);
    ended.says(&["SIGINT: cancelling the run", "interrupted again"]);
    // The watchdog is a process of its own and needs a moment after the program is gone.
    let is_clean = || !is_alive(shell) && std::fs::read_dir(place.path("tmp")).unwrap().count() == 0;
    crate::support::until("the end of its processes and files", || is_clean().then_some(()));
}

#[test]
fn a_workflow_without_tasks_succeeds_and_labels_are_served() {
    let place = Place::new();
    place.write("w.yaml", "name: w\ntasks: {}\n").call(&["run", "w.yaml"]).expect(0);
    let workflow = "name: w\ntasks:\n  t: {run: 'true', queue: gpu, labels: {arch: arm64}}\n";
    place.write("v.yaml", workflow).call(&["run", "v.yaml"]).expect(0);
}
