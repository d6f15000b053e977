//! Keeps tasks away from what belongs to the server: its database file, keys, tokens, and the folders of other tasks.
//!
//! Tasks run on the machine of their worker, and on a single node that is the machine of the server. A process can only
//! bind itself, so this program is started once more as a small step before the task's own: it takes another user, gives up by
//! Landlock whatever is hidden, and becomes the task. Landlock knows only what is allowed, so everything is, except
//! the folders on the way to what is hidden: what lies beside them is allowed one by one, as it is at that moment.
//!
//! What a task cannot do then: read, write or execute anything hidden; make files directly in a folder that holds something
//! hidden; signal or trace processes that are not its own; gain rights by setuid programs such as sudo.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::unistd::{Gid, Uid, User};

/// The argument that makes the program run as the confinement step.
pub const WORD: &str = "confine";
/// The exit code when the step could not do its work. Shells use the same one for commands that they cannot execute.
const FAILED: u8 = 126;
/// Variables that change what the step itself does: they are set when it becomes the task.
const MEDDLING: &[&str] = &["LD_", "GLIBC_", "MALLOC_", "RUST_", "DYLD_"];

/// How tasks are kept apart from the server.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// The command line that calls [`main`], such as `[current_exe, "confine"]`.
    pub step: Vec<OsString>,
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
    /// The arguments of the step: what to hide, what to allow nevertheless, who to be, and behind them the task's own command.
    pub(crate) fn arguments<'a>(
        &self,
        allowed: impl Iterator<Item = &'a Path>,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = self.step.iter().skip(1).cloned().collect();
        for hidden in &self.hidden {
            arguments.extend(["--hide".into(), hidden.into()]);
        }
        for allowed in allowed {
            arguments.extend(["--allow".into(), allowed.into()]);
        }
        if let Some(user) = &self.user {
            arguments.extend(["--user".into(), format!("{}:{}", user.uid, user.gid).into()]);
        }
        for (name, value) in environment {
            let mut pair = name;
            pair.push("=");
            pair.push(value);
            arguments.extend(["--env".into(), pair]);
        }
        arguments
    }
}

/// Whether a variable would act on the step before it has bound itself.
pub(crate) fn is_meddling(name: &std::ffi::OsStr) -> bool {
    MEDDLING.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}

/// Whether this system can hide files from a process, found out by a process that tries.
pub fn is_available(step: &[OsString]) -> bool {
    let Some((program, arguments)) = step.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(arguments).arg("--probe").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[derive(Debug, Default)]
struct Wanted {
    probe: bool,
    hidden: Vec<PathBuf>,
    allowed: Vec<PathBuf>,
    user: Option<(Uid, Gid)>,
    environment: Vec<(OsString, OsString)>,
    /// The name under which the command is called, the command, its arguments.
    command: Vec<OsString>,
}

/// The step: to be called before there is a second thread, with what stands behind its word.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let wanted = match read(arguments) {
        Ok(wanted) => wanted,
        Err(why) => return fail(&why),
    };
    if wanted.probe {
        return match hide(&[PathBuf::from("/nonexistent/mainspring")], &[]) {
            Ok(true) => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        };
    }
    if let Err(why) = bind(&wanted) {
        return fail(&why);
    }
    let [name, program, arguments @ ..] = wanted.command.as_slice() else { return fail("no command") };
    let error = Command::new(program).arg0(name).args(arguments).envs(wanted.environment.iter().cloned()).exec();
    fail(&format!("cannot start `{}`: {error}", program.display()))
}

#[expect(clippy::print_stderr, reason = "what it says goes to the log of the task")]
fn fail(why: &str) -> ExitCode {
    eprintln!("mainspring: the task was not started: {why}");
    ExitCode::from(FAILED)
}

fn read(mut arguments: impl Iterator<Item = OsString>) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("an argument lacks its value");
        match argument.as_bytes() {
            b"--" => {
                wanted.command = arguments.collect();
                break;
            }
            b"--probe" => wanted.probe = true,
            b"--hide" => wanted.hidden.push(value()?.into()),
            b"--allow" => wanted.allowed.push(value()?.into()),
            b"--user" => wanted.user = Some(account(&value()?).ok_or("--user is not UID:GID")?),
            b"--env" => wanted.environment.push(pair(&value()?).ok_or("--env is not NAME=VALUE")?),
            _ => return Err(format!("unknown argument {}", argument.display())),
        }
    }
    Ok(wanted)
}

fn account(text: &std::ffi::OsStr) -> Option<(Uid, Gid)> {
    let (uid, gid) = text.to_str()?.split_once(':')?;
    Some((Uid::from_raw(uid.parse().ok()?), Gid::from_raw(gid.parse().ok()?)))
}

fn pair(text: &std::ffi::OsStr) -> Option<(OsString, OsString)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    Some((OsString::from_vec(bytes[..at].to_vec()), OsString::from_vec(bytes[at + 1..].to_vec())))
}

/// Takes the rights of this process away.
fn bind(wanted: &Wanted) -> Result<(), String> {
    // The folders are looked through with the rights of the worker, before they are gone.
    if !wanted.hidden.is_empty() && !hide(&wanted.hidden, &wanted.allowed)? {
        return Err("this system cannot hide files from it any more (Landlock)".into());
    }
    if let Some((uid, gid)) = wanted.user {
        let taken = set_groups(gid).and_then(|()| nix::unistd::setgid(gid)).and_then(|()| nix::unistd::setuid(uid));
        taken.map_err(|error| format!("it cannot become user {uid}: {error}"))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn set_groups(gid: Gid) -> nix::Result<()> {
    nix::unistd::setgroups(&[gid])
}

#[cfg(not(target_os = "linux"))]
fn set_groups(_: Gid) -> nix::Result<()> {
    Ok(())
}

/// Hides files and folders from this process and whatever it becomes; false where the system cannot.
#[cfg(target_os = "linux")]
fn hide(hidden: &[PathBuf], allowed: &[PathBuf]) -> Result<bool, String> {
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
    open.extend(allowed.iter().cloned());
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
fn hide(_: &[PathBuf], _: &[PathBuf]) -> Result<bool, String> {
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

    #[test]
    fn arguments_are_read_back() {
        let user = Some(Account { name: "x".into(), uid: 7, gid: 8, home: "/".into() });
        let confinement = Confinement { step: vec!["m".into(), WORD.into()], hidden: vec!["/h".into()], user };
        let environment = [(OsString::from("LD_PRELOAD"), OsString::from("a=b"))];
        let mut arguments = confinement.arguments([Path::new("/a")].into_iter(), environment.into_iter());
        arguments.extend(["--", "sh", "/bin/sh", "--hide"].map(OsString::from));
        let wanted = read(arguments.into_iter().skip(1)).unwrap();
        assert_eq!((wanted.hidden, wanted.allowed), (vec!["/h".into()], vec!["/a".into()]));
        assert_eq!(wanted.user, Some((Uid::from_raw(7), Gid::from_raw(8))));
        assert_eq!(wanted.environment, [("LD_PRELOAD".into(), "a=b".into())]);
        assert_eq!(wanted.command, ["sh", "/bin/sh", "--hide"]);
    }
}
