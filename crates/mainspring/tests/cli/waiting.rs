//! Tasks that wait: for people, events, results and sub-workflows, told from another process.

use serde_json::{Value, json};

use crate::support::{Place, on_both_databases, task, until};

on_both_databases! {
    people_and_programs_answer_what_waits
    a_list_that_failed_is_retried_where_it_failed
    cancelling_reaches_sub_workflows
    a_run_stays_with_the_version_it_began_with
    files_are_kept_and_errors_are_found
}

const GATE: &str = "\
name: gate
tasks:
  ask: {approval: {roles: [operator], message: 'deploy ${{ run.id }}?'}}
  bank: {needs: ask, wait: {event: bank.confirmed, key: '${{ run.id }}', if: event.data.ok, timeout: 1h}}
  outside: {needs: bank, wait: {result: true}}
  done: {needs: outside, run: 'echo by ${{ tasks.ask.output.by }}: ${{ tasks.outside.output.x }}'}
finally: {bye: {run: echo bye}}
";

/// Waits until a task of the run waits; one that ends instead is a failure.
fn until_waiting(place: &Place, run: &str, name: &str) {
    until(&format!("{name} of {run} waits"), || {
        let shown = place.call(&["runs", "get", run]).expect(0).json();
        match task(&shown, name)["status"].as_str() {
            Some("waiting") => Some(()),
            Some("pending" | "ready") => None,
            other => panic!("{name} is {other:?} instead of waiting: {shown:#}"),
        }
    });
}

fn people_and_programs_answer_what_waits(database: &str) {
    let place = Place::on(database);
    place.write("gate.yaml", GATE);
    let server = place.server(&[]);
    let run = place.submit("gate.yaml", &[]);
    until_waiting(&place, &run, "ask");
    place.call(&["tasks", "list", &run, "-o", "table"]).expect(0).says(&["waits for an approval by operator"]);
    let open = place.call(&["approvals", "list"]).expect(0).json();
    assert_eq!((&open["items"][0]["task_id"], &open["items"][0]["roles"]), (&json!("ask"), &json!(["operator"])));
    assert_eq!(open["items"][0]["message"], format!("deploy {run}?"));
    place.call(&["approvals", "list", "-o", "table"]).expect(0).says(&["ask", "operator", &format!("deploy {run}?")]);
    place.call(&["why", "@last", "ask", "-o", "table"]).expect(0).says(&["it asks: deploy"]);
    place.call(&["tasks", "approve", &run, "nobody"]).expect(2).says(&["no task `nobody`"]);
    place
        .call(&["tasks", "approve", &run, "ask", "--by", "eve", "--role", "viewer"])
        .expect(2)
        .says(&["may be decided by operator, not by eve (viewer)"]);
    place.call(&["tasks", "deliver", &run, "ask", "--result", "{}"]).expect(2).says(&["does not wait for a result"]);
    place.call(&["tasks", "approve", &run, "ask", "--by", "ann", "--role", "operator", "--reason", "ok"]).expect(0);
    place.call(&["tasks", "approve", &run, "ask"]).expect(2).says(&["does not wait for approval"]);
    until_waiting(&place, &run, "bank");
    place.call(&["events", "emit", "bank.confirmed", "--key", "another", "--data", "{\"ok\": true}"]).expect(0);
    place.call(&["events", "emit", "bank.confirmed", "--key", &run, "--data", "{\"ok\": false}"]).expect(0);
    place.call(&["events", "emit", "Bad Name"]).expect(2);
    place.call(&["events", "emit", "bank.confirmed", "--data", "{"]).expect(2).says(&["--data is not JSON"]);
    place.call(&["events", "emit", "bank.confirmed", "--key", &run, "--data", "{\"ok\": true}"]).expect(0);
    until_waiting(&place, &run, "outside");
    place
        .call(&["tasks", "deliver", &run, "outside", "--result", "nonsense"])
        .expect(2)
        .says(&["--result is not JSON"]);
    place.call(&["tasks", "deliver", &run, "outside", "--result", "{\"x\": 42}"]).expect(0);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success");
    assert_eq!(task(&shown, "ask")["output"], json!({"approved": true, "by": "ann", "reason": "ok"}));
    assert_eq!(task(&shown, "bank")["output"]["data"], json!({"ok": true}));
    place.call(&["runs", "logs", &run]).expect(0).says(&["by ann: 42", "bye"]);
    drop(server);
}

fn a_list_that_failed_is_retried_where_it_failed(database: &str) {
    let place = Place::on(database);
    let mark = place.path("mended");
    let workflow = format!(
        "name: w\ntasks:\n  each:\n    foreach: [a, b, c]\n    retry: {{attempts: 1}}\n    run: |\n      \
         [ \"${{{{ item }}}}\" != b ] || [ -e {} ] || exit 3\n      echo v=${{{{ item }}}} >> $MAINSPRING_OUTPUT\n  \
         after: {{needs: each, run: 'echo ${{{{ tasks.each.output | length }}}} done'}}\n",
        mark.display()
    );
    place.write("w.yaml", workflow);
    let _server = place.server(&[]);
    place.call(&["submit", "w.yaml", "--wait"]).expect(1).says(&["each[1]", "1 of 3 items failed"]);
    let run = place.call(&["runs", "list"]).expect(0).json()["items"][0]["id"].as_str().unwrap().to_owned();
    std::fs::write(&mark, "").unwrap();
    place.call(&["runs", "retry", &run]).expect(0);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "success");
    let attempts = |name: &str| task(&shown, name)["attempt"].clone();
    assert_eq!((attempts("each[0]"), attempts("each[1]")), (json!(1), json!(2)), "only what failed is done again");
    assert_eq!(task(&shown, "each")["output"], json!([{"v": "a"}, {"v": "b"}, {"v": "c"}]));
}

fn cancelling_reaches_sub_workflows(database: &str) {
    let place = Place::on(database);
    let fifo = place.fifo("started");
    place
        .write("top.yaml", "name: top\ntasks: {m: {workflow: middle}}\nfinally: {f: {run: echo over}}\n")
        .write("middle.yaml", "name: middle\ntasks: {b: {foreach: [1], workflow: bottom}}\n")
        .write(
            "bottom.yaml",
            format!("name: bottom\ntasks: {{s: {{run: 'echo up > {}; exec sleep 600'}}}}\n", fifo.display()),
        );
    let _server = place.server(&[]);
    place.call(&["apply", "middle.yaml", "bottom.yaml"]).expect(0);
    let run = place.submit("top.yaml", &[]);
    crate::support::hear(&fifo);
    place.call(&["runs", "cancel", &run]).expect(0);
    let shown = place.ended(&run);
    assert_eq!(shown["status"], "cancelled");
    assert_eq!(task(&shown, "f")["status"], "success");
    let all = place.call(&["runs", "list"]).expect(0).json()["items"].clone();
    for child in all.as_array().unwrap() {
        let shown = place.ended(child["id"].as_str().unwrap());
        assert_eq!(shown["status"], "cancelled", "{}", child["workflow"]);
    }
    assert_eq!(all.as_array().unwrap().len(), 3);
}

fn a_run_stays_with_the_version_it_began_with(database: &str) {
    let place = Place::on(database);
    place.write("w.yaml", "name: w\ntasks: {ask: {approval: {}}, say: {needs: ask, run: echo first}}\n");
    let _server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    until_waiting(&place, &run, "ask");
    place.write("w.yaml", "name: w\ntasks: {say: {run: echo second}}\n");
    place.call(&["diff", "w.yaml"]).expect(1).says(&["ask"]);
    place.call(&["apply", "w.yaml"]).expect(0);
    place.call(&["diff", "w.yaml"]).expect(0);
    place.call(&["trigger", "w", "--follow"]).expect(0).says(&["say | second"]);
    place.call(&["tasks", "approve", &run, "ask"]).expect(0);
    let shown: Value = place.ended(&run);
    assert_eq!((&shown["version"], &shown["status"]), (&json!(1), &json!("success")));
    place.call(&["runs", "logs", &run]).expect(0).says(&["first"]);
}

fn files_are_kept_and_errors_are_found(database: &str) {
    let place = Place::on(database);
    place.write(
        "w.yaml",
        "name: w\ntasks:\n  keep: {run: 'echo content > report.txt', artifacts: ['*.txt']}\n  \
         broken: {function: {handler: fail, payload: {message: zanzibar}}, retry: {attempts: 1}}\n  \
         index: {needs: broken, trigger_rule: all_done, function: 'kb:reindex'}\n",
    );
    let _server = place.server(&[]);
    place.call(&["submit", "w.yaml", "--wait"]).expect(1);
    let run = place.call(&["runs", "list"]).expect(0).json()["items"][0]["id"].as_str().unwrap().to_owned();
    const CONTENT: &str = "434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53";
    let kept = place.call(&["runs", "artifacts", &run]).expect(0).json();
    assert_eq!(kept["items"], json!([{"name": "keep/1/report.txt", "bytes": 8, "sha256": CONTENT}]));
    place.call(&["runs", "artifacts", &run, "--get", "keep/1/report.txt", "copy.txt"]).expect(0);
    assert_eq!(std::fs::read_to_string(place.path("copy.txt")).unwrap(), "content\n");
    place
        .call(&["runs", "artifacts", &run, "--get", "keep/1/report.txt", "copy.txt"])
        .expect(2)
        .says(&["cannot write"]);
    place.call(&["runs", "artifacts", &run, "--get", "nothing", "x"]).expect(2).says(&["kept no file `nothing`"]);
    let found = place.call(&["search", "zanzibar"]).expect(0).json();
    let kinds: Vec<&str> = found["items"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"error") && kinds.contains(&"workflow"), "{found:#}");
    let error = found["items"].as_array().unwrap().iter().find(|one| one["kind"] == "error").unwrap();
    let shown = place.call(&["runs", "get", error["id"].as_str().unwrap()]).expect(0).json();
    assert_eq!((&shown["id"], &error["run_id"]), (&json!(run), &json!(run)), "what was found can be looked at");
    for hostile in ["\" OR 1=1 --", "a* NEAR(b)", "'; DROP TABLE runs; --", "((("] {
        place.call(&["search", hostile]).expect(0);
    }
}

#[test]
fn a_sub_workflow_beside_the_file_is_found_and_one_that_is_missing_is_named() {
    let place = Place::new();
    place.write(
        "top.yaml",
        "name: top\ntasks: {m: {workflow: {name: part, inputs: {n: 2}}}}\noutputs: {n: '${{ tasks.m.output.n }}'}\n",
    );
    place
        .call(&["run", "top.yaml"])
        .expect(2)
        .says(&["task `m` starts workflow `part`, which no file beside this one defines"]);
    place.write(
        "part.yaml",
        "name: part\ninputs: {n: {type: integer}}\ntasks: {t: {run: 'true'}}\noutputs: {n: '${{ inputs.n + 1 }}'}\n",
    );
    let report = place.call(&["run", "top.yaml", "--json"]).expect(0).json();
    assert_eq!(report["outputs"], json!({"n": 3}));
}

#[test]
fn files_outside_the_folder_and_behind_links_are_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("in")).unwrap();
    place.write("secret", "s").write("in/ok.sh", "echo fine");
    std::os::unix::fs::symlink(place.path("secret"), place.path("in/link")).unwrap();
    std::fs::create_dir(place.path("in/sub")).unwrap();
    std::os::unix::fs::symlink(place.path("secret"), place.path("in/sub/link")).unwrap();
    for (files, says) in [
        ("[../secret]", "leads out of its directory"),
        ("[/etc/passwd]", "is absolute"),
        ("[link]", "which is a link"),
        ("[.]", "the path `.` has an empty part"),
        ("[sub]", "which is a link"),
        ("[missing.sh]", "cannot be read"),
    ] {
        place.write("in/w.yaml", format!("name: w\nfiles: {files}\ntasks: {{t: {{run: 'true'}}}}\n"));
        place.call(&["run", "in/w.yaml"]).expect(2).says(&[says]);
    }
    place.write("in/w.yaml", "name: w\nfiles: [ok.sh]\ntasks: {t: {run: sh ok.sh}}\n");
    place.call(&["run", "in/w.yaml"]).expect(0).says(&["t | fine"]);
}

#[test]
fn a_secret_reaches_its_task_and_nothing_else() {
    let place = Place::new();
    place.write(
        "w.yaml",
        "name: w\nsecrets: [KEY]\ntasks:\n  a: {run: 'echo \"key is $K\"; echo k=$K >> $MAINSPRING_OUTPUT', env: {K: '${{ secrets.KEY }}'}}\n  \
         b: {run: 'env'}\n",
    );
    place.call(&["run", "w.yaml"]).expect(2).says(&["needs the secret `KEY`", "MAINSPRING_SECRET_KEY"]);
    let ended = place.call_with(&["run", "w.yaml", "--keep"], &[("MAINSPRING_SECRET_KEY", "hunter2hunter2")]).expect(0);
    ended.says(&["key is ***"]);
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    let file = std::fs::read(place.path(".mainspring/mainspring.db")).unwrap();
    assert!(!file.windows(7).any(|window| window == b"hunter2"), "the store holds the secret");
}
