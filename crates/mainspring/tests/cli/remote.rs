//! Commands that act through a server: from another folder, with nothing but its address and a token.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Ended, Place, Server, hear, task};

/// A server at home, and a folder elsewhere from which it is asked.
struct Scene {
    home: Place,
    away: Place,
    server: Server,
    url: String,
    token: String,
}

impl Scene {
    fn new() -> Self {
        let (home, away) = (Place::new(), Place::new());
        let server = home.server(&[]);
        let file = home.path(".mainspring/admin.token");
        // It is written right after the line that tells the address.
        let token = loop {
            match std::fs::read_to_string(&file) {
                Ok(token) if token.ends_with('\n') || token.len() > 40 => break token.trim().to_owned(),
                _ => std::thread::yield_now(),
            }
        };
        let url = format!("http://{}", server.address);
        Self { home, away, server, url, token }
    }

    fn variables(&self) -> [(&str, &str); 2] {
        [("MAINSPRING_SERVER", &self.url), ("MAINSPRING_TOKEN", &self.token)]
    }

    fn call(&self, arguments: &[&str]) -> Ended {
        self.away.call_with(arguments, &self.variables())
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        self.call(arguments).expect(0).json()
    }

    /// The same with a token that is none.
    #[track_caller]
    fn refuses(&self, arguments: &[&str]) {
        let variables = [("MAINSPRING_SERVER", self.url.as_str()), ("MAINSPRING_TOKEN", "ms_wrong")];
        self.away
            .call_with(arguments, &variables)
            .expect(2)
            .says(&["the server does not accept the token of MAINSPRING_TOKEN"]);
    }

    #[track_caller]
    fn submit(&self, file: &str) -> String {
        self.json(&["submit", file])["id"].as_str().unwrap().to_owned()
    }

    /// Waits until the run has ended, and shows it.
    #[track_caller]
    fn ended(&self, run: &str) -> Value {
        let followed = self.call(&["runs", "logs", "-f", run]);
        let shown = self.json(&["runs", "show", run]);
        followed.expect(i32::from(shown["status"] != "success"));
        shown
    }

    /// Waits until a task of the run waits.
    #[track_caller]
    fn until_waiting(&self, run: &str, name: &str) {
        for _ in 0..1_200 {
            let shown = self.json(&["tasks", "list", run]);
            if shown["items"].as_array().unwrap().iter().any(|one| one["task_id"] == name && one["status"] == "waiting")
            {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{name} of {run} does not begin to wait");
    }
}

const NOBODY: &str = "01900000-0000-7000-8000-000000000000";

#[test]
fn work_is_submitted_and_looked_at() {
    let scene = Scene::new();
    scene
        .away
        .write(
            "w.yaml",
            "name: w\ninputs: {who: {type: string, default: world}}\ntasks:\n  one: {run: 'echo \"hello ${{ inputs.who }}\"'}\n  \
             two: {needs: one, foreach: [a, b], run: 'echo item ${{ item }}'}\n",
        )
        .write("bad.yaml", "name: bad\ntasks:\n  t: {run: 'echo about to; exit 3', retry: {attempts: 2, delay: 1ms}}\n");
    let followed = scene.call(&["submit", "w.yaml", "--wait", "-i", "who=ada"]).expect(0);
    followed.says(&["one | hello ada", "two[1] | item b", "success"]);
    let failed = scene.call(&["submit", "bad.yaml", "--wait"]).expect(1);
    failed.says(&["t | about to", "attempt 1 failed", "exited with code 3", "failed"]);
    let report = scene.call(&["submit", "bad.yaml", "--wait", "-o", "json"]).expect(1).json();
    assert_eq!((&task(&report, "t")["exit_code"], &task(&report, "t")["attempts"]), (&json!(3), &json!(2)));
    scene.call(&["submit", "w.yaml", "-i", "nobody=x"]).expect(2).says(&["nobody"]);
    scene.refuses(&["submit", "w.yaml"]);
    assert!(!scene.away.path(".mainspring").exists(), "nothing is made where the command is called");

    let found = scene.json(&["runs", "list", "--status", "failed", "--since", "1h"]);
    assert_eq!(found["items"].as_array().unwrap().len(), 2);
    let ada = scene.json(&["runs", "list", "--workflow", "w", "--input", "who=ada"]);
    assert_eq!(ada["items"].as_array().unwrap().len(), 1);
    let bob = scene.json(&["runs", "list", "--since", "1h", "--input", "who=bob"]);
    assert_eq!(bob["items"], json!([]));
    scene.call(&["runs", "list", "--input", "who=ada"]).expect(2).says(&["--workflow NAME, or --since 24h"]);
    scene.call(&["runs", "list", "--workflow", "w", "--input", "who"]).expect(2).says(&["region=eu"]);
    let first = scene.json(&["runs", "list", "--limit", "1"]);
    let rest = scene.json(&["runs", "list", "--cursor", first["next"].as_str().unwrap()]);
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
    scene.call(&["runs", "list", "-o", "table"]).expect(0).says(&["RUN", "failed", "bad"]);
    scene.refuses(&["runs", "list"]);

    let run = scene.submit("w.yaml");
    let shown = scene.ended(&run);
    assert_eq!((&shown["status"], &shown["inputs"]), (&json!("success"), &json!({"who": "world"})));
    assert_eq!(shown["correlation_id"], json!(null));
    assert!(task(&shown, "two[0]")["worker_id"].is_string());
    scene.call(&["runs", "show", &run, "-o", "table"]).expect(0).says(&["default/w version 1", "two[1]", "success"]);
    scene.call(&["runs", "show", NOBODY]).expect(2).says(&["was not found", "mainspring runs list"]);
    scene.refuses(&["runs", "show", &run]);

    scene.call(&["runs", "logs", &run]).expect(0).says(&["one | hello world", "two[0] | item a"]);
    let one = scene.call(&["runs", "logs", &run, "two[1]"]).expect(0);
    assert_eq!(one.stdout, "item b\n");
    let items = scene.json(&["runs", "logs", &run, "one", "-o", "json"])["items"].clone();
    assert_eq!((&items[0]["message"], &items[0]["task_id"]), (&json!("hello world"), &json!("one")));
    scene.call(&["runs", "logs", &run, "tow"]).expect(2).says(&["did you mean `two`?"]);
    scene.call(&["runs", "logs", "-f", NOBODY]).expect(2).says(&["was not found"]);
    scene.refuses(&["runs", "logs", "-f", &run]);
}

#[test]
fn logs_are_followed_while_they_are_written() {
    let scene = Scene::new();
    let go_on = scene.home.fifo("go-on");
    scene.away.write(
        "w.yaml",
        "name: w\ntasks:\n  t: {run: 'echo first; read x < go-on; echo second; exit 1', cwd: ., retry: {attempts: 1}}\n\
         finally: {bye: {run: echo bye}}\n",
    );
    let run = scene.submit("w.yaml");
    let mut command = scene.away.command(&["runs", "logs", "--follow", &run]);
    let mut child = command.envs(scene.variables()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "t | first\n", "the line comes while the task runs");
    std::fs::write(go_on, "x\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "t | second\nbye | bye\n");
    assert_eq!(child.wait().unwrap().code(), Some(1), "the run has failed");
}

#[test]
fn runs_are_paused_cancelled_and_done_again() {
    let scene = Scene::new();
    let (begun, go_on) = (scene.home.fifo("begun"), scene.home.fifo("go-on"));
    scene
        .away
        .write(
            "long.yaml",
            "name: long\ntasks:\n  t: {run: 'echo x > begun; read x < go-on', cwd: .}\n  u: {needs: t, run: 'true'}\n",
        )
        .write(
            "mend.yaml",
            "name: mend\ntasks:\n  a: {run: 'true'}\n  b: {run: 'true'}\n  \
             t: {needs: [a, b], run: 'test -e mended', cwd: ., retry: {attempts: 1}}\n  u: {needs: t, run: 'true'}\n",
        );
    let run = scene.submit("long.yaml");
    hear(&begun);
    scene.refuses(&["runs", "pause", &run]);
    assert_eq!(scene.json(&["runs", "pause", &run])["status"], "paused");
    scene.call(&["runs", "pause", &run]).expect(2).says(&["only a running run can be paused"]);
    scene.call(&["runs", "resume", &run, "-o", "table"]).expect(0).says(&["goes on"]);
    std::fs::write(&go_on, "x\n").unwrap();
    assert_eq!(scene.ended(&run)["status"], "success");
    scene.call(&["runs", "cancel", &run, "-o", "table"]).expect(0).says(&["had ended before: success"]);

    let run = scene.submit("long.yaml");
    hear(&begun);
    scene.refuses(&["runs", "cancel", &run]);
    scene.call(&["runs", "cancel", &run, "--by", "ann", "--reason", "too late"]).expect(0);
    assert_eq!(scene.ended(&run)["status"], "cancelled");
    scene.call(&["runs", "show", &run, "-o", "table"]).expect(0).says(&["ann", "too late"]);
    scene.call(&["runs", "cancel", NOBODY]).expect(2).says(&["was not found"]);

    let run = scene.submit("mend.yaml");
    assert_eq!(scene.ended(&run)["status"], "failed");
    scene.home.write("mended", "");
    scene.refuses(&["runs", "retry", &run]);
    scene.call(&["runs", "retry", &run, "-o", "table"]).expect(0).says(&["does 2 tasks again"]);
    assert_eq!(scene.ended(&run)["status"], "success");
    scene.call(&["runs", "retry", &run]).expect(2).says(&["only a failed or cancelled run"]);

    std::fs::remove_file(scene.home.path("mended")).unwrap();
    let run = scene.submit("mend.yaml");
    scene.ended(&run);
    scene.home.write("mended", "");
    scene.call(&["runs", "rerun", &run, "--from", "aa"]).expect(2).says(&["did you mean `a`?"]);
    scene.refuses(&["runs", "rerun", &run, "--from", "a"]);
    scene.call(&["runs", "rerun", &run, "--from", "a", "--from", "b"]).expect(0);
    let shown = scene.ended(&run);
    assert_eq!((&task(&shown, "a")["attempt"], &task(&shown, "b")["attempt"]), (&json!(2), &json!(2)));
}

#[test]
fn workflows_are_compared_applied_and_triggered() {
    let scene = Scene::new();
    scene.away.write("w.yaml", "name: w\ninputs: {n: {type: integer, default: 1}}\ntasks: {say: {run: echo first}}\n");
    scene.call(&["diff", "w.yaml"]).expect(1).says(&["is not stored yet; w.yaml has 1 task"]);
    scene.call(&["apply", "w.yaml", "--dry-run", "-o", "table"]).expect(0).says(&["nothing was stored"]);
    scene.away.write("none.jsonl", "{\"workflow\": \"w\"}\n");
    scene.call(&["submit", "--batch", "none.jsonl"]).expect(2).says(&["0 runs were submitted, 1 was refused"]);
    scene.call(&["trigger", "w"]).expect(2).says(&["there is no workflow `w` in namespace `default`", "apply"]);
    scene.refuses(&["apply", "w.yaml"]);
    assert_eq!(scene.json(&["apply", "w.yaml"])["items"][0]["version"], 1);
    scene.call(&["apply", "w.yaml", "-o", "table"]).expect(0).says(&["w is at version 1, unchanged"]);
    scene.call(&["diff", "w.yaml"]).expect(0);

    scene.away.write(
        "w.yaml",
        "name: w\ninputs: {n: {type: integer, default: 1}}\ntasks: {say: {run: 'echo second ${{ inputs.n + 1 }}'}}\n",
    );
    scene.call(&["apply", "w.yaml", "--dry-run", "-o", "table"]).expect(0).says(&["~ task say", "nothing was stored"]);
    scene.call(&["apply", "w.yaml", "-o", "table"]).expect(0).says(&[
        "version 1 ->",
        "~ task say",
        "w is at version 2",
    ]);
    assert_eq!(scene.json(&["apply", "w.yaml"])["items"][0]["unchanged"], true);
    scene.away.write("broken.yaml", "name: x\ntask: {}\n");
    scene.call(&["apply", "w.yaml", "broken.yaml"]).expect(2).says(&["did you mean `tasks`?"]);

    scene.call(&["trigger", "w", "-i", "n=41", "--follow"]).expect(0).says(&["say | second 42"]);
    scene.call(&["trigger", "w", "-i", "n=x"]).expect(2).says(&["n"]);
    let run = scene.json(&["trigger", "w", "--idempotency-key", "k"]);
    assert_eq!(scene.json(&["trigger", "w", "--idempotency-key", "k"])["id"], run["id"]);
    scene.refuses(&["trigger", "w"]);

    // What the workflow brings along comes along.
    std::fs::create_dir(scene.away.path("lib")).unwrap();
    scene
        .away
        .write("lib/part.sh", "echo part one\n")
        .write("files.yaml", "name: files\nfiles: [lib]\ntasks: {t: {run: sh lib/part.sh}}\n");
    scene.call(&["submit", "files.yaml", "--wait"]).expect(0).says(&["t | part one"]);
    scene.away.write("lib/part.sh", "echo part two\n");
    assert_eq!(scene.json(&["apply", "files.yaml"])["items"][0]["version"], 2);
    scene.call(&["trigger", "files", "--follow"]).expect(0).says(&["t | part two"]);
    scene.call(&["apply", "-n", "other", "w.yaml"]).expect(0);
    scene.call(&["trigger", "w", "-n", "other", "--follow"]).expect(0);
    assert_eq!(scene.json(&["runs", "list", "-n", "other"])["items"].as_array().unwrap().len(), 1);
}

#[test]
fn what_waits_is_answered_and_what_is_kept_is_found() {
    let scene = Scene::new();
    scene.away.write(
        "gate.yaml",
        "name: gate\ntasks:\n  ask: {approval: {roles: [operator]}}\n  \
         bank: {needs: ask, wait: {event: bank.confirmed, key: '${{ run.id }}'}}\n  \
         outside: {needs: bank, wait: {result: true}}\n  \
         done: {needs: outside, run: 'echo ${{ tasks.outside.output.x }} > zanzibar.txt', artifacts: ['*.txt']}\n  \
         index: {needs: done, function: 'kb:reindex'}\n",
    );
    let run = scene.submit("gate.yaml");
    scene.until_waiting(&run, "ask");
    scene
        .call(&["tasks", "list", &run, "-o", "table"])
        .expect(0)
        .says(&["approval", "waits for an approval by operator"]);
    scene.refuses(&["tasks", "list", &run]);
    scene.call(&["tasks", "approve", &run, "nobody"]).expect(2).says(&["no task `nobody`"]);
    scene.call(&["tasks", "approve", &run, "ask", "--role", "viewer"]).expect(2).says(&["the roles of your token"]);
    scene.call(&["tasks", "deliver", &run, "ask", "--result", "{}"]).expect(2).says(&["does not wait for a result"]);
    scene.refuses(&["tasks", "approve", &run, "ask"]);
    scene.call(&["tasks", "approve", &run, "ask", "--by", "ann"]).expect(0);
    scene.until_waiting(&run, "bank");
    scene.refuses(&["events", "emit", "bank.confirmed", "--key", &run]);
    scene.call(&["events", "emit", "bank.confirmed", "--key", &run]).expect(0);
    scene.until_waiting(&run, "outside");
    scene.refuses(&["tasks", "deliver", &run, "outside", "--result", "{}"]);
    scene.call(&["tasks", "deliver", &run, "outside", "--result", "{\"x\": 42}"]).expect(0);
    assert_eq!(scene.ended(&run)["status"], "success");

    const FORTY_TWO: &str = "084c799cd551dd1d8d5c5f9a5d593b2e931f5e36122ee5c793c1d08a19839cc0";
    let kept = scene.json(&["runs", "artifacts", &run]);
    assert_eq!(kept["items"], json!([{"name": "done/1/zanzibar.txt", "bytes": 3, "sha256": FORTY_TWO}]));
    scene.call(&["runs", "artifacts", &run, "--get", "done/1/zanzibar.txt", "copy"]).expect(0);
    assert_eq!(std::fs::read_to_string(scene.away.path("copy")).unwrap(), "42\n");
    scene.call(&["runs", "artifacts", &run, "--get", "nothing", "x"]).expect(2).says(&["kept no file `nothing`"]);
    scene.refuses(&["runs", "artifacts", &run]);
    scene.call(&["search", "gate", "-o", "table"]).expect(0).says(&["workflow", "gate"]);
    scene.refuses(&["search", "gate"]);

    scene.call(&["pools", "set", "db", "--slots", "2", "-o", "table"]).expect(0).says(&["pool default/db has 2 slots"]);
    assert_eq!(scene.json(&["pools", "list"])["items"][0]["slots"], 2);
    scene.call(&["pools", "list", "-n", "other", "-o", "table"]).expect(0).says(&["no pools"]);
    scene.refuses(&["pools", "set", "db", "--slots", "3"]);
    scene.refuses(&["pools", "list"]);
}

#[test]
fn a_server_that_is_away_is_exit_3() {
    let Scene { away, server, url, token, .. } = Scene::new();
    server.kill();
    away.write("w.yaml", "name: w\ntasks: {}\n");
    let variables = [("MAINSPRING_SERVER", url.as_str()), ("MAINSPRING_TOKEN", token.as_str())];
    for arguments in [
        &["runs", "list"][..],
        &["runs", "show", NOBODY],
        &["runs", "logs", "-f", NOBODY],
        &["runs", "cancel", NOBODY],
        &["runs", "artifacts", NOBODY],
        &["submit", "w.yaml"],
        &["apply", "w.yaml"],
        &["apply", "w.yaml", "--dry-run"],
        &["diff", "w.yaml"],
        &["trigger", "w"],
        &["tasks", "list", NOBODY],
        &["tasks", "approve", NOBODY, "t"],
        &["pools", "list"],
        &["search", "w"],
        &["events", "emit", "x"],
    ] {
        away.call_with(arguments, &variables).expect(3).says(&["is not reachable", "--server"]);
    }
    away.call_with(&["runs", "list", "--database", "sqlite://x.db"], &variables)
        .expect(2)
        .says(&["no database file x.db"]);
}
