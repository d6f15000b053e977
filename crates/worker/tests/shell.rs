//! What a script sees and what its end means.

mod common;

use common::{Rig, assignment, eventually, order, script, script_for};
use mainspring_core::work::{LogStream, Order, OrderAction, Outcome};
use serde_json::json;

#[tokio::test]
async fn a_script_runs_to_its_end_and_leaves_nothing() {
    let mut rig = Rig::new();
    let text = "echo one; echo two >&2; touch file; echo rows=3 >> $MAINSPRING_OUTPUT";
    assert_eq!(rig.output(script(text)).await, Some(json!({"rows": "3"})));
    assert_eq!(rig.until_text(LogStream::Stdout, 1).await, ["one"]);
    assert_eq!(rig.until_text(LogStream::Stderr, 1).await, ["two"]);
    rig.until_swept().await;
}

#[tokio::test]
async fn a_completion_says_who_and_when() {
    let mut rig = Rig::new();
    let given = rig.start(script("true"));
    let completion = rig.next().await;
    assert_eq!((completion.key, completion.session, completion.attempt), (given.key, 7, 1));
    assert!(completion.started_at > 1_700_000_000_000_000 && completion.finished_at > completion.started_at);
    eventually("empty pool", || (rig.pool.running() == 0).then_some(())).await;
}

#[tokio::test]
async fn ends_become_failures_with_a_reason() {
    let mut rig = Rig::new();
    for (text, kind, message, code) in [
        ("exit 3", "exit", "exited with code 3", Some(3)),
        ("false", "exit", "exited with code 1", Some(1)),
        ("false\ntrue", "exit", "exited with code 1", Some(1)),
        ("false | true", "exit", "exited with code 1", Some(1)),
        ("kill -9 $$", "signal", "killed by signal 9 (SIGKILL)", None),
        ("kill -TERM $$", "signal", "killed by signal 15 (SIGTERM)", None),
        ("exit 126", "exit", "exited with code 126 (which usually means: not executable)", Some(126)),
        ("exit 127", "exit", "exited with code 127 (which usually means: command not found)", Some(127)),
    ] {
        let failure = rig.failure(script(text)).await;
        assert_eq!((failure.kind.as_str(), failure.message.as_str()), (kind, message), "{text}");
        assert_eq!((failure.exit_code, failure.permanent), (code, false), "{text}");
    }
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let mut rig = Rig::new();
    let big = "x".repeat(200_000);
    let with_env = |name: &str, value: &str| Order { env: vec![(name.into(), value.into())], ..script("true") };
    let in_directory =
        |cwd: &str| order(OrderAction::Run { script: "true".into(), shell: None, cwd: Some(cwd.into()) });
    for (order, message) in [
        (script("no-such-command --flag"), "command not found (exit code 127)"),
        (script("no-such-command | cat"), "no-such-command: command not found"),
        (script("./no-such-file"), "No such file"),
        (script_for("no-such-shell", "x"), "the shell `no-such-shell` does not exist in PATH"),
        (script_for("/no/such/shell", "x"), "the program `/no/such/shell` does not exist"),
        (script("true\0"), "NUL"),
        (with_env("A=B", "x"), "cannot be the name"),
        (with_env("", "x"), "cannot be the name"),
        (with_env("A", "x\0y"), "NUL"),
        (with_env("A", &big), "too large for the operating system"),
        (in_directory("/no/such/directory"), "the working directory `/no/such/directory` does not exist"),
    ] {
        let failure = rig.failure(order.clone()).await;
        assert_eq!(failure.kind, "spawn", "{failure:?}");
        assert!(failure.message.contains(message), "{}\n{message}", failure.message);
    }
    rig.until_swept().await;
}

#[tokio::test]
async fn the_last_lines_explain_a_failure() {
    let mut rig = Rig::new();
    let failure = rig.failure(script("seq 100000; echo the reason >&2; sleep 0.2; exit 1")).await;
    let detail = failure.detail.unwrap();
    assert!(detail.ends_with("the reason") && detail.contains("\n99999\n"), "{detail}");
    assert!(detail.chars().count() <= 10_000);
    assert_eq!(rig.failure(script("exit 1")).await.detail, None);
}

#[tokio::test]
async fn nothing_of_the_workers_environment_leaks() {
    let mut rig = Rig::new();
    // Cargo gives this one to the test; it stands for a database URL.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let order = Order {
        env: vec![
            ("GREETING".into(), "one".into()),
            ("GREETING".into(), "two words; $(x)".into()),
            ("MAINSPRING_ATTEMPT".into(), "99".into()),
        ],
        ..script("env -0 | sort -z | tr '\\n\\0' ' \\n'; cat /proc/self/environ >/dev/null; read line || echo eof")
    };
    let given = rig.start(order);
    assert!(matches!(rig.next().await.outcome, Outcome::Success { .. }));
    rig.until_line("eof").await;
    let lines: Vec<String> = rig.lines().into_iter().map(|line| line.text).collect();
    let key = given.key.to_string();
    for expected in [
        "GREETING=two words; $(x)".to_owned(),
        format!("MAINSPRING_RUN_ID={}", given.key.run),
        format!("MAINSPRING_TASK_ID={key}"),
        format!("MAINSPRING_IDEMPOTENCY_KEY={key}.g1"),
        "MAINSPRING_TASK=task".into(),
        "MAINSPRING_WORKFLOW=test".into(),
        "MAINSPRING_NAMESPACE=default".into(),
        "MAINSPRING_ATTEMPT=1".into(),
        "MAINSPRING_FENCING_TOKEN=7.1".into(),
    ] {
        assert!(lines.contains(&expected), "{expected} is not in {lines:#?}");
    }
    // The last four are bash's own.
    let allowed = ["GREETING", "MAINSPRING_", "_", "PWD", "SHLVL", "OLDPWD"];
    for line in lines.iter().filter(|line| *line != "eof") {
        let name = line.split('=').next().unwrap();
        let known = mainspring_worker::DEFAULT_ENVIRONMENT.contains(&name);
        assert!(known || allowed.iter().any(|allowed| name.starts_with(allowed)), "{line}");
    }
}

#[tokio::test]
async fn a_plain_command_sees_the_same_environment() {
    let mut rig = Rig::new();
    assert_eq!(rig.output(script("env")).await, None);
    rig.until_line("MAINSPRING_OUTPUT=").await;
    let lines = rig.lines();
    assert!(lines.iter().any(|line| line.text == "MAINSPRING_TASK=task"));
    assert!(!lines.iter().any(|line| line.text.starts_with("CARGO")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.text.starts_with("SHLVL")), "no shell was needed");
}

#[tokio::test]
async fn scripts_run_where_they_should() {
    let mut rig = Rig::new();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("here"), "").unwrap();
    let cwd = Some(directory.path().to_str().unwrap().to_owned());
    let action = OrderAction::Run { script: "ls; echo place=$PWD > $MAINSPRING_OUTPUT".into(), shell: None, cwd };
    let output = rig.output(order(action)).await.unwrap();
    assert_eq!(output["place"], directory.path().to_str().unwrap());
    assert_eq!(rig.until_text(LogStream::Stdout, 1).await, ["here"]);
    assert!(directory.path().exists(), "a directory that was given is not ours to remove");
    let private = rig.output(script("ls -A; echo place=$PWD > $MAINSPRING_OUTPUT")).await.unwrap();
    let place = std::path::Path::new(private["place"].as_str().unwrap());
    assert!(place.starts_with(rig.root.path()));
    let mode = std::fs::metadata(place.parent().unwrap()).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700, "outputs are for their owner only");
    assert_eq!(rig.until_text(LogStream::Stdout, 1).await.len(), 1, "a private directory begins empty");
    rig.until_swept().await;
}

#[tokio::test]
async fn a_directory_is_used_again_only_if_it_was_left_as_it_was() {
    let mut rig = Rig::new();
    let mut place = async |text: &str| rig.output(script(text)).await.unwrap()["place"].clone();
    let first = place("echo place=$PWD > $MAINSPRING_OUTPUT").await;
    assert_eq!(place("touch file; echo place=$PWD > $MAINSPRING_OUTPUT").await, first);
    let second = place("ls -A | wc -l; chmod 755 .; echo place=$PWD > $MAINSPRING_OUTPUT").await;
    assert_ne!(second, first);
    let third = place("sleep 1000 >/dev/null 2>&1 & echo place=$PWD > $MAINSPRING_OUTPUT").await;
    assert_ne!(third, second);
    let fourth = place("rmdir $PWD; echo place=$PWD > $MAINSPRING_OUTPUT").await;
    assert_ne!(fourth, third);
    assert_ne!(place("echo place=$PWD > $MAINSPRING_OUTPUT").await, fourth);
}

#[tokio::test]
async fn any_program_can_read_a_script() {
    let mut rig = Rig::new();
    for (shell, text) in [
        ("bash", "[[ $0 == bash ]]; declare -A map=([a]=1); echo v=${map[a]} >> $MAINSPRING_OUTPUT"),
        ("sh", "echo v=1 >> $MAINSPRING_OUTPUT"),
        ("python3", "import os\nopen(os.environ['MAINSPRING_OUTPUT'], 'a').write('v=1')"),
        ("awk -f", "BEGIN { print \"v=1\" >> ENVIRON[\"MAINSPRING_OUTPUT\"] }"),
        ("bash {0} argument", "echo v=${#1} | sed s/8/1/ >> $MAINSPRING_OUTPUT"),
    ] {
        assert_eq!(rig.output(script_for(shell, text)).await, Some(json!({"v": "1"})), "{shell}");
    }
    // Too long for an argument.
    let long = format!(": {}\necho v=1 >> $MAINSPRING_OUTPUT", "x".repeat(300_000));
    assert_eq!(rig.output(script(&long)).await, Some(json!({"v": "1"})));
    rig.until_swept().await;
}

#[tokio::test]
async fn a_variable_can_change_what_a_word_means() {
    let mut rig = Rig::new();
    let function = ("BASH_FUNC_true%%".to_owned(), "() { echo v=function >> $MAINSPRING_OUTPUT; }".to_owned());
    let order = Order { env: vec![function], ..script("true") };
    assert_eq!(rig.output(order).await, Some(json!({"v": "function"})));
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("true");
    std::fs::write(&program, "echo v=path >> $MAINSPRING_OUTPUT").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let own = |path: &str| Order { env: vec![("PATH".into(), path.into())], ..script("true") };
    assert_eq!(rig.output(own("/usr/bin:/bin")).await, None);
    // A file without `#!` is for the shell to read, and for bash `true` is its own.
    assert_eq!(rig.output(own(&path)).await, None);
}

#[tokio::test]
async fn a_large_output_fails_and_is_not_read() {
    let mut rig = Rig::new();
    let before = common::memory("VmRSS");
    let failure = rig.failure(script("head -c 50000000 /dev/zero > $MAINSPRING_OUTPUT")).await;
    assert_eq!(failure.kind, "output");
    assert!(failure.message.contains("50000000 bytes is larger than 1 MiB"), "{}", failure.message);
    assert!(common::memory("VmRSS") < before + 40_000_000);
    let fits = "printf 'v=' > $MAINSPRING_OUTPUT; head -c 1048574 /dev/zero | tr '\\0' x >> $MAINSPRING_OUTPUT";
    let output = rig.output(script(fits)).await.unwrap();
    assert_eq!(output["v"].as_str().unwrap().len(), 1_048_574);
    let failure = rig.failure(script("echo nonsense > $MAINSPRING_OUTPUT")).await;
    assert!(failure.message.contains("line 1 of the output"), "{}", failure.message);
    rig.until_swept().await;
}

#[tokio::test]
async fn lines_come_with_time_and_stream_while_the_script_runs() {
    let mut rig = Rig::new();
    let gate = rig.root.path().join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let text = format!("echo first; echo second >&2; cat {}; echo third; printf last >&2", gate.display());
    rig.start(script(&text));
    rig.until_line("first").await;
    rig.until_line("second").await;
    assert!(rig.completions.try_recv().is_err(), "it still waits at the gate");
    tokio::task::spawn_blocking(move || std::fs::write(gate, "open\n").unwrap()).await.unwrap();
    let completion = rig.next().await;
    let lines = rig.until_lines(|lines| lines.len() == 5).await;
    let of = |stream| -> Vec<_> { lines.iter().filter(|l| l.stream == stream).map(|l| l.text.as_str()).collect() };
    assert_eq!(of(LogStream::Stdout), ["first", "open", "third"]);
    assert_eq!(of(LogStream::Stderr), ["second", "last"]);
    assert!(lines.is_sorted_by_key(|line| line.at));
    assert!(lines[0].at >= completion.started_at && lines[4].at <= completion.finished_at);
}

#[tokio::test]
async fn an_attempt_delivered_twice_runs_once() {
    let mut rig = Rig::new();
    let file = rig.root.path().join("effects");
    let given = assignment(script(&format!("echo x >> {}; sleep 0.1", file.display())));
    rig.pool.assign(vec![given.clone(), given.clone()]);
    rig.next().await;
    rig.pool.shutdown(common::DEADLINE).await;
    assert!(rig.completions.try_recv().is_err());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n");
}

#[tokio::test]
async fn a_report_says_whether_there_is_a_log_to_wait_for() {
    let mut rig = Rig::new();
    for (text, logged) in
        [("true", false), ("echo something", true), ("echo wrong >&2; exit 3", true), ("exit 3", false)]
    {
        rig.start(script(text));
        assert_eq!(rig.next().await.logged, logged, "{text}");
    }
}
