//! What is executed for a script: interpreter, arguments, working directory.
//!
//! | `shell` | command |
//! | --- | --- |
//! | none | as `bash` if there is one, else as `sh` |
//! | `bash` | `bash --noprofile --norc -eo pipefail -c SCRIPT` |
//! | `sh` | `sh -e -c SCRIPT` |
//! | anything else | its words, with `{0}` replaced by a file holding the script, or that file as last argument |
//!
//! Words are split at blanks, never by a shell.
//!
//! The first failing command ends a bash or sh script, as users of GitHub Actions expect. Scripts too long for an
//! argument go through a file as well.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mainspring_core::work::{Assignment, Failure, Order};
use nix::unistd::{AccessFlags, access};
use tokio::process::Child;

use super::bundle::unpack;
use super::direct::plain_command;
use super::environment::is_function;
use super::launch::{Launch, explain, missing, refused, shown};
use super::place::Place;
use super::script::Script;
use super::{env_file, interpreter, limits};
use crate::config::PoolConfig;
use crate::confine::Confinement;
use crate::text::locked;

/// Linux refuses single arguments of 128 KiB.
const ARGUMENT_LIMIT: usize = 100_000;
const FALLBACK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const BASH: &[&str] = &["--noprofile", "--norc", "-eo", "pipefail"];
const SH: &[&str] = &["-e"];

/// What all attempts of a pool have in common, found out once.
#[derive(Debug)]
pub(crate) struct Workbench {
    root: Mutex<Option<tempfile::TempDir>>,
    pub(super) root_path: PathBuf,
    base: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
    path: OsString,
    default_shell: &'static str,
    /// Paths of programs that were found in the common PATH.
    programs: Mutex<HashMap<String, PathBuf>>,
    pub(super) next: AtomicU64,
    pub(super) engine: Option<PathBuf>,
    /// Working directories that can be reused.
    directories: Mutex<Vec<PathBuf>>,
    confinement: Option<Confinement>,
    /// Held by copies of files that are still to be stored.
    copies: Arc<()>,
}

impl Workbench {
    pub(crate) fn new(config: &PoolConfig) -> io::Result<Self> {
        let parent = config.root.clone().unwrap_or_else(std::env::temp_dir);
        std::fs::create_dir_all(&parent)?;
        // No other user of this machine may read outputs.
        let account = config.confinement.as_ref().and_then(|confinement| confinement.user.as_ref());
        // Another account has to find its way to its own folder in it.
        let private = std::fs::Permissions::from_mode(if account.is_some() { 0o711 } else { 0o700 });
        let mut root = tempfile::Builder::new();
        let root = root.prefix("mainspring-").permissions(private).tempdir_in(std::path::absolute(parent)?)?;
        let base = match &config.base {
            Some(base) => std::path::absolute(base)?,
            None => std::env::current_dir()?,
        };
        let mut environment: Vec<(OsString, OsString)> = Vec::new();
        for name in &config.environment {
            if let Some(value) = std::env::var_os(name) {
                environment.push((name.into(), value));
            }
        }
        if let Some(account) = account {
            environment.retain(|(name, _)| !["HOME", "USER", "LOGNAME"].iter().any(|own| name == own));
            environment.push(("HOME".into(), account.home.clone().into()));
            environment.extend(["USER", "LOGNAME"].map(|name| (name.into(), account.name.clone().into())));
        }
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let path = path.unwrap_or_else(|| {
            environment.push(("PATH".into(), FALLBACK_PATH.into()));
            FALLBACK_PATH.into()
        });
        let default_shell = if search(&path, "bash").is_some() { "bash" } else { "sh" };
        Ok(Self {
            root_path: root.path().to_owned(),
            root: Mutex::new(Some(root)),
            base,
            environment,
            path,
            default_shell,
            programs: Mutex::default(),
            next: AtomicU64::new(1),
            engine: config.container_engine.clone(),
            directories: Mutex::default(),
            confinement: config.confinement.clone(),
            copies: Arc::default(),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root_path
    }

    pub(super) fn copy_token(&self) -> Arc<()> {
        Arc::clone(&self.copies)
    }

    /// Whether copies of files are still to be stored.
    pub(crate) fn has_copies(&self) -> bool {
        Arc::strong_count(&self.copies) > 1
    }

    /// Removes everything on disk; no attempt may be running.
    pub(crate) fn close(&self) {
        drop(locked(&self.root).take());
    }

    /// Starts a script in a process group of its own.
    pub(super) fn start(
        &self,
        assignment: &Assignment,
        place: &mut Place,
        script: &Script<'_>,
    ) -> Result<Child, Failure> {
        if script.text.contains('\0') {
            return Err(refused("the script contains a NUL character"));
        }
        place.remove_script();
        place.container = None;
        if let Some(container) = &assignment.order.process.container {
            return self.start_container(assignment, place, script, container);
        }
        let directory = match script.step.and_then(|step| step.cwd).filter(|cwd| !cwd.is_empty()) {
            Some(cwd) => place.working.join(checked(cwd)?),
            None => place.working.clone(),
        };
        let output = place.output.clone();
        let files = place.directory().filter(|_| has_files(&assignment.order)).map(Path::to_owned);
        let from_files = env_file::read_all(files.as_deref(), &assignment.order.process.env_files)?;
        let mut environment = self.environment(assignment, &from_files, &output)?;
        if let Some(files) = &files {
            environment.push((OsStr::new("MAINSPRING_FILES"), Cow::from(files.as_os_str())));
        }
        if let Some(step) = &script.step {
            environment.extend(step.env.iter().map(|(name, value)| (OsStr::new(name), Cow::from(OsStr::new(value)))));
            environment.push((OsStr::new("MAINSPRING_STEP"), Cow::from(OsStr::new(step.name))));
        }
        let limits = limits::instruction(&assignment.order.limits);
        if limits.is_some() && environment.iter().any(|(name, _)| is_function(name)) {
            return Err(refused("a task with limits cannot have variables named BASH_FUNC_…: they redefine commands"));
        }
        let launch =
            Launch { confinement: self.confinement.as_ref(), environment: &environment, directory: &directory };
        let shell = script.shell.map(str::trim).filter(|shell| !shell.is_empty()).unwrap_or(self.default_shell);
        let path = environment.iter().rev().find(|(name, _)| *name == "PATH").map_or(self.path.as_os_str(), |(_, v)| v);
        if limits.is_none()
            && let Some(child) = self.start_directly(shell, script.text, path, launch, place)
        {
            return Ok(child);
        }
        let words = self.words(shell, script.text, place)?;
        self.prepare_place(place)?;
        let Some(program) = self.find(&words[0], path, &directory) else {
            return Err(refused(format!(
                "the shell `{}` does not exist in PATH ({}); install it on this worker, or write its full path in `shell`",
                shown(&words[0]),
                path.display()
            )));
        };
        let mut command = match &limits {
            None => launch.command(&program, &words[0], place),
            // The limits hold from the first instruction of the program on; a missing program is reported before.
            Some(_) if !program.is_file() => return Err(missing(&program)),
            Some(instruction) => {
                let mut command = launch.command(Path::new(limits::SHELL), "sh", place);
                command.args(["-c", instruction, "sh"]).arg(&program);
                command
            }
        };
        match launch.spawn(command.args(&words[1..]), place) {
            Ok(child) => Ok(child),
            Err(error) => {
                locked(&self.programs).remove(&words[0]);
                Err(explain(&error, &program, &directory))
            }
        }
    }

    pub(super) fn engine(&self) -> Option<&Path> {
        self.engine.as_deref()
    }

    /// Where the script runs: in a private folder, or in `cwd`. Files that the workflow or other tasks bring are put
    /// into a private folder, never elsewhere; a relative `cwd` leads into it then.
    pub(super) fn place(&self, order: &Order, cwd: Option<&str>) -> Result<Place, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let cwd = cwd.filter(|cwd| !cwd.is_empty()).map(checked).transpose()?;
        // In a container `cwd` is a place inside of it.
        let cwd = cwd.filter(|_| order.process.container.is_none());
        if !has_files(order) {
            let Some(cwd) = cwd else { return self.place_with_directory(number, true) };
            let mut place = Place::new(&self.root_path, number);
            place.working = self.base.join(cwd);
            return Ok(place);
        }
        let mut place = self.place_with_directory(number, false)?;
        if let Some(bundle) = &order.files {
            unpack(bundle, &place.working)?;
        }
        if let Some(cwd) = cwd {
            place.working = place.working.join(cwd);
        }
        Ok(place)
    }

    fn place_with_directory(&self, number: u64, reuse: bool) -> Result<Place, Failure> {
        let earlier = if reuse { locked(&self.directories).pop() } else { None };
        Place::with_directory(&self.root_path, number, earlier).map_err(|error| {
            refused(format!("cannot make a working directory in {}: {error}", self.root_path.display()))
        })
    }

    /// Gives a task that is kept apart what it needs of its place.
    fn prepare_place(&self, place: &mut Place) -> Result<(), Failure> {
        let Some(confinement) = &self.confinement else { return Ok(()) };
        let account = confinement.user.as_ref().map(|user| (user.uid, user.gid));
        place.prepare_for(account).map_err(|error| refused(format!("cannot make the folder of the task: {error}")))
    }

    /// Takes back the place of an attempt; its directory is used again if no process can still be at work in it.
    pub(super) fn take_back(&self, place: Place, deserted: bool) {
        if deserted && let Some(directory) = place.reusable_directory() {
            locked(&self.directories).push(directory);
        }
    }

    /// Without a shell, if the script is a plain command that can be found; else the shell says what is wrong with it.
    fn start_directly(
        &self,
        shell: &str,
        script: &str,
        path: &OsStr,
        launch: Launch<'_>,
        place: &mut Place,
    ) -> Option<Child> {
        if shell != "bash" && shell != "sh" {
            return None;
        }
        // Functions and start-up files in the environment can give any word another meaning.
        let meddling = |name: &OsStr| name == "BASH_ENV" || is_function(name);
        if launch.environment.iter().any(|(name, _)| meddling(name)) {
            return None;
        }
        let words = plain_command(script)?;
        let program = self.find(words[0], path, launch.directory)?;
        self.prepare_place(place).ok()?;
        launch.spawn(launch.command(&program, words[0], place).args(&words[1..]), place).ok()
    }

    fn words(&self, shell: &str, script: &str, place: &mut Place) -> Result<Vec<String>, Failure> {
        let options = match shell {
            "bash" => Some(BASH),
            "sh" => Some(SH),
            _ => None,
        };
        let mut words: Vec<String> = match options {
            Some(options) => std::iter::once(shell).chain(options.iter().copied()).map(str::to_owned).collect(),
            None => interpreter::split(shell)
                .map_err(|why| refused(format!("the shell `{}` cannot be used: {why}", shown(shell))))?,
        };
        if options.is_some() && script.len() <= ARGUMENT_LIMIT {
            words.extend(["-c".to_owned(), script.to_owned()]);
            return Ok(words);
        }
        let file = place.write_script(script).map_err(|error| refused(format!("cannot write the script: {error}")))?;
        let file = file.to_string_lossy();
        if words.iter().any(|word| word.contains("{0}")) {
            words.iter_mut().for_each(|word| *word = word.replace("{0}", &file));
        } else {
            words.push(file.into_owned());
        }
        Ok(words)
    }

    /// The program's absolute path. Looking it up here rather than in the child keeps the cheap way of spawning.
    fn find(&self, program: &str, path: &OsStr, directory: &Path) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(directory.join(program));
        }
        if path != self.path {
            return search(path, program);
        }
        let mut programs = locked(&self.programs);
        if let Some(found) = programs.get(program) {
            return Some(found.clone());
        }
        let found = search(path, program)?;
        programs.insert(program.to_owned(), found.clone());
        Some(found)
    }
}

/// Whether something is put into the folder of the task before it begins.
pub(super) fn has_files(order: &Order) -> bool {
    order.files.is_some() || !order.process.incoming.is_empty() || order.process.cache.is_some()
}

/// A directory that does not lead elsewhere by `..`.
fn checked(cwd: &str) -> Result<&Path, Failure> {
    let path = Path::new(cwd);
    if cwd.contains('\0') || path.is_relative() && path.components().any(|part| part == Component::ParentDir) {
        let shown = shown(cwd);
        return Err(refused(format!("the working directory `{shown}` leads elsewhere by `..`; write a full path")));
    }
    Ok(path)
}

fn search(path: &OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file() && access(candidate, AccessFlags::X_OK).is_ok())
}
