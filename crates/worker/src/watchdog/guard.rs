//! The worker's end of the pipe.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::config::PoolConfig;
use crate::text::locked;

/// A helper that leaves this many bytes unread is stuck.
const UNSENT_LIMIT: usize = 1024 * 1024;

/// Feeds the helper, and replaces it when it dies. Writing never waits.
#[derive(Debug)]
pub(crate) struct Guard {
    command: Vec<OsString>,
    engine: Option<PathBuf>,
    directory: PathBuf,
    alive: Duration,
    /// The worker itself first ends the groups that the store was silent about, and hands them back.
    margin: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How long each group may live without a beat.
    groups: HashMap<i32, Duration>,
    /// Containers that end with their group.
    containers: HashMap<i32, String>,
    helper: Option<Helper>,
    closed: bool,
}

#[derive(Debug)]
struct Helper {
    child: Child,
    pipe: ChildStdin,
    /// Bytes that the pipe had no room for.
    unsent: Vec<u8>,
}

impl Guard {
    pub(crate) fn start(command: Vec<OsString>, directory: &Path, config: &PoolConfig) -> io::Result<Self> {
        let guard = Self {
            command,
            engine: config.container_engine.clone(),
            directory: directory.to_owned(),
            alive: config.lease_ttl * 2,
            margin: config.lease_ttl / 2,
            state: Mutex::default(),
        };
        let helper = guard.spawn(&State::default())?;
        locked(&guard.state).helper = Some(helper);
        Ok(guard)
    }

    /// Registers a group. The helper kills it when no beat arrives for `patience`.
    pub(crate) fn add(&self, group: i32, patience: Duration) {
        let patience = patience + self.margin;
        let mut state = locked(&self.state);
        state.groups.insert(group, patience);
        self.send(&mut state, format_args!("+{group} {}\n", patience.as_millis()));
    }

    /// The group runs a container of this name, which ends with it.
    pub(crate) fn contain(&self, group: i32, name: &str) {
        let mut state = locked(&self.state);
        state.containers.insert(group, name.to_owned());
        self.send(&mut state, format_args!("container {group} {name}\n"));
    }

    pub(crate) fn remove(&self, group: i32) {
        let mut state = locked(&self.state);
        state.groups.remove(&group);
        state.containers.remove(&group);
        self.send(&mut state, format_args!("-{group}\n"));
    }

    pub(crate) fn send_beat(&self) {
        self.send(&mut locked(&self.state), format_args!("beat\n"));
    }

    /// Sends a sign of life. It also notices a dead helper while nothing else is sent.
    pub(crate) fn send_alive(&self) {
        self.send(&mut locked(&self.state), format_args!("alive {}\n", self.alive.as_millis()));
    }

    /// The helper ends with its pipe.
    pub(crate) fn close(&self) {
        let mut state = locked(&self.state);
        state.closed = true;
        if let Some(Helper { mut child, pipe, .. }) = state.helper.take() {
            drop(pipe);
            if let Err(error) = child.wait() {
                tracing::warn!(%error, "cannot wait for the watchdog");
            }
        }
    }

    fn send(&self, state: &mut State, line: std::fmt::Arguments<'_>) {
        if state.closed {
            return;
        }
        if let Some(helper) = &mut state.helper {
            match helper.send(line) {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "the watchdog does not answer and is replaced"),
            }
            let mut child = state.helper.take().map(|helper| helper.child);
            if let Some(child) = &mut child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        match self.spawn(state) {
            Ok(helper) => state.helper = Some(helper),
            Err(error) => tracing::error!(%error, "cannot replace the watchdog; trying again"),
        }
    }

    fn spawn(&self, state: &State) -> io::Result<Helper> {
        let (program, arguments) = self.command.split_first().ok_or(ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir("/").process_group(0);
        if self.engine.is_some() {
            let needed = ["PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST", "CONTAINERS_CONF"];
            command.envs(needed.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let pipe = child.stdin.take().ok_or(ErrorKind::BrokenPipe)?;
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut helper = Helper { child, pipe, unsent: Vec::new() };
        helper.send(format_args!("directory {}\n", self.directory.display()))?;
        if let Some(engine) = &self.engine {
            helper.send(format_args!("engine {}\n", engine.display()))?;
        }
        for (group, patience) in &state.groups {
            helper.send(format_args!("+{group} {}\n", patience.as_millis()))?;
        }
        for (group, name) in &state.containers {
            helper.send(format_args!("container {group} {name}\n"))?;
        }
        helper.send(format_args!("alive {}\nbeat\n", self.alive.as_millis()))?;
        Ok(helper)
    }
}

impl Helper {
    fn send(&mut self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.unsent.write_fmt(line)?;
        while !self.unsent.is_empty() {
            match self.pipe.write(&self.unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.unsent.len() < UNSENT_LIMIT => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
