//! What a script is given and what it leaves: interpreters, files, artifacts, limits, masked secrets.

mod common;

use std::sync::Arc;

use common::{Rig, order, script, script_for};
use mainspring_core::work::{Bundle, BundleFile, Order, OrderAction, Outcome};
use mainspring_core::workflow::Limits;
use serde_json::json;

#[tokio::test]
async fn interpreters_are_found_and_given_the_script() {
    let mut rig = Rig::new();
    for (shell, text) in [
        ("bash", "a=(x y); echo \"v=${a[1]}$((1+1))\" > $MAINSPRING_OUTPUT"),
        ("sh", "echo v=y2 > $MAINSPRING_OUTPUT"),
        ("python3", "import os; open(os.environ['MAINSPRING_OUTPUT'], 'w').write('v=y2')"),
        ("/usr/bin/env python3 -u", "import os; open(os.environ['MAINSPRING_OUTPUT'], 'w').write('v=y2')"),
        ("'/usr/bin/env' \"sh\" -e {0}", "echo v=y2 > $MAINSPRING_OUTPUT"),
    ] {
        assert_eq!(rig.output(script_for(shell, text)).await, Some(json!({"v": "y2"})), "{shell}");
    }
    let failure = rig.failure(script_for("no-such-shell -x", "x")).await;
    assert!(failure.kind == "spawn" && failure.message.contains("install it"), "{failure:?}");
    let failure = rig.failure(script_for("python3 'open", "x")).await;
    assert!(failure.kind == "spawn" && failure.message.contains("never closed"), "{failure:?}");
    rig.until_swept().await;
}

fn file(path: &str, executable: bool, content: &str) -> BundleFile {
    BundleFile { path: path.into(), executable, content: content.into() }
}

#[tokio::test]
async fn files_stand_beside_the_script() {
    let mut rig = Rig::new();
    let bundle = Bundle {
        files: vec![
            file("extract.sh", true, "#!/bin/sh\necho rows=$(cat sql/n.txt)"),
            file("sql/n.txt", false, "3"),
            file("helper.py", false, "rows = 3"),
        ],
    };
    let with = |order: Order| Order { files: Some(Arc::new(bundle.clone())), ..order };
    let text = "./extract.sh > $MAINSPRING_OUTPUT; test -f $MAINSPRING_FILES/helper.py; test ! -x helper.py";
    assert_eq!(rig.output(with(script(text))).await, Some(json!({"rows": "3"})));
    let python = "import os, helper; open(os.environ['MAINSPRING_OUTPUT'], 'w').write(f'rows={helper.rows}')";
    assert_eq!(rig.output(with(script_for("python3", python))).await, Some(json!({"rows": "3"})));
    let within = OrderAction::Run { script: "cat n.txt".into(), shell: None, cwd: Some("sql".into()) };
    assert!(matches!(rig.run(with(order(within))).await, Outcome::Success { .. }));
    let elsewhere = OrderAction::Run {
        script: "ls; test -f $MAINSPRING_FILES/helper.py; test ! -e helper.py".into(),
        shell: None,
        cwd: Some("/".into()),
    };
    assert!(matches!(rig.run(with(order(elsewhere))).await, Outcome::Success { .. }));
    let hostile = Bundle { files: vec![file("../x", false, "")] };
    assert_eq!(rig.failure(Order { files: Some(Arc::new(hostile)), ..script("true") }).await.kind, "files");
    rig.until_swept().await;
}

#[tokio::test]
async fn artifacts_are_kept_of_successes_and_failures() {
    let mut rig = Rig::new();
    let with = |text: &str| Order { artifacts: vec!["out/".into(), "*.txt".into()], ..script(text) };
    for (text, fails) in [("", false), ("; exit 3", true)] {
        let text =
            format!("mkdir out; printf one > out/a; printf two > b.txt; ln -s /etc/passwd c.txt; touch no.csv{text}");
        rig.start(with(&text));
        let completion = rig.next().await;
        assert_eq!(matches!(completion.outcome, Outcome::Failed(_)), fails);
        let kept: Vec<(&str, Vec<u8>)> =
            completion.artifacts.iter().map(|artifact| (artifact.name.as_str(), common::content(artifact))).collect();
        assert_eq!(kept, [("b.txt", b"two".to_vec()), ("out/a", b"one".to_vec())]);
    }
    let failure = rig.failure(with("head -c 11000000 /dev/zero > big.txt; true")).await;
    assert!(failure.kind == "artifacts" && failure.message.contains("10 MiB"), "{failure:?}");
}

#[tokio::test]
async fn each_limit_bites_and_says_so() {
    let mut rig = Rig::new();
    let with = |limits: Limits, order: Order| Order { limits, ..order };
    let memory = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
    let failure = rig.failure(with(memory, script("x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}"))).await;
    assert!(failure.message.contains("its limit of 64 MiB of memory"), "{failure:?}");
    let files = Limits { files: Some(16), ..Limits::default() };
    let failure = rig.failure(with(files, script_for("python3", "x = [open('/dev/null') for _ in range(100)]"))).await;
    assert!(failure.message.contains("its limit of 16 open files"), "{failure:?}");
    let cpu = Limits { cpu_ms: Some(500), ..Limits::default() };
    let failure = rig.failure(with(cpu, script("while :; do :; done"))).await;
    assert!(failure.kind == "limit" && failure.message.contains("1 s of CPU time"), "{failure:?}");
    // The command comes as arguments, so nothing in it is read by the shell that sets the limits.
    let order = script_for(
        "sh -e {0} '$(exit 9)' '; exit 9'",
        "test \"$1\" = '$(exit 9)'; test \"$2\" = '; exit 9'; ulimit -v > $MAINSPRING_OUTPUT.x; echo v=$(ulimit -v) > $MAINSPRING_OUTPUT",
    );
    assert_eq!(rig.output(with(memory, order)).await, Some(json!({"v": "65536"})));
    let meddling = Order { env: vec![("BASH_FUNC_ulimit%%".into(), "() { :; }".into())], ..script("true") };
    assert_eq!(rig.failure(with(memory, meddling)).await.kind, "spawn");
}

#[tokio::test]
async fn secrets_are_masked_in_logs_errors_and_outputs() {
    let mut rig = Rig::new();
    let secrets = vec!["hunter22".to_owned(), "abc".into()];
    let env = vec![("S".to_owned(), "hunter22".to_owned())];
    let with = |text: &str| Order { secrets: secrets.clone(), env: env.clone(), ..script(text) };
    let output = rig.output(with("echo out $S abc; echo v=x$S > $MAINSPRING_OUTPUT")).await;
    assert_eq!(output, Some(json!({"v": "x***"})));
    rig.until_line("out *** abc").await;
    let failure = rig.failure(with("echo no $S >&2; exit 1")).await;
    assert_eq!(failure.detail.as_deref(), Some("no ***"));
    rig.until_line("no ***").await;
    assert!(!format!("{:?}", rig.lines()).contains("hunter22"));
}
