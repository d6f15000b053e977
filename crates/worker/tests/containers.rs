//! Scripts in container images, by the real podman and an image made here of Debian's busybox: nothing is fetched.
//! `scripts/test-programs` installs both.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::process::{as_process, is_process};
use common::{Rig, eventually, order, script};
use mainspring_core::work::{
    ArtifactReader, ArtifactSource, IncomingFile, Order, OrderAction, Outcome, ProcessOrder, SourceFuture, StepOrder,
    Transfer,
};
use mainspring_core::workflow::{Container, Pull};
use mainspring_worker::{CancelReason, PoolConfig, Registry, watchdog};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

const IMAGE: &str = "localhost/mainspring-busybox:test";
const LEASE: Duration = Duration::from_secs(3);
const PROGRAMS: [&str; 12] = ["sh", "echo", "cat", "sleep", "id", "pwd", "env", "ls", "head", "yes", "true", "tr"];

/// Podman, told what a machine inside another may need: limits that are not raised, and a runtime that bears both kinds
/// of control groups.
const ENGINE: &str = r#"#!/bin/sh
runtime=$(command -v runc || command -v crun)
if [ "$1" = run ]; then
    shift
    set -- run --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 "$@"
fi
exec podman --runtime "$runtime" "$@"
"#;

fn podman(arguments: &[&str]) -> String {
    let output = Command::new("podman").args(arguments).output().expect("podman: run scripts/test-programs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The engine, with the image at hand.
fn engine() -> PathBuf {
    static MADE: std::sync::OnceLock<(tempfile::TempDir, PathBuf)> = std::sync::OnceLock::new();
    let (_, path) = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine");
        std::fs::write(&path, ENGINE).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        make_image(folder.path());
        (folder, path)
    });
    path.clone()
}

fn make_image(folder: &Path) {
    let lock = std::fs::File::create(std::env::temp_dir().join("mainspring-busybox.lock")).unwrap();
    lock.lock().unwrap();
    let exists =
        Command::new("podman").args(["image", "exists", IMAGE]).status().expect("podman: run scripts/test-programs");
    if exists.success() {
        return;
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    let root = folder.join("root");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::create_dir_all(root.join("tmp")).unwrap();
    std::fs::copy(busybox.expect("busybox-static: run scripts/test-programs"), root.join("bin/busybox")).unwrap();
    for program in PROGRAMS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(program)).unwrap();
    }
    let archive = folder.join("image.tar");
    let tar = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status().unwrap();
    assert!(tar.success());
    let imported =
        Command::new("podman").arg("import").arg(&archive).arg(IMAGE).stdout(Stdio::null()).status().unwrap();
    assert!(imported.success(), "the image cannot be made");
}

fn config() -> PoolConfig {
    PoolConfig { container_engine: Some(engine()), grace: Duration::from_millis(300), ..PoolConfig::default() }
}

fn rig() -> Rig {
    Rig::with(config(), Registry::default())
}

fn image() -> Container {
    Container { pull: Pull::Never, network: Some("none".into()), ..Container::new(IMAGE.into()) }
}

fn within(container: Container, order: Order) -> Order {
    let process = ProcessOrder { container: Some(Box::new(container)), ..ProcessOrder::default() };
    Order { process, ..order }
}

/// Names of the containers of a pool, dead or alive.
fn containers(root: &Path) -> Vec<String> {
    let pool = std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("mainspring-"));
    let Some(pool) = pool else { return Vec::new() };
    let filter = format!("label=mainspring.worker={}", pool.path().display());
    podman(&["ps", "-a", "--filter", &filter, "--format", "{{.Names}}"]).lines().map(str::to_owned).collect()
}

async fn until_container(root: &Path) -> String {
    eventually("a container", || containers(root).into_iter().next()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_in_its_image_with_variables_folder_output_and_files() {
    let mut rig = rig();
    let text = "echo \"$GREETING from $(pwd)\"; cat /bin/sh > /dev/null; ls /etc 2>&1; echo made > left.txt; echo \"who=$(id -u)\" >> $MAINSPRING_OUTPUT";
    let order = Order {
        env: vec![("GREETING".into(), "hello\nthere".into()), ("HOME".into(), "/tmp".into())],
        artifacts: vec!["*.txt".into()],
        ..within(image(), script(text))
    };
    rig.start(order);
    let completion = rig.next().await;
    assert_eq!(completion.outcome, Outcome::Success { output: Some(json!({"who": "0"})) }, "{:?}", rig.lines());
    assert_eq!(completion.artifacts.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["left.txt"]);
    rig.until_line("there from /mainspring/work").await;
    assert!(containers(rig.root.path()).is_empty());

    let failure = rig.failure(within(image(), script("exit 7"))).await;
    assert_eq!((failure.kind.as_str(), failure.exit_code), ("exit", Some(7)), "{failure:?}");
    let user =
        Container { user: Some("1000:1000".into()), memory_bytes: Some(64 << 20), cpu_millis: Some(500), ..image() };
    let output = rig.output(within(user, script("echo \"who=$(id -u)\" >> $MAINSPRING_OUTPUT; echo x > file"))).await;
    assert_eq!(output, Some(json!({"who": "1000"})));
}

/// One file of another task.
#[derive(Debug)]
struct Hello;

struct Once(Option<Vec<u8>>);

impl ArtifactReader for Once {
    fn next(&mut self) -> SourceFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { Ok(self.0.take()) })
    }
}

impl ArtifactSource for Hello {
    fn open<'a>(&'a self, _: Transfer, _: &'a IncomingFile) -> SourceFuture<'a, Box<dyn ArtifactReader>> {
        Box::pin(async { Ok(Box::new(Once(Some(b"hello".to_vec()))) as Box<dyn ArtifactReader>) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_sees_files_of_other_tasks() {
    let mut rig = rig();
    rig.pool.fetch_artifacts_from(std::sync::Arc::new(Hello));
    let mut order = within(image(), script("echo \"said=$(cat dist/a)\" >> $MAINSPRING_OUTPUT"));
    order.process.incoming = vec![IncomingFile {
        task_run_id: "0190a1b2-0000-7000-8000-000000000001.0".parse().unwrap(),
        attempt: 1,
        name: "dist/a".into(),
        path: "dist/a".into(),
        executable: false,
        bytes: 5,
        sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".into(),
        cached: false,
    }];
    assert_eq!(rig.output(order).await, Some(json!({"said": "hello"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_runs_its_own_command_and_steps_share_the_folder() {
    let mut rig = rig();
    let command = Container { command: vec!["echo".into(), "by itself".into()], ..image() };
    rig.output(within(command, script(""))).await;
    rig.until_line("by itself").await;
    let step = |name: &str, script: &str| StepOrder {
        name: name.into(),
        skipped: false,
        script: script.into(),
        shell: None,
        cwd: None,
        env: Vec::new(),
        continue_on_error: false,
    };
    let steps = vec![step("one", "echo 1 > file"), step("two", "echo \"n=$(cat file)\" >> $MAINSPRING_OUTPUT")];
    let output = rig.output(within(image(), order(OrderAction::Steps { steps, cwd: None }))).await;
    assert_eq!(output, Some(json!({"n": "1"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why() {
    let mut rig = rig();
    let unknown = Container { image: "localhost/there-is-no-such-image:1".into(), ..image() };
    let failure = rig.failure(within(unknown, script("true"))).await;
    assert_eq!(failure.kind, "container", "{failure:?}");
    assert!(failure.message.contains("there-is-no-such-image"), "{}", failure.message);
    let mut without = Rig::new();
    let failure = without.failure(within(image(), script("true"))).await;
    assert!(failure.message.contains("no container engine") && failure.permanent, "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_container_survives_a_cancel_a_timeout_or_the_end_of_its_engine() {
    let mut rig = rig();
    let endless = || within(image(), script("trap '' TERM; echo begun; sleep 1000"));
    let assignment = rig.start(endless());
    until_container(rig.root.path()).await;
    rig.until_line("begun").await;
    rig.pool.cancel(assignment.key, assignment.attempt, CancelReason::Requested("not wanted".into()));
    assert!(matches!(rig.next().await.outcome, Outcome::Cancelled { .. }));
    assert!(containers(rig.root.path()).is_empty(), "after a cancel");

    let failure = rig.failure(Order { timeout_ms: Some(1_500), ..endless() }).await;
    assert_eq!(failure.kind, "timeout");
    assert!(containers(rig.root.path()).is_empty(), "after a timeout");

    rig.start(endless());
    let name = until_container(rig.root.path()).await;
    let find = || podman_run(&name);
    let client = eventually("the engine's process", find).await;
    kill(Pid::from_raw(client), Signal::SIGKILL).unwrap();
    assert!(matches!(rig.next().await.outcome, Outcome::Failed(_)));
    assert!(containers(rig.root.path()).is_empty(), "after the end of its engine");
}

/// The process of `podman run --name NAME`.
fn podman_run(name: &str) -> Option<i32> {
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let is_run = words.contains(&b"run".as_slice()) && words.contains(&name.as_bytes());
        is_run.then_some(id)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_is_bounded() {
    prints(50_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_a_gigabyte_of_output_is_bounded() {
    prints(1_000_000_000).await;
}

async fn prints(bytes: u64) {
    let mut rig = rig();
    let text = format!("yes 0123456789012345678901234567890123456789 | head -c {bytes}");
    let outcome = rig.run(within(image(), script(&text))).await;
    assert!(matches!(outcome, Outcome::Success { .. }), "{outcome:?}");
    rig.until_line("output truncated").await;
    assert!(containers(rig.root.path()).is_empty());
}

#[test]
#[ignore = "a process that other tests start"]
fn watchdog_process() {
    if is_process("watchdog_process") {
        watchdog::main().unwrap();
    }
}

#[test]
#[ignore = "a process that other tests start"]
fn worker_process() {
    if !is_process("worker_process") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = PathBuf::from(std::env::var_os("ENGINE").unwrap());
        let guarded = PoolConfig {
            watchdog: Some(as_process("watchdog_process")),
            lease_ttl: LEASE,
            container_engine: Some(engine),
            ..PoolConfig::default()
        };
        let mut rig = Rig::with(guarded, Registry::default());
        std::fs::write(std::env::var("ROOT").unwrap(), rig.root.path().to_str().unwrap()).unwrap();
        rig.start(within(image(), script("trap '' TERM; sleep 1000")));
        rig.next().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn no_container_survives_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("root");
    let command = as_process("worker_process");
    let mut worker = Command::new(&command[0]);
    worker.args(&command[1..]).env("ROOT", &place).env("ENGINE", engine()).stdout(Stdio::null());
    let mut worker = worker.spawn().unwrap();
    let root = eventually("the worker", || std::fs::read_to_string(&place).ok().filter(|text| !text.is_empty())).await;
    let name = until_container(Path::new(&root)).await;
    kill(Pid::from_raw(worker.id().cast_signed()), Signal::SIGKILL).unwrap();
    let killed = std::time::Instant::now();
    worker.wait().unwrap();
    eventually("removal of the container", || {
        let filter = format!("name={name}");
        podman(&["ps", "-aq", "--filter", &filter]).trim().is_empty().then_some(())
    })
    .await;
    // The watchdog sees the end of its worker at once; the engine takes a moment on a busy machine.
    let took = killed.elapsed();
    assert!(took < LEASE * 4, "the container outlived its attempt's lease ({LEASE:?}): {took:?}");
}
