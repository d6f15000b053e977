//! No process of a task outlives its worker. The worker and its watchdog are this very binary, started again.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use common::process::{as_process, is_process};
use common::{Rig, eventually, is_running, script, until_gone, until_pids};
use mainspring_core::work::Order;
use mainspring_worker::{PoolConfig, Registry, watchdog};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
#[ignore = "a process that other tests start"]
fn watchdog_process() {
    if is_process("watchdog_process") {
        watchdog::main().unwrap();
    }
}

/// A worker with one task that writes the ids of its processes to a file.
#[test]
#[ignore = "a process that other tests start"]
fn worker_process() {
    if !is_process("worker_process") {
        return;
    }
    let pids = std::env::var("PIDS").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let config = PoolConfig { lease_ttl: Duration::from_secs(3), ..guarded() };
        let mut rig = Rig::with(config, Registry::default());
        std::fs::write(std::env::var("ROOT").unwrap(), rig.root.path().to_str().unwrap()).unwrap();
        let text = "trap '' TERM; sleep 1000 & touch file; printf '%s\n%s\n' $$ $! > $PIDS; wait";
        rig.start(Order { env: vec![("PIDS".into(), pids)], ..script(text) });
        rig.next().await;
    });
}

fn guarded() -> PoolConfig {
    PoolConfig { watchdog: Some(as_process("watchdog_process")), ..PoolConfig::default() }
}

struct Worker {
    process: Child,
    pids: Vec<i32>,
    root: PathBuf,
}

impl Worker {
    async fn start(directory: &Path) -> Self {
        let command = as_process("worker_process");
        let (pids, root) = (directory.join("pids"), directory.join("root"));
        let mut process = Command::new(&command[0]);
        process.args(&command[1..]).env("PIDS", &pids).env("ROOT", &root).stdout(Stdio::null());
        let process = process.spawn().unwrap();
        let pids = until_pids(&pids, 2).await;
        Self { process, pids, root: std::fs::read_to_string(root).unwrap().into() }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }
}

#[tokio::test]
async fn processes_die_with_a_killed_worker() {
    let directory = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(directory.path()).await;
    assert!(worker.pids.iter().all(|pid| is_running(*pid)));
    worker.signal(Signal::SIGKILL);
    for pid in &worker.pids {
        until_gone(*pid).await;
    }
    worker.process.wait().unwrap();
    let is_empty = || std::fs::read_dir(&worker.root).ok()?.next().is_none().then_some(());
    eventually("removal of the working directories", is_empty).await;
    std::fs::remove_dir(&worker.root).unwrap();
}

#[tokio::test]
async fn processes_die_while_their_worker_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(directory.path()).await;
    worker.signal(Signal::SIGSTOP);
    for pid in &worker.pids[1..] {
        until_gone(*pid).await;
    }
    worker.signal(Signal::SIGCONT);
    // Its task has ended by SIGKILL; nothing else was asked of it.
    let ended = || worker.process.try_wait().unwrap();
    assert!(eventually("end of the worker", ended).await.success());
}

/// A watchdog whose pipe is in our hand, and a process group for it to guard.
fn watchdog_alone() -> (Child, ChildStdin, Child) {
    let command = as_process("watchdog_process");
    let mut process = Command::new(&command[0]);
    std::os::unix::process::CommandExt::process_group(&mut process, 0);
    let mut dog = process.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pipe = dog.stdin.take().unwrap();
    let mut sleeper = Command::new("sleep");
    std::os::unix::process::CommandExt::process_group(&mut sleeper, 0);
    (dog, pipe, sleeper.arg("1000").spawn().unwrap())
}

#[tokio::test]
async fn a_silent_store_is_noticed_even_if_the_worker_is_alive() {
    let (mut dog, mut pipe, mut sleeper) = watchdog_alone();
    let group = sleeper.id();
    writeln!(pipe, "+{group} 200\nalive 600000\nbeat").unwrap();
    eventually("end of the group", || sleeper.try_wait().unwrap()).await;
    assert_eq!(dog.try_wait().unwrap(), None, "it goes on watching");
    drop(pipe);
    assert!(dog.wait().unwrap().success());
}

#[tokio::test]
async fn signals_for_the_worker_are_not_for_its_watchdog() {
    let (input, mut pipe) = std::io::pipe().unwrap();
    let dog = std::thread::Builder::new().name("dog".into()).spawn(|| watchdog::run(input.into()).unwrap()).unwrap();
    let blocked = || {
        let threads = std::fs::read_dir("/proc/self/task").ok()?.flatten();
        let mut statuses = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
        let status = statuses.find(|status| status.starts_with("Name:\tdog\n"))?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        let ignored = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
        ignored.iter().all(|signal| mask & (1 << (*signal as u64 - 1)) != 0).then_some(())
    };
    eventually("blocked signals", blocked).await;
    writeln!(pipe, "nonsense\n+0\n+1\n+-1").unwrap();
    drop(pipe);
    dog.join().unwrap();
}

#[tokio::test]
async fn only_groups_that_have_not_ended_are_killed() {
    let (mut dog, mut pipe, mut sleeper) = watchdog_alone();
    let (_, _, mut spared) = watchdog_alone();
    writeln!(pipe, "+{}\n+{}\nalive 600000\n-{}", sleeper.id(), spared.id(), spared.id()).unwrap();
    drop(pipe);
    assert!(dog.wait().unwrap().success());
    assert!(!sleeper.wait().unwrap().success());
    assert_eq!(spared.try_wait().unwrap(), None);
    spared.kill().unwrap();
    spared.wait().unwrap();
}

#[tokio::test]
async fn what_was_started_but_not_announced_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (mut dog, mut pipe, mut unmarked) = watchdog_alone();
    let sleeper = |output: PathBuf| {
        let mut sleeper = Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(&mut sleeper, 0);
        sleeper.arg("1000").env("MAINSPRING_OUTPUT", output).spawn().unwrap()
    };
    let mut ours = sleeper(directory.path().join("1.output"));
    let mut theirs = sleeper(directory.path().with_extension("other").join("1.output"));
    writeln!(pipe, "directory {}\nalive 600000", directory.path().display()).unwrap();
    drop(pipe);
    assert!(dog.wait().unwrap().success());
    assert!(!ours.wait().unwrap().success());
    for spared in [&mut unmarked, &mut theirs] {
        assert_eq!(spared.try_wait().unwrap(), None);
        spared.kill().unwrap();
        spared.wait().unwrap();
    }
}

/// The watchdog of a worker, among its children.
fn watchdog_of(worker: &Worker) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", worker.process.id())).ok()?.flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<i32> =
        children.flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
    let cmdline = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.into_iter().find(|pid| is_running(*pid) && cmdline(pid).contains("watchdog_process"))
}

/// How much a process has read so far.
fn bytes_read(pid: i32) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

#[tokio::test]
async fn a_dead_watchdog_is_replaced_by_one_that_knows_what_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(directory.path()).await;
    let first = eventually("a watchdog", || watchdog_of(&worker)).await;
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    let second = eventually("another watchdog", || watchdog_of(&worker).filter(|pid| *pid != first)).await;
    // Groups are announced before the first sign of life that comes alone, so having read one means knowing them.
    let pulse = "alive 6000\n".len() as u64;
    let mut seen = bytes_read(second).unwrap();
    eventually("a sign of life", || {
        let now = bytes_read(second).unwrap();
        (now - std::mem::replace(&mut seen, now) == pulse).then_some(())
    })
    .await;
    assert!(worker.pids.iter().all(|pid| is_running(*pid)));
    worker.signal(Signal::SIGKILL);
    for pid in &worker.pids {
        until_gone(*pid).await;
    }
    worker.process.wait().unwrap();
    until_gone(second).await;
    std::fs::remove_dir_all(&worker.root).unwrap();
}
