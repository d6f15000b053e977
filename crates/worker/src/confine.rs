//! Keeps tasks away from what belongs to the server: its database file, keys, tokens, and the folders of other tasks.
//!
//! Tasks run on the machine of their worker, and on a single node that is the machine of the server. Landlock restricts the
//! thread that asks for it, and every process inherits the restrictions of the thread that starts it. So each task is started
//! by a thread that first gives up what is hidden, starts the process, and ends. Landlock knows only what is allowed, so
//! everything is, except the folders on the way to what is hidden: what lies beside them is allowed one by one, as it is at
//! that moment.
//!
//! What a task cannot do then: read, write or execute anything hidden; make files directly in a folder that holds something
//! hidden; signal or trace processes that are not its own; gain rights by setuid programs such as sudo.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use nix::unistd::User;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// How tasks are kept apart from the server.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// Files and folders that tasks must not see; nothing is hidden where the system has no Landlock.
    pub hidden: Vec<PathBuf>,
    /// The account that tasks run as; the worker's own unless given.
    pub user: Option<Account>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
}

impl Account {
    /// The account of this name on this system.
    pub fn named(name: &str) -> std::io::Result<Option<Self>> {
        let user = User::from_name(name)?;
        Ok(user.map(|user| Self { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw(), home: user.dir }))
    }
}

impl Confinement {
    /// Starts a command that cannot reach what is hidden, except for `allowed`. Needs a tokio runtime.
    pub(crate) fn spawn(&self, command: &mut Command, allowed: &[&Path]) -> io::Result<Child> {
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid);
        }
        if self.hidden.is_empty() {
            return command.spawn();
        }
        let runtime = Handle::current();
        in_restricted_thread(&self.hidden, allowed, || {
            let _entered = runtime.enter();
            command.spawn()
        })
    }
}

/// Whether this system can hide files from a process, found out by a thread that tries.
pub fn is_available() -> bool {
    in_restricted_thread(&[PathBuf::from("/nonexistent/mainspring")], &[], || Ok(())).is_ok()
}

/// Calls `act` in a thread that has given up what is hidden, and that ends with it.
fn in_restricted_thread<T: Send>(
    hidden: &[PathBuf],
    allowed: &[&Path],
    act: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        let restricted = move || {
            if !hide(hidden, allowed).map_err(io::Error::other)? {
                return Err(io::Error::other("this system cannot hide files from a process (Landlock)"));
            }
            act()
        };
        let started = thread::Builder::new().name("start-task".into()).spawn_scoped(scope, restricted)?;
        started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Hides files and folders from this thread and the processes that it starts; false where the system cannot.
#[cfg(target_os = "linux")]
fn hide(hidden: &[PathBuf], allowed: &[&Path]) -> Result<bool, String> {
    use landlock::{
        ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    };
    const KNOWN: ABI = ABI::V6;
    let describe = |error: landlock::RulesetError| format!("Landlock: {error}");
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(KNOWN)).map_err(describe)?;
    let mut ruleset = ruleset.scope(Scope::from_all(KNOWN)).map_err(describe)?.create().map_err(describe)?;
    // Names are no secret: programs that list a folder on the way go on working.
    if let Ok(root) = PathFd::new("/") {
        ruleset = ruleset.add_rule(PathBeneath::new(root, AccessFs::ReadDir)).map_err(describe)?;
    }
    let hidden: Vec<PathBuf> = hidden.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    let mut open = Vec::new();
    around(Path::new("/"), &hidden, &mut open);
    open.extend(allowed.iter().map(|path| path.to_path_buf()));
    for path in open {
        let access = if path.is_dir() { AccessFs::from_all(KNOWN) } else { AccessFs::from_file(KNOWN) };
        // What vanishes meanwhile needs no permission.
        let Ok(opened) = PathFd::new(&path) else { continue };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access)).map_err(describe)?;
    }
    let status = ruleset.restrict_self().map_err(describe)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(not(target_os = "linux"))]
fn hide(_: &[PathBuf], _: &[&Path]) -> Result<bool, String> {
    Ok(false)
}

/// Everything that is neither hidden nor on the way to it. Links are left out: what they lead to has its own place.
#[cfg(target_os = "linux")]
fn around(path: &Path, hidden: &[PathBuf], open: &mut Vec<PathBuf>) {
    if hidden.iter().any(|one| one == path) {
        return;
    }
    if !hidden.iter().any(|one| one.starts_with(path)) {
        open.push(path.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            around(&entry.path(), hidden, open);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_the_hidden_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("data/tasks")).unwrap();
        std::fs::create_dir(root.join("other")).unwrap();
        std::fs::write(root.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("data"), root.join("link")).unwrap();
        let mut open = Vec::new();
        around(&root, &[root.join("data")], &mut open);
        open.sort();
        assert_eq!(open, [root.join("file"), root.join("other")]);
    }

    #[tokio::test]
    async fn a_process_of_a_restricted_thread_reads_only_what_is_allowed() {
        if !is_available() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("data/own")).unwrap();
        for file in ["data/key", "data/own/file", "beside"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let confinement = Confinement { hidden: vec![root.join("data")], user: None };
        let own = root.join("data/own");
        for (file, readable) in [("data/key", false), ("data/own/file", true), ("beside", true)] {
            let mut command = Command::new("cat");
            command.arg(root.join(file)).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            let status = confinement.spawn(&mut command, &[&own]).unwrap().wait().await.unwrap();
            assert_eq!(status.success(), readable, "{file}");
            assert!(std::fs::read(root.join(file)).is_ok(), "this process is not restricted");
        }
    }
}
