//! A task cannot read its worker's environment, although both are the same user. The worker is this binary, started again
//! as an ordinary user: root may read everything.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{Rig, script};
use mainspring_worker::{PoolConfig, Registry, close_inherited};

const NOBODY: u32 = 65_534;

#[test]
#[ignore = "a process that other tests start"]
fn worker_process() {
    let Ok(hide) = std::env::var("HIDE") else { return };
    close_inherited(|_| false).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let config = PoolConfig { hide_process: hide == "yes", ..PoolConfig::default() };
        let mut rig = Rig::with(config, Registry::default());
        let text =
            "for file in environ mem fd/0 cwd/x; do head -c 1 /proc/$PPID/$file > /dev/null && echo open $file; done
            tr '\\0' '\\n' < /proc/$PPID/environ | grep DATABASE_URL || true
            grep -l DATABASE_URL /proc/[0-9]*/environ || true
            ls -l /proc/self/fd | grep -c -- '->' | sed s/^/descriptors/
            ls -l /proc/self/fd; echo done";
        rig.run(script(text)).await;
        rig.until_line("done").await;
        let seen: Vec<String> = rig.lines().into_iter().map(|line| line.text).collect();
        std::fs::write(std::env::var("SEEN").unwrap(), seen.join("\n")).unwrap();
    });
}

/// What a task saw of its worker.
fn seen(hide: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = directory.path().join("worker");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = directory.path().join("seen");
    // The process that starts a worker may have left descriptors open.
    let mut command = Command::new("bash");
    command.args(["-c", "exec 7</dev/zero 9>/dev/full; exec \"$0\" \"$@\""]).arg(program);
    command.args(["--exact", "worker_process", "--ignored"]).current_dir("/").env_clear();
    command.env("PATH", "/usr/bin:/bin").env("DATABASE_URL", "postgres://user:password@host/db");
    command.env("HIDE", hide).env("SEEN", &file);
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::read_to_string(file).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn the_workers_environment_is_closed_to_its_tasks() {
    let open = seen("no");
    assert!(open.contains("DATABASE_URL=postgres://"), "the trial shows what it should: {open}");
    let hidden = seen("yes");
    assert!(hidden.contains("done") && !hidden.contains("DATABASE_URL=") && !hidden.contains("\nopen "), "{hidden}");
    assert!(!hidden.contains("\n/proc/"), "{hidden}");
    assert!(hidden.contains("descriptors4\n"), "three streams and the folder being listed: {hidden}");
}
