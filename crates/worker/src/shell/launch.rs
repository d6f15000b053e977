//! Starts a command of a task, and says why it cannot be started.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::Stdio;

use mainspring_core::work::Failure;
use nix::errno::Errno;
use tokio::process::{Child, Command};

use super::environment::Environment;
use super::place::Place;
use crate::confine::Confinement;
use crate::text::first_characters;

/// How a command of a task is started.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) confinement: Option<&'a Confinement>,
    pub(super) environment: &'a Environment<'a>,
    pub(super) directory: &'a Path,
}

impl Launch<'_> {
    /// The command under a name of its own, in a process group of its own.
    pub(super) fn command(&self, program: &Path, name: &str, place: &Place) -> Command {
        let environment = self.environment.iter().map(|(name, value): &(&OsStr, Cow<'_, OsStr>)| (*name, &**value));
        let mut command = Command::new(program);
        command.arg0(name).env_clear().envs(environment).current_dir(self.directory);
        // Elsewhere the task may not be allowed to create files.
        if let (Some(Confinement { hidden, .. }), Some(own)) = (self.confinement, place.directory())
            && !hidden.is_empty()
        {
            command.env("TMPDIR", own);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }

    /// Starts the command, kept apart from the server where that is wanted.
    pub(super) fn spawn(&self, command: &mut Command, place: &Place) -> io::Result<Child> {
        match self.confinement {
            None => command.spawn(),
            Some(confinement) => confinement.spawn(command, &place.parts().collect::<Vec<_>>()),
        }
    }
}

pub(super) fn shown(text: &str) -> String {
    first_characters(text, 200).escape_debug().to_string()
}

pub(super) fn missing(program: &Path) -> Failure {
    let program = program.display();
    refused(format!("the program `{program}` does not exist; install it on this worker, or correct `shell`"))
}

pub(super) fn refused(message: impl Into<String>) -> Failure {
    Failure { kind: "spawn".into(), message: message.into(), ..Failure::default() }
}

pub(super) fn explain(error: &io::Error, program: &Path, directory: &Path) -> Failure {
    if !directory.is_dir() {
        return refused(format!("the working directory `{}` does not exist", directory.display()));
    }
    match error.kind() {
        ErrorKind::NotFound => missing(program),
        _ if error.raw_os_error() == Some(Errno::E2BIG as i32) => refused(
            "script and environment are too large for the operating system; \
             a single variable may have 128 KiB: pass large values through files",
        ),
        _ => refused(format!("cannot start `{}`: {error}", program.display())),
    }
}
